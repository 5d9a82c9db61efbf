//! Every kind of table beside a plain map: the same random updates, the same outcomes, the same
//! contents.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

use hikyaku_tables::{
    Attributes, Change, Condition, Effect, IntegerWidth, Interval, Kind, Outcome, Stamp, Table,
    TableError, Update, UpdateSink, open,
    rules::{self, Answer, Bounds, Current, Decision},
};
use hikyaku_vfs::{Disk, SimulatedDisk};
use proptest::prelude::*;

/// A condition, before it is known what the record is.
#[derive(Debug, Clone)]
enum If {
    Any,
    Absent,
    Present,
    ItsUnique,
    OtherUnique,
    ItsValue,
    OtherValue(Vec<u8>),
}

/// A change with bytes of its own.
#[derive(Debug, Clone)]
enum Do {
    Put(Vec<u8>),
    Append(Vec<u8>),
    Prepend(Vec<u8>),
    Rotate(Vec<u8>, Option<usize>),
    RotateEntry(Vec<u8>, Option<usize>, usize, Vec<u8>),
    AddInteger(i64, IntegerWidth),
    AddDouble(f64),
    Increment(u64, Option<u64>),
    Decrement(u64, Option<u64>),
    Touch,
    Remove,
}

#[derive(Debug, Clone)]
struct Request {
    key: usize,
    condition: If,
    change: Do,
    flags: u32,
    /// Seconds from now; 0 is never.
    lives: u64,
}

#[derive(Debug, Clone)]
enum Step {
    Update(Request),
    UpdateAll(Vec<Request>),
    ApplyPut(usize, Vec<u8>, u64),
    ApplyRemove(usize),
    Vanish,
    Wait(u64),
    Sweep(usize),
    Reopen,
    Optimise,
    Sync,
}

const KEYS: usize = 9;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..14),
        2 => Just(7_u64.to_le_bytes().to_vec()),
        1 => Just(u32::MAX.to_le_bytes().to_vec()),
        2 => "[0-9]{1,4} {0,2}".prop_map(String::into_bytes),
        1 => Just(b"18446744073709551615".to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 15..40),
    ]
}

fn change() -> impl Strategy<Value = Do> {
    let entry = proptest::collection::vec(0_u8..3, 2..3);
    let size = prop_oneof![Just(None), (0_usize..20).prop_map(Some)];
    let initial = prop_oneof![Just(None), Just(Some(10))];
    let width = prop_oneof![Just(IntegerWidth::Four), Just(IntegerWidth::Eight)];
    let by = prop_oneof![Just(1), Just(90), Just(u64::MAX)];
    prop_oneof![
        5 => bytes().prop_map(Do::Put),
        2 => bytes().prop_map(Do::Append),
        1 => bytes().prop_map(Do::Prepend),
        2 => (bytes(), size.clone()).prop_map(|(bytes, size)| Do::Rotate(bytes, size)),
        3 => (entry, size, 0_usize..4, proptest::collection::vec(0_u8..3, 0..2))
            .prop_map(|(entry, size, identity, from)| Do::RotateEntry(entry, size, identity, from)),
        2 => (prop_oneof![Just(1), any::<i64>()], width).prop_map(|(by, width)| Do::AddInteger(by, width)),
        1 => (-9.0..9.0).prop_map(Do::AddDouble),
        2 => (by.clone(), initial.clone()).prop_map(|(by, initial)| Do::Increment(by, initial)),
        2 => (by, initial).prop_map(|(by, initial)| Do::Decrement(by, initial)),
        1 => Just(Do::Touch),
        2 => Just(Do::Remove),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let condition = prop_oneof![
        6 => Just(If::Any),
        1 => Just(If::Absent),
        1 => Just(If::Present),
        1 => Just(If::ItsUnique),
        1 => Just(If::OtherUnique),
        1 => Just(If::ItsValue),
        1 => bytes().prop_map(If::OtherValue),
    ];
    let flags = prop_oneof![3 => Just(0), 1 => any::<u32>()];
    let lives = prop_oneof![3 => Just(0), 1 => 1_u64..6];
    (0..KEYS, condition, change(), flags, lives).prop_map(
        |(key, condition, change, flags, lives)| Request {
            key,
            condition,
            change,
            flags,
            lives,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => request().prop_map(Step::Update),
        4 => proptest::collection::vec(request(), 0..9).prop_map(Step::UpdateAll),
        1 => (0..KEYS, bytes(), 0_u64..4)
            .prop_map(|(key, value, lives)| Step::ApplyPut(key, value, lives)),
        1 => (0..KEYS).prop_map(Step::ApplyRemove),
        1 => Just(Step::Vanish),
        3 => (0_u64..4).prop_map(Step::Wait),
        1 => prop_oneof![Just(1), Just(1000)].prop_map(Step::Sweep),
        1 => Just(Step::Reopen),
        1 => Just(Step::Optimise),
        1 => Just(Step::Sync),
    ]
}

#[derive(Debug, Clone, PartialEq)]
struct Kept {
    value: Vec<u8>,
    attributes: Attributes,
}

impl Kept {
    fn has_expired(&self, now: u64) -> bool {
        self.attributes.expires_at != 0 && self.attributes.expires_at <= now
    }
}

type Records = BTreeMap<Vec<u8>, Kept>;

/// Carries out what it is told, as a replica does.
#[derive(Debug, Default)]
struct Replica(Mutex<Records>);

impl UpdateSink for Replica {
    fn updated(&self, effect: Effect<'_>, _: Stamp) -> Result<(), TableError> {
        let mut records = self.0.lock().unwrap();
        match effect {
            Effect::Put {
                key,
                value,
                attributes,
            } => {
                let kept = Kept {
                    value: value.to_vec(),
                    attributes,
                };
                records.insert(key.to_vec(), kept);
            }
            Effect::Remove { key } => {
                records.remove(key);
            }
            Effect::Vanish => records.clear(),
        }
        Ok(())
    }
}

/// A table with the map that it shall be like.
struct Pair {
    disk: Disk,
    text: &'static str,
    table: Option<Arc<dyn Table>>,
    replica: Arc<Replica>,
    records: Records,
    bounds: Bounds,
    now: u64,
}

fn key(kind: Kind, index: usize) -> Vec<u8> {
    match kind {
        Kind::Fixed => (index + 1).to_string().into_bytes(),
        // Some are others' beginnings; one is empty.
        _ => [
            &b""[..],
            b"a",
            b"aa",
            b"ab",
            b"b",
            b"b\0",
            b"b\xff",
            b"\xff\xff",
            b"c,d",
        ][index]
            .to_vec(),
    }
}

impl Pair {
    fn new(text: &'static str, bounds: Bounds) -> Self {
        let mut pair = Self {
            disk: SimulatedDisk::new(5).disk(),
            text,
            table: None,
            replica: Arc::default(),
            records: Records::new(),
            bounds,
            now: 1000,
        };
        pair.open();
        pair
    }

    fn open(&mut self) {
        self.table = None;
        let sink = Arc::clone(&self.replica) as Arc<dyn UpdateSink>;
        self.table = Some(open(&self.disk, Path::new("/"), self.text, Some(sink)).unwrap());
    }

    fn table(&self) -> &dyn Table {
        self.table.as_deref().unwrap()
    }

    fn stamp(&self) -> Stamp {
        Stamp {
            at_us: self.now * 1_000_000,
            origin: 3,
        }
    }

    fn live(&self, key: &[u8]) -> Option<&Kept> {
        self.records
            .get(key)
            .filter(|kept| !kept.has_expired(self.now))
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Update(request) => self.update_all(std::slice::from_ref(request), false),
            Step::UpdateAll(requests) => {
                // What a condition refers to is looked up before; one update a key keeps it true.
                let mut seen = [false; KEYS];
                let once = requests
                    .iter()
                    .filter(|request| !std::mem::replace(&mut seen[request.key], true));
                let once: Vec<_> = once.cloned().collect();
                self.update_all(&once, true);
            }
            Step::ApplyPut(index, value, lives) => {
                let key = key(self.table().kind(), *index);
                let is_fixed = self.table().kind() == Kind::Fixed;
                let expires_at = if is_fixed || *lives == 0 {
                    0
                } else {
                    self.now + lives
                };
                let attributes = Attributes {
                    flags: 0,
                    expires_at,
                };
                let effect = Effect::Put {
                    key: &key,
                    value,
                    attributes,
                };
                let fits = value.len() <= self.bounds.value_bytes_max;
                assert_eq!(self.table().apply(effect, self.stamp()).is_ok(), fits);
                if fits {
                    let value = value.clone();
                    self.records.insert(key, Kept { value, attributes });
                }
            }
            Step::ApplyRemove(index) => {
                let key = key(self.table().kind(), *index);
                let effect = Effect::Remove { key: &key };
                self.table().apply(effect, self.stamp()).unwrap();
                self.records.remove(&key);
            }
            Step::Vanish => {
                self.table().vanish(self.stamp()).unwrap();
                self.records.clear();
            }
            Step::Wait(seconds) => self.now += seconds,
            Step::Sweep(limit) => {
                self.table().sweep(self.now, *limit).unwrap();
            }
            Step::Reopen if self.table().kind() == Kind::Memory => {}
            Step::Reopen => self.open(),
            Step::Optimise => self.table().optimise("").unwrap(),
            Step::Sync => self.table().sync().unwrap(),
        }
        self.compare();
    }

    fn update_all(&mut self, requests: &[Request], at_once: bool) {
        let kind = self.table().kind();
        let keys: Vec<_> = requests
            .iter()
            .map(|request| key(kind, request.key))
            .collect();
        let values: Vec<_> = keys
            .iter()
            .map(|key| {
                self.live(key)
                    .map_or(b"?".to_vec(), |kept| kept.value.clone())
            })
            .collect();
        let uniques: Vec<_> = keys
            .iter()
            .map(|key| {
                let found = self.table().get(key, self.now, &mut Vec::new()).unwrap();
                found.map_or(77, |found| found.unique)
            })
            .collect();
        let updates: Vec<Update<'_>> = (0..requests.len())
            .map(|i| self.update(&requests[i], &keys[i], &values[i], uniques[i]))
            .collect();
        let stamp = self.stamp();
        let mut outcomes = Vec::new();
        if at_once {
            self.table().update_all(&updates, stamp, &mut outcomes);
        } else {
            outcomes.extend(
                updates
                    .iter()
                    .map(|update| self.table().update(update, stamp)),
            );
        }
        assert_eq!(outcomes.len(), updates.len());
        for (i, outcome) in outcomes.into_iter().enumerate() {
            let expected = self.expect(&updates[i], uniques[i]);
            let told = self.is_as_expected(&updates[i], uniques[i], &outcome, &expected);
            assert!(
                told,
                "{:?} (unique {}): {outcome:?}, not {expected:?}",
                updates[i], uniques[i]
            );
        }
    }

    fn update<'a>(
        &self,
        request: &'a Request,
        key: &'a [u8],
        value: &'a [u8],
        unique: u64,
    ) -> Update<'a> {
        let condition = match &request.condition {
            If::Any => Condition::Any,
            If::Absent => Condition::Absent,
            If::Present => Condition::Present,
            If::ItsUnique => Condition::Unique(unique),
            If::OtherUnique => Condition::Unique(unique ^ 1),
            If::ItsValue => Condition::Value(value),
            If::OtherValue(other) => Condition::Value(other),
        };
        let change = match &request.change {
            Do::Put(bytes) => Change::Put(bytes),
            Do::Append(bytes) => Change::Append(bytes),
            Do::Prepend(bytes) => Change::Prepend(bytes),
            Do::Rotate(bytes, size) => Change::Rotate { bytes, size: *size },
            Do::RotateEntry(entry, size, identity, not_before) => Change::RotateEntry {
                entry,
                size: *size,
                identity: *identity,
                not_before,
            },
            Do::AddInteger(by, width) => Change::AddInteger {
                by: *by,
                width: *width,
            },
            Do::AddDouble(by) => Change::AddDouble(*by),
            Do::Increment(by, initial) => Change::Increment {
                by: *by,
                initial: *initial,
            },
            Do::Decrement(by, initial) => Change::Decrement {
                by: *by,
                initial: *initial,
            },
            Do::Touch => Change::Touch,
            Do::Remove => Change::Remove,
        };
        let is_fixed = self.table().kind() == Kind::Fixed;
        let expires_at = if request.lives == 0 {
            0
        } else {
            self.now + request.lives
        };
        let attributes = Attributes {
            flags: if is_fixed { 0 } else { request.flags },
            expires_at: if is_fixed { 0 } else { expires_at },
        };
        Update {
            key,
            condition,
            change,
            attributes,
        }
    }

    /// Carries the update out on the map.
    fn expect(&mut self, update: &Update<'_>, unique: u64) -> Result<Outcome, TableError> {
        let current = self.live(update.key).map(|kept| Current {
            value: &kept.value,
            attributes: kept.attributes,
            unique,
        });
        let mut new = b"rubbish".to_vec();
        Ok(
            match rules::decide(current, update, self.bounds, &mut new)? {
                Decision::Put(attributes, answer) => {
                    let kept = Kept {
                        value: new,
                        attributes,
                    };
                    self.records.insert(update.key.to_vec(), kept);
                    match answer {
                        Answer::Stored => Outcome::Stored { unique: 0 },
                        Answer::Integer(sum) => Outcome::Integer(sum),
                        Answer::Double(sum) => Outcome::Double(sum),
                        Answer::Number { value, is_new } => Outcome::Number {
                            value,
                            unique: 0,
                            is_new,
                        },
                    }
                }
                Decision::Touch(attributes) => {
                    self.records.get_mut(update.key).unwrap().attributes = attributes;
                    Outcome::Stored { unique }
                }
                Decision::Remove => {
                    self.records.remove(update.key);
                    Outcome::Removed
                }
                Decision::NotStored => Outcome::NotStored,
                Decision::Differs => Outcome::Differs,
                Decision::NotFound => Outcome::NotFound,
            },
        )
    }

    /// Tells whether the outcome is the expected one. A changed record has a new unique number, and
    /// the one that was told; in a fixed table, one that depends on its value.
    fn is_as_expected(
        &self,
        update: &Update<'_>,
        unique_before: u64,
        outcome: &Result<Outcome, TableError>,
        expected: &Result<Outcome, TableError>,
    ) -> bool {
        let is_new = |unique: u64| {
            let found = self.table().get(update.key, self.now, &mut Vec::new());
            let found = found.unwrap().unwrap();
            let may_stay = self.table().kind() == Kind::Fixed || update.change == Change::Touch;
            found.unique == unique && (may_stay || unique != unique_before)
        };
        match (outcome, expected) {
            (Err(one), Err(other)) => std::mem::discriminant(one) == std::mem::discriminant(other),
            (Ok(Outcome::Stored { unique }), Ok(Outcome::Stored { .. })) => is_new(*unique),
            (
                Ok(Outcome::Number {
                    value,
                    unique,
                    is_new: made,
                }),
                Ok(Outcome::Number {
                    value: other,
                    is_new: other_made,
                    ..
                }),
            ) => value == other && made == other_made && is_new(*unique),
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        }
    }

    /// Compares all that can be seen of the table with the map, and the replica with it too.
    fn compare(&self) {
        let table = self.table();
        let live: Records = self
            .records
            .iter()
            .filter(|(_, kept)| !kept.has_expired(self.now))
            .map(|(key, kept)| (key.clone(), kept.clone()))
            .collect();
        for index in 0..KEYS {
            let key = key(table.kind(), index);
            let mut value = b"before".to_vec();
            let found = table.get(&key, self.now, &mut value).unwrap();
            let found = found.map(|found| Kept {
                value,
                attributes: Attributes {
                    flags: found.flags,
                    expires_at: found.expires_at,
                },
            });
            assert_eq!(found.as_ref(), live.get(&key), "{}", key.escape_ascii());
            let size = live.get(&key).map(|kept| kept.value.len());
            assert_eq!(table.size(&key, self.now).unwrap(), size);
        }
        let counted = table.count() as usize;
        assert!((live.len()..=self.records.len()).contains(&counted));
        let mut listed: Vec<Vec<u8>> = Vec::new();
        loop {
            let more = table
                .keys_after(listed.last().map(Vec::as_slice), 2)
                .unwrap();
            if more.is_empty() {
                break;
            }
            listed.extend(more);
        }
        assert_eq!(listed.len(), counted);
        let is_live = |key: &Vec<u8>| live.contains_key(key);
        let seen: Vec<_> = listed.iter().filter(|key| is_live(key)).collect();
        assert_eq!(seen, live.keys().collect::<Vec<_>>());
        self.compare_lists(&listed);
        let told = self.replica.0.lock().unwrap();
        let told: Vec<_> = told
            .iter()
            .filter(|(_, kept)| !kept.has_expired(self.now))
            .collect();
        assert_eq!(told, live.iter().collect::<Vec<_>>());
    }

    fn compare_lists(&self, listed: &[Vec<u8>]) {
        let table = self.table();
        let kind = table.kind();
        let (one, other) = (key(kind, 1), key(kind, 5));
        let text = [b"[", &one[..], b",", &other, b")"].concat();
        let interval = Interval::parse(&text).unwrap();
        let range = table.range(&interval, 100);
        if kind == Kind::Hash {
            assert!(matches!(range, Err(TableError::Unsupported { .. })));
        } else {
            let within = |key: &&Vec<u8>| **key >= one && **key < other;
            let expected: Vec<_> = listed.iter().filter(within).cloned().collect();
            assert_eq!(range.unwrap(), expected);
            let backwards = [b"[", &other[..], b",", &one, b"]"].concat();
            let backwards = Interval::parse(&backwards).unwrap();
            assert_eq!(table.range(&backwards, 100).unwrap(), [b""; 0]);
        }
        let begun = table.with_prefix(b"a", 2);
        if matches!(kind, Kind::Hash | Kind::Fixed) {
            assert!(matches!(begun, Err(TableError::Unsupported { .. })));
        } else {
            let matching = listed.iter().filter(|key| key.starts_with(b"a"));
            let expected: Vec<_> = matching.take(2).cloned().collect();
            assert_eq!(begun.unwrap(), expected);
        }
    }
}

const WIDE: Bounds = Bounds {
    width: None,
    value_bytes_max: 32,
};

fn check(text: &'static str, bounds: Bounds, steps: &[Step]) {
    let mut pair = Pair::new(text, bounds);
    for step in steps {
        pair.run(step);
    }
    if pair.table().kind() != Kind::Memory {
        pair.open();
        pair.compare();
    }
    // The first may begin in the middle.
    for _ in 0..2 {
        pair.table().sweep(pair.now, 100_000).unwrap();
    }
    let kept = pair.records.values();
    let live = kept.filter(|kept| !kept.has_expired(pair.now));
    assert_eq!(pair.table().count() as usize, live.count());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn a_memory_table_is_a_map(steps in proptest::collection::vec(step(), 1..60)) {
        check("*?value=32", WIDE, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn an_ordered_table_is_a_map(steps in proptest::collection::vec(step(), 1..60)) {
        check("model.ordered?value=32", WIDE, &steps);
    }

    #[test]
    fn a_hash_table_is_a_map(steps in proptest::collection::vec(step(), 1..60)) {
        check("model.hash?value=32&durability=none", WIDE, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_fixed_table_is_a_map(steps in proptest::collection::vec(step(), 1..60)) {
        let bounds = Bounds {
            width: Some(12),
            value_bytes_max: 12,
        };
        check("model.fixed?width=12&limit=1m", bounds, &steps);
    }
}
