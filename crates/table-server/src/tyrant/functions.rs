//! `misc` in a conversation: its functions by name, and where each is carried out.

use hikyaku_tables::{Stamp, Table};

use super::{
    Session,
    arguments::Strings,
    iterator::KeyIterator,
    misc::{self, Answer},
    session::answer_bytes_max,
    wire::Refusal,
};
use crate::{
    catalogue::{Catalogue, TableId},
    exchange::Exchange,
};

impl Session {
    pub(super) fn misc(&mut self, name: Vec<u8>, arguments: Strings, exchange: &mut Exchange<'_>) {
        let table = &*exchange.catalogue().table(Catalogue::DEFAULT).table;
        let stamp = exchange.stamp();
        let bytes_max = answer_bytes_max(exchange);
        let result = match (&*name, arguments.get(0)) {
            (b"error", _) => {
                let (code, text) = self.error.clone().unwrap_or((0, "success".to_owned()));
                let mut answer = Answer::new(bytes_max);
                answer
                    .push(format!("{code}: {text}").as_bytes())
                    .map(|()| answer.finish())
            }
            (b"iterinit", None) => {
                self.keys = KeyIterator::begin();
                Ok(Answer::new(bytes_max).finish())
            }
            (b"iterinit", Some(key)) => KeyIterator::begin_at(table, key, stamp.seconds())
                .map(|keys| {
                    self.keys = keys;
                    Answer::new(bytes_max).finish()
                })
                .map_err(Into::into),
            (b"iternext", _) => self.next_record(exchange),
            _ => match table_of(&name, &arguments, exchange) {
                Some((id, skip)) if !misc::is_short(&name) => {
                    let is_search = misc::is_search(&name);
                    let task = move |table: &dyn Table, stamp: Stamp| {
                        Ok(misc::call(
                            &name, &arguments, skip, table, stamp, bytes_max,
                        )?)
                    };
                    let task = Box::new(task);
                    let refusal = Refusal::CodeAndCount;
                    // It is settled, so the task is taken.
                    if is_search {
                        self.task_aside(id, task, refusal, exchange);
                    } else {
                        self.task_for(id, task, refusal, exchange);
                    }
                    return;
                }
                Some((id, skip)) => {
                    let table = &*exchange.catalogue().table(id).table;
                    misc::call(&name, &arguments, skip, table, stamp, bytes_max)
                }
                None => Err(misc::MiscError::Tables),
            },
        };
        match result {
            Ok(answer) => exchange.output.extend_from_slice(&answer),
            Err(error) => {
                self.note(&error.into());
                Refusal::CodeAndCount.write(exchange.output);
            }
        }
    }

    /// Returns the next record of the walk: a key and a value.
    fn next_record(&mut self, exchange: &mut Exchange<'_>) -> Result<Vec<u8>, misc::MiscError> {
        let table = &*exchange.catalogue().table(Catalogue::DEFAULT).table;
        let mut answer = Answer::new(answer_bytes_max(exchange));
        let key = self.keys.next(table)?.ok_or(misc::MiscError::Absent)?;
        answer.push(&key)?;
        let now = exchange.stamp().seconds();
        if table.get(&key, now, exchange.value)?.is_some() {
            answer.push(exchange.value)?;
        }
        Ok(answer.finish())
    }
}

/// Tells which table a function is for, and how many bytes before each key say so. Keys of several
/// tables are not for one call.
fn table_of(name: &[u8], arguments: &Strings, exchange: &Exchange<'_>) -> Option<(TableId, usize)> {
    let Some(step) = misc::keys_step(name) else {
        return Some((Catalogue::DEFAULT, 0));
    };
    let mut tables = arguments.iter().step_by(step).map(|key| {
        let (id, rest) = exchange.catalogue().resolve(key);
        (id, key.len() - rest.len())
    });
    let Some(first) = tables.next() else {
        return Some((Catalogue::DEFAULT, 0));
    };
    tables.all(|table| table == first).then_some(first)
}
