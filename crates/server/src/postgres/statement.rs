//! The statements that a connection has prepared, each text once.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use hashbrown::HashMap;
use tokio::sync::OnceCell;
use tokio_postgres::types::Type;

use super::row::Column;

/// Statements kept prepared. A handler has a few; more than this are made of values.
const STATEMENTS_MAX: usize = 500;

/// A statement as the connection has prepared it.
pub(super) struct Prepared {
    pub(super) name: Name,
    pub(super) parameters: Vec<Type>,
    pub(super) columns: Arc<[Column]>,
    /// It can't be carried out in one transaction with others.
    pub(super) must_be_alone: Cell<bool>,
}

/// What the connection calls a statement, until nobody asks it any more.
pub(super) struct Name {
    pub(super) number: u64,
    pub(super) text: String,
    dropped: Dropped,
}

/// Names of statements that nobody asks any more: what goes out next closes them.
pub(super) type Dropped = Rc<RefCell<Vec<String>>>;

impl Name {
    pub(super) fn new(number: u64, dropped: &Dropped) -> Self {
        Self {
            number,
            text: format!("s{number}"),
            dropped: Rc::clone(dropped),
        }
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.dropped.borrow_mut().push(text);
    }
}

/// A cell for each text, so that those who come while it is prepared wait for the same.
pub(super) type Preparing = Rc<OnceCell<Rc<Prepared>>>;

/// A connection's statements by their texts. The one that was not asked for the longest time makes
/// place for a new one.
#[derive(Default)]
pub(super) struct Statements {
    texts: RefCell<HashMap<Box<str>, Text, foldhash::fast::RandomState>>,
    asked: Cell<u64>,
}

struct Text {
    cell: Preparing,
    /// When it was last asked, in statements.
    asked: Cell<u64>,
}

impl Statements {
    /// Returns a text's statement, if it is prepared.
    pub(super) fn prepared(&self, sql: &str) -> Option<Rc<Prepared>> {
        let texts = self.texts.borrow();
        let text = texts.get(sql)?;
        text.asked.set(self.now());
        text.cell.get().cloned()
    }

    /// Returns a text's cell, in which it is or will be prepared.
    pub(super) fn cell(&self, sql: &str) -> Preparing {
        let mut texts = self.texts.borrow_mut();
        let asked = self.now();
        if let Some(text) = texts.get(sql) {
            text.asked.set(asked);
            return Rc::clone(&text.cell);
        }
        if texts.len() >= STATEMENTS_MAX {
            let oldest = texts.iter().min_by_key(|(_, text)| text.asked.get());
            let oldest = oldest.map(|(sql, _)| sql.clone());
            oldest.map(|sql| texts.remove(&sql));
        }
        let cell = Preparing::default();
        let text = Text {
            cell: Rc::clone(&cell),
            asked: Cell::new(asked),
        };
        texts.insert(sql.into(), text);
        cell
    }

    /// Returns the cell of a text whose statement is outdated: a new one, unless somebody else has made
    /// one already.
    pub(super) fn another(&self, sql: &str, outdated: &Rc<Prepared>) -> Preparing {
        let mut texts = self.texts.borrow_mut();
        let same = |text: &Text| {
            let prepared = text.cell.get();
            prepared.is_some_and(|prepared| Rc::ptr_eq(prepared, outdated))
        };
        if texts.get(sql).is_some_and(same) {
            texts.remove(sql);
        }
        drop(texts);
        self.cell(sql)
    }

    fn now(&self) -> u64 {
        self.asked.update(|asked| asked + 1);
        self.asked.get()
    }
}
