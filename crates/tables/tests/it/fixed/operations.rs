//! Single records: what each operation does, and what it refuses.

use std::path::Path;

use hikyaku_tables::{
    Attributes, Change, Condition, IntegerWidth, Interval, Kind, Outcome, Table, TableError,
    Update, open as open_named,
};

use super::{STAMP, change, put, simulated, table, value};

#[test]
fn a_record_is_there_until_it_is_removed() {
    let table = table(8);
    assert_eq!(table.kind(), Kind::Fixed);
    assert_eq!(value(&table, 3), None);
    assert_eq!(table.value_len(3).unwrap(), None);
    put(&table, 3, b"abc");
    assert_eq!(value(&table, 3).unwrap(), b"abc");
    assert_eq!(table.value_len(3).unwrap(), Some(3));
    assert_eq!(table.count(), 1);
    put(&table, 3, b"abcdefgh");
    put(&table, 3, b"x");
    assert_eq!(value(&table, 3).unwrap(), b"x");
    assert_eq!(table.count(), 1);
    assert_eq!(change(&table, 3, Change::Remove).unwrap(), Outcome::Removed);
    assert_eq!(value(&table, 3), None);
    assert_eq!(
        change(&table, 3, Change::Remove).unwrap(),
        Outcome::NotFound
    );
    assert_eq!(table.count(), 0);
}

#[test]
fn an_empty_value_is_not_an_absent_one_at_any_width() {
    for width in [1, 2, 8, 254, 255, 256, 65_535, 65_536] {
        let table = super::open(&super::simulated(1).disk(), super::options(width, 2 << 20));
        let full = vec![0; width];
        put(&table, 1, b"");
        put(&table, 2, &full);
        assert_eq!(value(&table, 1).unwrap(), b"");
        assert_eq!(value(&table, 2).unwrap(), full);
        put(&table, 2, b"");
        assert_eq!(value(&table, 2).unwrap(), b"");
        assert_eq!(table.count(), 2);
        change(&table, 1, Change::Remove).unwrap();
        assert_eq!(value(&table, 1), None);
        assert_eq!(table.keys_after(None, 9).unwrap(), [b"2"]);
    }
}

#[test]
fn a_key_outside_the_table_is_an_error_that_names_the_limit() {
    let table = table(8);
    let limit = table.limit();
    assert_eq!(limit, ((1 << 20) - 8192) / 9);
    put(&table, limit, b"last");
    assert_eq!(value(&table, limit).unwrap(), b"last");
    let refused = |key: u64| {
        let mut buffer = [0; 8];
        let errors = [
            table.get(key, &mut buffer).unwrap_err(),
            table.put(key, b"x", STAMP).unwrap_err(),
            table.value_len(key).unwrap_err(),
            change(&table, key, Change::Remove).unwrap_err(),
        ];
        errors.map(|error| error.to_string())
    };
    let beyond = format!("the key is beyond the table's limit of {limit} records");
    assert_eq!(refused(limit + 1), [(); 4].map(|()| beyond.clone()));
    assert_eq!(refused(u64::MAX), [(); 4].map(|()| beyond.clone()));
    assert_eq!(
        refused(0),
        [(); 4].map(|()| "the key of a fixed table is a number from 1".to_owned())
    );
    assert_eq!(table.count(), 1);
}

#[test]
fn a_key_as_bytes_is_digits_alone() {
    let table = table(8);
    let put = |key: &[u8]| table.update(&Update::new(key, Change::Put(b"v")), STAMP);
    assert!(put(b"12").is_ok());
    assert!(put(b"00000012").is_ok());
    assert_eq!(table.count(), 1);
    for key in ["", "a1", "1a", "+1", "-1", " 1", "1.0", "0", "0x1"] {
        assert!(
            matches!(put(key.as_bytes()), Err(TableError::KeyNotANumber)),
            "{key}"
        );
    }
    // 2^64 + 1, which is 1 when it wraps.
    let wrapping = put(b"18446744073709551617");
    assert!(matches!(wrapping, Err(TableError::KeyTooLarge { .. })));
    assert_eq!(table.count(), 1);
}

#[test]
fn a_value_is_never_cut() {
    let table = table(4);
    let too_long = |result: Result<Outcome, TableError>| {
        assert!(matches!(result, Err(TableError::ValueTooLong { limit: 4 })));
    };
    too_long(change(&table, 1, Change::Put(b"12345")));
    put(&table, 1, b"123");
    too_long(change(&table, 1, Change::Append(b"45")));
    too_long(change(&table, 1, Change::Prepend(b"45")));
    let add = Change::AddInteger {
        by: 1,
        width: IntegerWidth::Eight,
    };
    too_long(change(&table, 2, add));
    assert!(matches!(
        table.put(1, b"12345", STAMP),
        Err(TableError::ValueTooLong { limit: 4 })
    ));
    let mut short = [0; 2];
    assert!(matches!(
        table.get(1, &mut short),
        Err(TableError::ValueTooLong { limit: 2 })
    ));
    assert_eq!(value(&table, 1).unwrap(), b"123");
    assert_eq!(table.count(), 1);
}

#[test]
fn a_rotation_keeps_the_last_bytes() {
    let table = table(8);
    table.rotate(1, b"ABCDEFGH", None, STAMP).unwrap();
    table.rotate(1, b"IJK", None, STAMP).unwrap();
    assert_eq!(value(&table, 1).unwrap(), b"DEFGHIJK");
    table.rotate(1, b"L", Some(4), STAMP).unwrap();
    assert_eq!(value(&table, 1).unwrap(), b"IJKL");
    table.rotate(2, b"0123456789", None, STAMP).unwrap();
    assert_eq!(value(&table, 2).unwrap(), b"23456789");
    assert!(table.rotate(2, b"x", Some(9), STAMP).is_err());
}

#[test]
fn an_entry_takes_the_place_of_an_older_one() {
    let table = table(6);
    let visit = |entry| {
        let visit = Change::RotateEntry {
            entry,
            size: None,
            identity: 1,
            not_before: b"",
        };
        change(&table, 1, visit).unwrap();
        value(&table, 1).unwrap()
    };
    assert_eq!(visit(b"a1"), b"a1");
    assert_eq!(visit(b"b1"), b"a1b1");
    assert_eq!(visit(b"a2"), b"b1a2");
    assert_eq!(visit(b"c1"), b"b1a2c1");
    assert_eq!(visit(b"d1"), b"a2c1d1");
}

#[test]
fn sums_and_conditions() {
    let table = table(8);
    let add = |by| Change::AddInteger {
        by,
        width: IntegerWidth::Eight,
    };
    assert_eq!(change(&table, 1, add(5)).unwrap(), Outcome::Integer(5));
    assert_eq!(change(&table, 1, add(-7)).unwrap(), Outcome::Integer(-2));
    assert_eq!(value(&table, 1).unwrap(), (-2_i64).to_le_bytes());
    let double = change(&table, 2, Change::AddDouble(0.5)).unwrap();
    assert_eq!(double, Outcome::Double(0.5));
    let on = |condition, bytes| {
        table
            .change(3, condition, Change::Put(bytes), STAMP)
            .unwrap()
    };
    assert_eq!(on(Condition::Present, b"a"), Outcome::NotStored);
    assert!(matches!(
        on(Condition::Absent, b"a"),
        Outcome::Stored { .. }
    ));
    assert_eq!(on(Condition::Absent, b"b"), Outcome::NotStored);
    assert_eq!(on(Condition::Value(b"b"), b"c"), Outcome::Differs);
    let Outcome::Stored { unique } = on(Condition::Value(b"a"), b"b") else {
        panic!("it was stored");
    };
    let mut found = Vec::new();
    let get = table.get_found(b"3", &mut found);
    assert_eq!(get, Some(unique));
    assert_eq!(on(Condition::Unique(unique + 1), b"c"), Outcome::Differs);
    assert!(matches!(
        on(Condition::Unique(unique), b"c"),
        Outcome::Stored { .. }
    ));
    assert_eq!(value(&table, 3).unwrap(), b"c");
}

/// Reads a record through the interface.
trait GetFound {
    fn get_found(&self, key: &[u8], value: &mut Vec<u8>) -> Option<u64>;
}

impl<T: Table> GetFound for T {
    fn get_found(&self, key: &[u8], value: &mut Vec<u8>) -> Option<u64> {
        Table::get(self, key, 0, value)
            .unwrap()
            .map(|found| found.unique)
    }
}

#[test]
fn there_is_no_room_for_attributes() {
    let table = table(8);
    for attributes in [
        Attributes {
            flags: 1,
            expires_at: 0,
        },
        Attributes {
            flags: 0,
            expires_at: 1,
        },
    ] {
        let update = Update {
            attributes,
            ..Update::new(b"1", Change::Put(b"x"))
        };
        let refused = table.update(&update, STAMP);
        assert!(matches!(refused, Err(TableError::NoAttributes)));
    }
    assert_eq!(table.count(), 0);
}

#[test]
fn keys_are_listed_by_their_numbers() {
    let table = table(8);
    let keys = [1_u64, 2, 9, 10, 11, 100, 1000, 70_000];
    for key in keys {
        put(&table, key, b"v");
    }
    let range = |text: &str, limit| -> Vec<u64> {
        let interval = Interval::parse(text.as_bytes()).unwrap();
        let keys = table.range(&interval, limit).unwrap();
        let text = keys.into_iter().map(|key| String::from_utf8(key).unwrap());
        text.map(|key| key.parse().unwrap()).collect()
    };
    assert_eq!(range("[min,max]", 99), keys);
    assert_eq!(range("[2,10]", 99), [2, 9, 10]);
    assert_eq!(range("(2,10]", 99), [9, 10]);
    assert_eq!(range("[2,10)", 99), [2, 9]);
    assert_eq!(range("(2,10)", 99), [9]);
    assert_eq!(range("[0,2)", 99), [1]);
    assert_eq!(range("(0,2)", 99), [1]);
    assert_eq!(range("[101,99999999999999999999999]", 99), [1000, 70_000]);
    assert_eq!(range("[10,2]", 99), [0_u64; 0]);
    assert_eq!(range("[min,max]", 2), [1, 2]);
    assert_eq!(table.last_key().unwrap().unwrap(), b"70000");
    assert!(table.range(&Interval::parse(b"[a,b]").unwrap(), 9).is_err());
    assert_eq!((table.first(), table.last()), (Some(1), Some(70_000)));
    change(&table, 70_000, Change::Remove).unwrap();
    change(&table, 1, Change::Remove).unwrap();
    assert_eq!((table.first(), table.last()), (Some(2), Some(1000)));
    assert_eq!(table.keys_after(Some(b"11"), 1).unwrap(), [b"100"]);
    assert_eq!(table.keys_after(Some(b"1000"), 9).unwrap(), [b""; 0]);
}

/// What `tcfmgr list -ri` of Tokyo Cabinet 1.4.48 says of a file with these records.
const INTERVALS: [(&str, &[u64]); 18] = [
    ("[min,max]", &[5, 10, 15, 20]),
    ("(min,max)", &[10, 15]),
    ("(min,15]", &[10, 15]),
    ("[5,max)", &[5, 10, 15]),
    ("[max,max]", &[20]),
    ("[min,min]", &[5]),
    ("(max,max]", &[]),
    ("[max,min]", &[]),
    ("(min,max]", &[10, 15, 20]),
    ("(5,5]", &[]),
    ("[5,5]", &[5]),
    ("[11,14]", &[]),
    ("(4,21)", &[5, 10, 15, 20]),
    ("[10, 20]", &[10, 15, 20]),
    ("[ 10, 20 ]", &[10, 15, 20]),
    (" [10 ,20) ", &[10, 15]),
    ("[ min , max )", &[5, 10, 15]),
    ("[20,5]", &[]),
];

/// Fills up numbers with zeros, for tables whose keys are in the order of their bytes.
fn padded(text: &str, digits: usize) -> String {
    let parts = text.split_inclusive(|c: char| !c.is_ascii_digit());
    let filled = parts.map(|part| match part.find(|c: char| !c.is_ascii_digit()) {
        Some(0) => part.to_owned(),
        Some(at) => format!("{:0>digits$}{}", &part[..at], &part[at..]),
        None => format!("{part:0>digits$}"),
    });
    filled.collect()
}

#[test]
fn intervals_are_those_of_tokyo_cabinet() {
    let fixed = table(8);
    let disk = simulated(1).disk();
    let ordered = open_named(&disk, Path::new("/t"), "a.ordered", None).unwrap();
    let memory = open_named(&disk, Path::new("/t"), "*", None).unwrap();
    let keys = |table: &dyn Table, text: &str, digits: usize| -> Vec<u64> {
        let text = padded(text, digits);
        let interval = Interval::parse(text.as_bytes()).unwrap();
        let keys = table.range(&interval, 99).unwrap();
        keys.iter()
            .map(|key| std::str::from_utf8(key).unwrap().parse().unwrap())
            .collect()
    };
    for (table, digits) in [(&fixed as &dyn Table, 1), (&*ordered, 4), (&*memory, 4)] {
        assert_eq!(keys(table, "(min,max)", digits), [0_u64; 0]);
        for key in [5_u64, 10, 15, 20] {
            let key = format!("{key:0digits$}");
            let update = Update::new(key.as_bytes(), Change::Put(b"v"));
            table.update(&update, STAMP).unwrap();
        }
        for (text, expected) in INTERVALS {
            assert_eq!(keys(table, text, digits), expected, "{text} of {table:?}");
        }
        assert_eq!(
            table.last_key().unwrap().unwrap(),
            format!("{:0digits$}", 20).as_bytes()
        );
    }
    for wrong in [
        "", "[1,2", "1,2]", "[,2]", "[1,]", "[1 2]", "[1,2,3]", "[1,2]x", "{1,2}",
    ] {
        assert!(Interval::parse(wrong.as_bytes()).is_err(), "{wrong}");
    }
}
