//! A plain map beside the table: the same answers to any updates.

use std::{collections::BTreeMap, path::Path};

use hikyaku_tables::{
    Attributes, Change, Condition, FixedTable, IntegerWidth, Outcome, Table, TableError, Update,
    rules::{self, Answer, Bounds, Current, Decision},
};
use proptest::prelude::*;

use super::{STAMP, options, records, simulated};

const WIDTH: usize = 12;

#[derive(Debug, Clone)]
enum Step {
    Update {
        key: u64,
        condition: u8,
        change: u8,
        bytes: Vec<u8>,
        size: Option<usize>,
        by: i64,
    },
    Reopen,
    Kill,
    Vanish,
    Resize(usize),
    Copy,
    Sync,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..=WIDTH + 2),
        (-9..9_i64).prop_map(|number| number.to_le_bytes().to_vec()),
        (-9..9_i32).prop_map(|number| number.to_le_bytes().to_vec()),
        (0..99_u8).prop_map(|number| number.to_string().into_bytes()),
        Just(Vec::new()),
    ];
    let by = prop_oneof![-9..9_i64, Just(i64::MAX), Just(i64::MIN)];
    let key = prop_oneof![1..40_u64, 1..3000_u64, Just(0), Just(u64::MAX)];
    let size = prop::option::of(0..=WIDTH + 1);
    let update = (key, 0..5_u8, 0..11_u8, bytes, size, by).prop_map(
        |(key, condition, change, bytes, size, by)| Step::Update {
            key,
            condition,
            change,
            bytes,
            size,
            by,
        },
    );
    let step = prop_oneof![
        60 => update,
        1 => Just(Step::Reopen),
        1 => Just(Step::Kill),
        1 => Just(Step::Vanish),
        1 => (WIDTH..20).prop_map(Step::Resize),
        1 => Just(Step::Copy),
        1 => Just(Step::Sync),
    ];
    prop::collection::vec(step, 0..120)
}

fn change(number: u8, bytes: &[u8], size: Option<usize>, by: i64) -> Change<'_> {
    match number {
        0 => Change::Put(bytes),
        1 => Change::Append(bytes),
        2 => Change::Prepend(bytes),
        3 => Change::Rotate { bytes, size },
        4 => Change::RotateEntry {
            entry: bytes,
            size,
            identity: bytes.len() / 2,
            not_before: &[],
        },
        5 => Change::AddInteger {
            by,
            width: IntegerWidth::Eight,
        },
        6 => Change::AddInteger {
            by,
            width: IntegerWidth::Four,
        },
        7 => Change::AddDouble(by as f64),
        8 => Change::Increment {
            by: by.unsigned_abs(),
            initial: size.map(|size| size as u64),
        },
        9 => Change::Decrement {
            by: by.unsigned_abs(),
            initial: size.map(|size| size as u64),
        },
        _ => Change::Remove,
    }
}

/// What the map makes of an update. Its unique numbers are those of the table.
fn expected(
    map: &mut BTreeMap<u64, Vec<u8>>,
    key: u64,
    unique: u64,
    update: &Update<'_>,
    width: usize,
) -> Result<Option<Outcome>, TableError> {
    let bounds = Bounds {
        width: Some(width),
        value_bytes_max: width,
    };
    let mut new = Vec::new();
    let current = map.get(&key).map(|value| Current {
        value,
        attributes: Attributes::default(),
        unique,
    });
    Ok(match rules::decide(current, update, bounds, &mut new)? {
        Decision::Put(_, answer) => {
            map.insert(key, new);
            match answer {
                Answer::Integer(sum) => Some(Outcome::Integer(sum)),
                Answer::Double(sum) => Some(Outcome::Double(sum)),
                Answer::Stored | Answer::Number { .. } => None,
            }
        }
        Decision::Remove => {
            map.remove(&key);
            Some(Outcome::Removed)
        }
        Decision::Touch(_) => None,
        Decision::NotStored => Some(Outcome::NotStored),
        Decision::Differs => Some(Outcome::Differs),
        Decision::NotFound => Some(Outcome::NotFound),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_table_does_what_a_map_does(steps in steps()) {
        let mut disk = simulated(1);
        let path = Path::new("/t/a.fixed");
        let limit = 64 << 10;
        let open = |disk: &hikyaku_vfs::SimulatedDisk| {
            FixedTable::open(&disk.disk(), path, options(WIDTH, limit), None).unwrap()
        };
        let mut table = open(&disk);
        let mut map = BTreeMap::new();
        for step in steps {
            match step {
                Step::Update { key, condition, change: number, bytes, size, by } => {
                    let digits = key.to_string();
                    let mut found = Vec::new();
                    let unique = Table::get(&table, digits.as_bytes(), 0, &mut found)
                        .ok().flatten().map_or(0, |found| found.unique);
                    let condition = match condition {
                        0 => Condition::Absent,
                        1 => Condition::Present,
                        2 => Condition::Unique(unique),
                        3 => Condition::Value(&bytes),
                        _ => Condition::Any,
                    };
                    let update = Update {
                        condition,
                        ..Update::new(digits.as_bytes(), change(number, &bytes, size, by))
                    };
                    let outcome = table.update(&update, STAMP);
                    if key == 0 || key > table.limit() {
                        prop_assert!(outcome.is_err());
                        continue;
                    }
                    match (expected(&mut map, key, unique, &update, table.width()), outcome) {
                        (Ok(Some(expected)), Ok(outcome)) => {
                            // As text: a double may be no number.
                            prop_assert_eq!(format!("{outcome:?}"), format!("{expected:?}"));
                        }
                        (Ok(None), Ok(Outcome::Stored { .. } | Outcome::Number { .. })) => {}
                        (Err(expected), Err(error)) => {
                            prop_assert_eq!(error.to_string(), expected.to_string());
                        }
                        (expected, outcome) => {
                            prop_assert!(false, "expected {:?}, got {:?}", expected, outcome);
                        }
                    }
                }
                Step::Reopen => {
                    drop(table);
                    table = open(&disk);
                }
                Step::Kill => {
                    let killed = disk.kill();
                    drop(table);
                    disk = killed;
                    table = open(&disk);
                }
                Step::Vanish => {
                    table.vanish(STAMP).unwrap();
                    map.clear();
                }
                Step::Resize(width) => {
                    let fits = map.values().all(|value| value.len() <= width);
                    let options = format!("width={width}");
                    match table.optimise(&options) {
                        Ok(()) => prop_assert!(fits),
                        Err(TableError::ValueTooLong { .. }) => prop_assert!(!fits),
                        Err(TableError::KeyTooLarge { limit }) => {
                            prop_assert!(map.keys().any(|key| *key > limit));
                        }
                        Err(error) => prop_assert!(false, "{}", error),
                    }
                }
                Step::Copy => {
                    let to = Path::new("/t/copy.fixed");
                    table.copy(to).unwrap();
                    let copy = FixedTable::open(&disk.disk(), to, options(WIDTH, limit), None);
                    let copy = copy.unwrap();
                    prop_assert_eq!(copy.count(), map.len() as u64);
                    prop_assert!(records(&copy).into_iter().eq(map.clone()));
                    drop(copy);
                    disk.disk().remove(to).unwrap();
                }
                Step::Sync => table.sync().unwrap(),
            }
            prop_assert_eq!(table.count(), map.len() as u64);
            prop_assert_eq!(table.first(), map.keys().next().copied());
            prop_assert_eq!(table.last(), map.keys().next_back().copied());
        }
        prop_assert!(records(&table).into_iter().eq(map));
    }
}
