//! An LMDB environment as strfry makes it, of the databases that a reader needs: written by the
//! descriptions of its schema (golpe.yaml) and of `RasgueaDB`, not by strfry itself.

use std::path::Path;

use hikyaku_event::Event;
use lmdb::{Database, DatabaseFlags, Environment, Transaction, WriteFlags};

const EVENTS: &str = include_str!("../../testdata/strfry/events.jsonl");
const DICTIONARY: &[u8] = include_bytes!("../../testdata/strfry/dictionary");
/// For each event the length of its frame (u32, little-endian), and the frame.
const FRAMES: &[u8] = include_bytes!("../../testdata/strfry/frames");

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
        folder.put(dictionaries, 7, &dictionary_table(DICTIONARY));
        folder
    }

    /// Stores events as they are.
    pub fn add<'a>(&mut self, events: impl IntoIterator<Item = &'a Event>) {
        for event in events {
            self.add_payload(&[&[0], event.json().as_ref()].concat());
        }
    }

    /// Stores events as `strfry dict compress` leaves them, and returns them: libzstd 1.5.7 has made
    /// the frames, with a dictionary it has trained on 5,000 others.
    pub fn add_compressed(&mut self) -> Vec<Event> {
        let mut rest = FRAMES;
        while let Some((length, after)) = rest.split_first_chunk() {
            let (frame, next) = after.split_at(u32::from_le_bytes(*length) as usize);
            self.add_payload(&[&[1], 7_u32.to_ne_bytes().as_slice(), frame].concat());
            rest = next;
        }
        let lines = EVENTS.lines();
        lines
            .map(|line| Event::parse(line.as_bytes()).expect("an event"))
            .collect()
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
