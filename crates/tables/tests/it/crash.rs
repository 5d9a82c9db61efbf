//! Hash and ordered tables on a disk that loses, tears and refuses.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    sync::{Arc, Mutex},
};

use hikyaku_tables::{
    Attributes, Change, Durability, Effect, KeyedOptions, KeyedTable, Kind, Outcome, Stamp, Table,
    TableError, Update, UpdateSink,
};
use hikyaku_vfs::SimulatedDisk;

const PATH: &str = "/t.ordered";

/// Draws numbers: the same ones for the same seed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(durability: Durability) -> KeyedOptions {
    KeyedOptions {
        durability,
        cache_bytes: 1 << 20,
        // Small, so that it begins anew often.
        journal_bytes_max: 3000,
        ..KeyedOptions::default()
    }
}

fn open(
    disk: &SimulatedDisk,
    durability: Durability,
    sink: Option<Arc<dyn UpdateSink>>,
) -> Result<KeyedTable, TableError> {
    let options = options(durability);
    KeyedTable::open(&disk.disk(), Path::new(PATH), Kind::Ordered, options, sink)
}

fn contents(table: &KeyedTable) -> Contents {
    let mut all = Contents::new();
    for key in table.keys_after(None, usize::MAX).unwrap() {
        let mut value = Vec::new();
        table.get(&key, 0, &mut value).unwrap().unwrap();
        all.insert(key, value);
    }
    assert_eq!(all.len() as u64, table.count());
    all
}

/// Returns the first keys whose values differ.
fn differences(one: &Contents, other: &Contents) -> Vec<String> {
    let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let differing = keys.iter().filter(|key| one.get(**key) != other.get(**key));
    let texts = differing.take(3).map(|key| key.escape_ascii().to_string());
    texts.collect()
}

/// One random update; the values differ in length and are never the same twice.
fn draw(dice: &mut Dice, turn: u64) -> (Vec<u8>, Option<Vec<u8>>) {
    let key = format!("key {}", dice.below(20)).into_bytes();
    let len = if dice.below(9) == 0 {
        5000
    } else {
        dice.below(60)
    };
    let value = [&turn.to_le_bytes()[..], &vec![b'v'; len as usize]].concat();
    (key, (dice.below(4) > 0).then_some(value))
}

fn as_update<'a>(key: &'a [u8], value: Option<&'a Vec<u8>>) -> Update<'a> {
    Update::new(
        key,
        value.map_or(Change::Remove, |value| Change::Put(value)),
    )
}

fn carry_out(contents: &mut Contents, key: &[u8], value: Option<&Vec<u8>>) {
    match value {
        Some(value) => {
            contents.insert(key.to_vec(), value.clone());
        }
        None => {
            contents.remove(key);
        }
    }
}

/// Several lives of a table, each ended by a crash or a kill at any time.
fn live(seed: u64, durability: Durability) {
    let mut dice = Dice::new(seed);
    let mut disk = SimulatedDisk::new(seed);
    let mut states = vec![Contents::new()];
    let mut turn = 0;
    for _ in 0..4 {
        let table = open(&disk, durability, None).unwrap();
        let found = contents(&table);
        assert!(Some(&found) == states.last());
        states = vec![found];
        // What is in the table when it is opened may still be lost if it was not synced before.
        let mut durable = 0;
        table.sync().unwrap();
        for _ in 0..dice.below(40) {
            turn += 1;
            let stamp = Stamp {
                at_us: turn * 300_000,
                origin: 0,
            };
            let mut state = states.last().unwrap().clone();
            match dice.below(24) {
                0 => {
                    table.vanish(stamp).unwrap();
                    state.clear();
                }
                1 => {
                    table.optimise("").unwrap();
                    durable = states.len() - 1;
                }
                2 => {
                    table.sync().unwrap();
                    durable = states.len() - 1;
                }
                3..=8 => {
                    let batch: Vec<_> = (0..dice.below(9)).map(|_| draw(&mut dice, turn)).collect();
                    let updates: Vec<_> = batch
                        .iter()
                        .map(|(key, value)| as_update(key, value.as_ref()))
                        .collect();
                    let mut outcomes = Vec::new();
                    table.update_all(&updates, stamp, &mut outcomes);
                    assert!(outcomes.iter().all(Result::is_ok));
                    for (key, value) in &batch {
                        carry_out(&mut state, key, value.as_ref());
                    }
                }
                _ => {
                    let (key, value) = draw(&mut dice, turn);
                    table
                        .update(&as_update(&key, value.as_ref()), stamp)
                        .unwrap();
                    carry_out(&mut state, &key, value.as_ref());
                }
            }
            states.push(state);
            if durability == Durability::Sync {
                durable = states.len() - 1;
            }
        }
        let last = states.last().unwrap().clone();
        disk = match dice.below(4) {
            0 => {
                drop(table);
                states = vec![last];
                durable = 0;
                disk.crash(turn)
            }
            1 => {
                let next = disk.kill();
                states = vec![last];
                durable = 0;
                next
            }
            _ => disk.crash(turn),
        };
        let table = open(&disk, durability, None).unwrap();
        let found = contents(&table);
        let possible = &states[durable..];
        assert!(
            possible.contains(&found),
            "seed {seed}, {durability}: {} states",
            possible.len()
        );
        if durability == Durability::Sync {
            assert!(Some(&found) == states.last());
        }
        states = vec![found];
        let next = disk.kill();
        drop(table);
        disk = next;
    }
}

#[test]
fn a_synced_table_loses_nothing_at_a_power_cut() {
    for seed in 0..60 {
        live(seed, Durability::Sync);
    }
}

#[test]
fn an_unsynced_table_loses_only_its_end_at_a_power_cut() {
    for seed in 0..60 {
        live(seed, Durability::None);
        live(seed, Durability::Interval);
    }
}

#[test]
fn a_table_syncs_at_its_interval() {
    let disk = SimulatedDisk::new(1);
    let table = open(&disk, Durability::Interval, None).unwrap();
    let put = |at_us| {
        let update = Update::new(b"k", Change::Put(b"v"));
        table.update(&update, Stamp { at_us, origin: 0 }).unwrap();
        disk.calls(Some(hikyaku_vfs::Call::Sync))
    };
    let first = put(5_000_000);
    assert_eq!(put(5_900_000), first);
    assert_eq!(put(6_000_000), first + 1);
    assert_eq!(put(6_000_001), first + 1);
    // A clock that is set back does not put it off.
    assert_eq!(put(1_000_000), first + 2);
}

#[test]
fn what_is_applied_is_durable_after_a_sync() {
    let disk = SimulatedDisk::new(1);
    let table = open(&disk, Durability::Sync, None).unwrap();
    let syncs = || disk.calls(Some(hikyaku_vfs::Call::Sync));
    let before = syncs();
    for i in 0..100_u32 {
        let effect = Effect::Put {
            key: &i.to_be_bytes(),
            value: b"v",
            attributes: Attributes::default(),
        };
        table.apply(effect, Stamp::default()).unwrap();
    }
    // Some: the journal began anew.
    assert!(syncs() - before < 10);
    table.sync().unwrap();
    let table = open(&disk.crash(1), Durability::Sync, None).unwrap();
    assert_eq!(table.count(), 100);
}

#[derive(Debug, Default)]
struct Replica(Mutex<Contents>);

impl UpdateSink for Replica {
    fn updated(&self, effect: Effect<'_>, _: Stamp) -> Result<(), TableError> {
        let mut contents = self.0.lock().unwrap();
        match effect {
            Effect::Put { key, value, .. } => {
                contents.insert(key.to_vec(), value.to_vec());
            }
            Effect::Remove { key } => {
                contents.remove(key);
            }
            Effect::Vanish => contents.clear(),
        }
        Ok(())
    }
}

/// One call of the disk fails; the table goes on by itself, or is opened again.
#[test]
fn a_failing_call_is_an_error_and_nothing_is_half_done() {
    for nth in 1.. {
        let disk = SimulatedDisk::new(nth);
        let sink = Arc::new(Replica::default());
        let table = open(&disk, Durability::Sync, Some(Arc::clone(&sink) as _)).unwrap();
        let mut dice = Dice::new(nth);
        let mut state = Contents::new();
        let mut failures = 0;
        disk.fail_nth_call(nth, io::ErrorKind::Other);
        let calls = disk.calls(None);
        for turn in 1..40 {
            let stamp = Stamp {
                at_us: turn * 2_000_000,
                origin: 0,
            };
            let (key, value) = draw(&mut dice, turn);
            match table.update(&as_update(&key, value.as_ref()), stamp) {
                Ok(_) => carry_out(&mut state, &key, value.as_ref()),
                Err(TableError::Io(_)) => {
                    failures += 1;
                    // It may have been written, but not seen.
                    assert_eq!(
                        differences(&contents(&table), &state),
                        [""; 0],
                        "call {nth}"
                    );
                    assert_eq!(
                        differences(&sink.0.lock().unwrap(), &state),
                        [""; 0],
                        "call {nth}"
                    );
                    // The table is opened again by the next update, and may then have it.
                    let again = table.update(
                        &as_update(&key, value.as_ref()),
                        Stamp {
                            at_us: stamp.at_us + 1_000_000,
                            ..stamp
                        },
                    );
                    if again.is_ok() {
                        carry_out(&mut state, &key, value.as_ref());
                    }
                }
                Err(error) => panic!("call {nth}: {error:?}"),
            }
            assert_eq!(
                differences(&contents(&table), &state),
                [""; 0],
                "call {nth}"
            );
        }
        assert!(failures <= 1);
        drop(table);
        let is_over = disk.calls(None) - calls < nth;
        disk.clear_faults();
        let table = open(&disk, Durability::Sync, None).unwrap();
        assert_eq!(
            differences(&contents(&table), &state),
            [""; 0],
            "call {nth}"
        );
        if is_over {
            assert!(nth > 100, "the failures were tried");
            break;
        }
    }
}

/// Every call of opening, working and closing fails once; a crash comes after.
#[test]
fn a_table_can_be_opened_after_any_failure() {
    for nth in 1.. {
        let disk = SimulatedDisk::new(nth);
        disk.fail_nth_call(nth, io::ErrorKind::Other);
        let mut state = Contents::new();
        let mut maybe = None;
        if let Ok(table) = open(&disk, Durability::Sync, None) {
            let mut dice = Dice::new(nth);
            for turn in 1..9 {
                let stamp = Stamp::default();
                let (key, value) = draw(&mut dice, turn);
                if table
                    .update(&as_update(&key, value.as_ref()), stamp)
                    .is_ok()
                {
                    carry_out(&mut state, &key, value.as_ref());
                } else {
                    let mut with = state.clone();
                    carry_out(&mut with, &key, value.as_ref());
                    maybe = Some(with);
                    break;
                }
                if turn == 4 {
                    // Refused, it changes nothing.
                    let _ = table.optimise("");
                }
            }
        }
        let is_over = disk.calls(None) < nth;
        disk.clear_faults();
        let disk = disk.crash(nth);
        let table = open(&disk, Durability::Sync, None).unwrap();
        let found = contents(&table);
        assert!(
            found == state || Some(&found) == maybe.as_ref(),
            "call {nth}"
        );
        if is_over {
            assert!(nth > 100, "the failures were tried");
            break;
        }
    }
}

#[test]
fn a_full_disk_refuses_and_clears_itself() {
    let disk = SimulatedDisk::new(3);
    let table = open(&disk, Durability::Sync, None).unwrap();
    let mut turn = 0;
    let mut state = Contents::new();
    let mut dice = Dice::new(9);
    for round in 1..5 {
        disk.set_capacity(Some(disk.used() + round * 300_000));
        let mut refused = 0;
        for _ in 0..3000 {
            turn += 1;
            let key = format!("key {turn}").into_bytes();
            let value = vec![b'v'; dice.below(2000) as usize];
            let stamp = Stamp {
                at_us: turn * 1_000_000,
                origin: 0,
            };
            match table.update(&Update::new(&key, Change::Put(&value)), stamp) {
                Ok(_) => {
                    state.insert(key, value);
                }
                Err(TableError::Full | TableError::Io(_)) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
            if refused > 5 {
                break;
            }
        }
        assert!(refused > 5, "the disk was full");
        disk.set_capacity(None);
        turn += 2;
        let stamp = Stamp {
            at_us: turn * 1_000_000,
            origin: 0,
        };
        let update = Update::new(b"room", Change::Put(b"again"));
        table.update(&update, stamp).unwrap();
        state.insert(b"room".to_vec(), b"again".to_vec());
        assert_eq!(differences(&contents(&table), &state), [""; 0]);
    }
    drop(table);
    let table = open(&disk.crash(1), Durability::Sync, None).unwrap();
    assert_eq!(differences(&contents(&table), &state), [""; 0]);
}

#[test]
fn a_copy_is_a_table_as_it_was() {
    let disk = SimulatedDisk::new(3);
    let table = open(&disk, Durability::None, None).unwrap();
    for i in 0..500_u32 {
        let key = i.to_be_bytes();
        let update = Update::new(&key, Change::Put(b"before"));
        table.update(&update, Stamp::default()).unwrap();
    }
    let before = contents(&table);
    let to = Path::new("/copy.hash");
    table.copy(to).unwrap();
    assert!(matches!(table.copy(to), Err(TableError::Io(_))));
    table
        .update(&Update::new(b"k", Change::Put(b"after")), Stamp::default())
        .unwrap();
    // The copy is durable by itself.
    let disk = disk.crash(1);
    let open = || {
        KeyedTable::open(
            &disk.disk(),
            to,
            Kind::Hash,
            options(Durability::Sync),
            None,
        )
        .unwrap()
    };
    let copy = open();
    assert_eq!(differences(&contents(&copy), &before), [""; 0]);
    copy.update(&Update::new(b"more", Change::Put(b"1")), Stamp::default())
        .unwrap();
    drop(copy);
    assert_eq!(open().count(), 501);
}

#[test]
fn unique_numbers_do_not_come_back_after_a_crash() {
    let mut disk = SimulatedDisk::new(3);
    let mut last = 0;
    for life in 0..6 {
        let table = open(&disk, Durability::None, None).unwrap();
        for _ in 0..5 {
            let update = Update::new(b"k", Change::Put(b"v"));
            let Ok(Outcome::Stored { unique }) = table.update(&update, Stamp::default()) else {
                panic!("it is stored");
            };
            assert!(unique > last);
            last = unique;
        }
        disk = disk.crash(life);
    }
}

#[test]
fn a_table_is_open_once() {
    let disk = SimulatedDisk::new(3);
    let table = open(&disk, Durability::Sync, None).unwrap();
    let second = open(&disk, Durability::Sync, None);
    assert!(
        matches!(second, Err(TableError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock)
    );
    drop(table);
    open(&disk, Durability::Sync, None).unwrap();
}

#[test]
fn a_keyed_table_has_limits() {
    let disk = SimulatedDisk::new(3);
    let options = KeyedOptions {
        limit_bytes: 1000,
        key_bytes_max: 10,
        value_bytes_max: 100,
        ..options(Durability::None)
    };
    let path = Path::new(PATH);
    let table = KeyedTable::open(&disk.disk(), path, Kind::Hash, options, None).unwrap();
    let put = |key: &[u8], value: &[u8]| {
        table.update(&Update::new(key, Change::Put(value)), Stamp::default())
    };
    assert!(matches!(
        put(&[1; 11], b""),
        Err(TableError::KeyTooLong { limit: 10 })
    ));
    assert!(matches!(
        put(b"k", &[1; 101]),
        Err(TableError::ValueTooLong { limit: 100 })
    ));
    let effect = Effect::Put {
        key: b"k",
        value: &[1; 101],
        attributes: Attributes::default(),
    };
    let applied = table.apply(effect, Stamp::default());
    assert!(matches!(
        applied,
        Err(TableError::ValueTooLong { limit: 100 })
    ));
    // Each has 1 + 25 + 74 bytes.
    for key in 0..10 {
        put(&[key], &[0; 74]).unwrap();
    }
    assert!(matches!(put(b"k", b""), Err(TableError::Full)));
    assert!(matches!(put(&[3], &[0; 75]), Err(TableError::Full)));
    put(&[3], &[1; 74]).unwrap();
    put(&[4], &[1; 48]).unwrap();
    put(b"k", b"").unwrap();
    assert!(matches!(put(b"l", b""), Err(TableError::Full)));
    table.vanish(Stamp::default()).unwrap();
    put(b"l", b"").unwrap();
    assert_eq!(table.count(), 1);
}
