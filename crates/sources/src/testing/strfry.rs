//! An LMDB environment as strfry makes it, of the databases that a reader needs: written by the
//! descriptions of its schema (golpe.yaml) and of `RasgueaDB`, not by strfry itself.

use std::path::Path;

use hikyaku_event::Event;
use lmdb::{Database, DatabaseFlags, Environment, Transaction, WriteFlags};

/// A folder that a relay has open.
#[derive(Debug)]
pub struct StrfryFolder {
    environment: Environment,
    payloads: Database,
    next: u64,
}

#[expect(clippy::expect_used, reason = "a test may panic")]
impl StrfryFolder {
    /// Makes the environment, with this version in its `Meta`.
    pub fn create(folder: &Path, version: u64) -> Self {
        let environment = Environment::new()
            .set_max_dbs(64)
            .set_map_size(1 << 30)
            .open(folder)
            .expect("a new environment");
        let create = |name: &str| {
            let name = format!("rasgueadb_defaultDb__{name}");
            environment
                .create_db(Some(&name), DatabaseFlags::INTEGER_KEY)
                .expect("a new database")
        };
        let (meta, payloads) = (create("Meta"), create("EventPayload"));
        let dictionaries = create("CompressionDictionary");
        let mut folder = Self {
            environment,
            payloads,
            next: 1,
        };
        folder.put(meta, 1, &meta_table(version));
        folder.put(dictionaries, 7, &dictionary_table(&dictionary()));
        folder
    }

    /// Stores events as they are.
    pub fn add<'a>(&mut self, events: impl IntoIterator<Item = &'a Event>) {
        for event in events {
            self.add_payload(&[&[0], event.json().as_ref()].concat());
        }
    }

    /// Stores an event as `strfry dict compress` leaves it.
    pub fn add_compressed(&mut self, event: &Event) {
        let mut compressor =
            zstd::bulk::Compressor::with_dictionary(3, &dictionary()).expect("a dictionary");
        let frame = compressor.compress(event.json()).expect("it is compressed");
        self.add_payload(&[&[1], 7_u32.to_ne_bytes().as_slice(), &frame].concat());
    }

    /// Stores a payload of any bytes.
    pub fn add_payload(&mut self, payload: &[u8]) {
        self.put(self.payloads, self.next, payload);
        self.next += 1;
    }

    /// Removes the event that was stored as number `number`, from 1.
    pub fn remove(&mut self, number: u64) {
        let mut transaction = self.environment.begin_rw_txn().expect("a transaction");
        transaction
            .del(self.payloads, &number.to_ne_bytes(), None)
            .expect("it is there");
        transaction.commit().expect("it is written");
    }

    fn put(&mut self, database: Database, key: u64, value: &[u8]) {
        let mut transaction = self.environment.begin_rw_txn().expect("a transaction");
        transaction
            .put(database, &key.to_ne_bytes(), &value, WriteFlags::empty())
            .expect("it is written");
        transaction.commit().expect("it is written");
    }
}

/// A dictionary trained on what events have in common.
#[expect(clippy::expect_used, reason = "a test may panic")]
fn dictionary() -> Vec<u8> {
    let samples: Vec<String> = (0..1000)
        .map(|number| {
            format!(
                "{{\"id\":\"{number:064x}\",\"pubkey\":\"{:064x}\",\"created_at\":{number},\
                 \"kind\":1,\"tags\":[[\"p\",\"{:064x}\"]],\"content\":\"note {number}\"}}",
                number * 7919,
                number * 104_729
            )
        })
        .collect();
    zstd::dict::from_samples(&samples, 4096).expect("a dictionary")
}

/// `{ dbVersion, endianness: 1 }` in `FlatBuffers`.
fn meta_table(version: u64) -> Vec<u8> {
    let head = [12, 0, 0, 0, 8, 0, 20, 0, 12, 0, 4, 0, 8, 0, 0, 0];
    [
        head.as_slice(),
        &1_u64.to_le_bytes(),
        &version.to_le_bytes(),
    ]
    .concat()
}

/// `{ dict }` in `FlatBuffers`.
fn dictionary_table(dictionary: &[u8]) -> Vec<u8> {
    let head = [12, 0, 0, 0, 0, 0, 6, 0, 8, 0, 4, 0, 6, 0, 0, 0, 4, 0, 0, 0];
    let count = u32::try_from(dictionary.len()).unwrap_or_default();
    [head.as_slice(), &count.to_le_bytes(), dictionary].concat()
}
