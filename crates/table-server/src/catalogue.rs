//! The tables that are served, by name, each with its writer.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use hikyaku_tables::{Table, Tables, WhenDurable};

use crate::{
    memcached::Leases,
    writer::{Writer, WriterThread},
};

/// A table's place in the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableId(u32);

impl TableId {
    /// Returns the place, from 0.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A table that is served.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) name: String,
    pub(crate) table: Arc<dyn Table>,
    /// The same at each call, and asked for each request.
    pub(crate) updates_wait: bool,
    pub(crate) writer: Writer,
    /// Who renews which record.
    pub(crate) leases: Arc<Leases>,
    /// When all records are removed, in microseconds since 1970; 0: not.
    pub(crate) flush_at_us: AtomicU64,
}

/// The tables that are served; the first is the default. There is always one.
#[derive(Debug)]
pub(crate) struct Catalogue {
    tables: Vec<Served>,
    /// Where the tables are from, if they were opened together.
    set: Option<Arc<Tables>>,
}

impl Catalogue {
    /// Starts a writer for each table. `None` if there is no table.
    pub(crate) fn start(
        tables: Vec<(String, Arc<dyn Table>)>,
        server_id: u32,
    ) -> std::io::Result<Option<(Self, Vec<WriterThread>)>> {
        let mut served = Vec::new();
        let mut threads = Vec::new();
        for (name, table) in tables {
            let (writer, thread) = Writer::start(&name, &table, server_id)?;
            threads.push(thread);
            served.push(Served {
                name,
                updates_wait: table.updates_wait(),
                table,
                writer,
                leases: Arc::default(),
                flush_at_us: AtomicU64::new(0),
            });
        }
        let catalogue = Self {
            tables: served,
            set: None,
        };
        Ok((!catalogue.tables.is_empty()).then_some((catalogue, threads)))
    }

    /// Notes where the tables are from.
    pub(crate) fn of_set(mut self, set: Option<Arc<Tables>>) -> Self {
        self.set = set;
        self
    }

    /// Returns the set that the tables are, if they were opened together.
    pub(crate) fn set(&self) -> Option<&Arc<Tables>> {
        self.set.as_ref()
    }

    /// Returns what answers must wait for, if for anything: that what they tell of is durable.
    pub(crate) fn settled(&self) -> Option<WhenDurable> {
        self.set.as_ref()?.settled()
    }

    /// Removes all records of tables for which it is time: `flush_all` with a delay.
    pub(crate) fn flush_due(&self, now_us: u64) {
        for served in &self.tables {
            let due = served.flush_at_us.load(Relaxed);
            if due == 0 || due > now_us {
                continue;
            }
            // Unless somebody has asked for another time meanwhile.
            let exchanged = served
                .flush_at_us
                .compare_exchange(due, 0, Relaxed, Relaxed);
            if exchanged.is_ok() {
                served.writer.vanish();
            }
        }
    }

    /// The default table.
    pub(crate) const DEFAULT: TableId = TableId(0);

    /// Returns a table.
    #[expect(
        clippy::indexing_slicing,
        reason = "an id is only ever the place of a table in this catalogue, which never changes"
    )]
    pub(crate) fn table(&self, id: TableId) -> &Served {
        &self.tables[id.index()]
    }

    /// Returns all tables in order.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (TableId, &Served)> {
        (0..).map(TableId).zip(&self.tables)
    }

    /// Finds a table by its name.
    pub(crate) fn named(&self, name: &[u8]) -> Option<TableId> {
        self.tables()
            .find(|(_, served)| served.name.as_bytes() == name)
            .map(|(id, _)| id)
    }

    /// Tells which table a key means, and the key in it. `footprints:42` is record 42 of the table
    /// `footprints` if there is one; without one, and without a colon, it is a key of the default
    /// table, as it stands.
    pub(crate) fn resolve<'k>(&self, key: &'k [u8]) -> (TableId, &'k [u8]) {
        let Some(colon) = key.iter().position(|&byte| byte == b':') else {
            return (Self::DEFAULT, key);
        };
        let (name, rest) = key.split_at(colon);
        match (self.named(name), rest.get(1..)) {
            (Some(id), Some(rest)) => (id, rest),
            _ => (Self::DEFAULT, key),
        }
    }
}
