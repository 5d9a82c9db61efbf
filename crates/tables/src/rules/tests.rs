//! Every change, on every state of a record, under every condition.

use super::*;

const WIDE: Bounds = Bounds {
    width: None,
    value_bytes_max: 1 << 20,
};

fn record(value: &[u8]) -> Current<'_> {
    Current {
        value,
        attributes: Attributes::default(),
        unique: 1,
    }
}

fn after(old: &[u8], change: Change<'_>) -> Vec<u8> {
    let mut new = Vec::new();
    decide(
        Some(record(old)),
        &Update::new(b"k", change),
        WIDE,
        &mut new,
    )
    .unwrap();
    new
}

fn refusal(old: &[u8], change: Change<'_>) -> TableError {
    let update = Update::new(b"k", change);
    decide(Some(record(old)), &update, WIDE, &mut Vec::new()).unwrap_err()
}

#[test]
fn rotation_cuts_from_the_front() {
    let rotate = |bytes, size| Change::Rotate {
        bytes,
        size: Some(size),
    };
    assert_eq!(after(b"ABCDEFGH", rotate(b"IJK", 8)), b"DEFGHIJK");
    assert_eq!(after(b"AB", rotate(b"C", 8)), b"ABC");
    assert_eq!(after(b"ABCDEFGHIJ", rotate(b"K", 4)), b"HIJK");
    assert_eq!(after(b"AB", rotate(b"0123456789", 4)), b"6789");
}

#[test]
fn an_entry_takes_the_place_of_an_older_one_about_the_same() {
    let visit = |entry| Change::RotateEntry {
        entry,
        size: Some(6),
        identity: 1,
        not_before: b"",
    };
    assert_eq!(after(b"a1b1c1", visit(b"a2")), b"b1c1a2");
    assert_eq!(after(b"a1b1c1", visit(b"d2")), b"b1c1d2");
    assert_eq!(after(b"", visit(b"d2")), b"d2");
}

#[test]
fn entries_before_a_limit_are_dropped() {
    let visit = Change::RotateEntry {
        entry: b"d9",
        size: Some(100),
        identity: 1,
        not_before: b"3",
    };
    assert_eq!(after(b"a1b2c3", visit), b"c3d9");
}

#[test]
fn an_entry_equal_as_a_whole_moves_up() {
    let visit = |entry| Change::RotateEntry {
        entry,
        size: Some(6),
        identity: 2,
        not_before: b"",
    };
    assert_eq!(after(b"a1b1c1", visit(b"a1")), b"b1c1a1");
    assert_eq!(after(b"a1b1c1", visit(b"a2")), b"b1c1a2");
}

#[test]
fn whole_entries_remain_within_a_size_that_is_no_multiple() {
    let visit = Change::RotateEntry {
        entry: b"dd",
        size: Some(5),
        identity: 0,
        not_before: b"",
    };
    assert_eq!(after(b"aabbcc", visit), b"ccdd");
}

#[test]
fn an_entry_that_does_not_fit_is_refused() {
    let rotate = |entry, size, identity, not_before| Change::RotateEntry {
        entry,
        size: Some(size),
        identity,
        not_before,
    };
    let changes = [
        // Empty, longer than the size, more identity than entry, more limit than rest.
        rotate(b"", 6, 0, b""),
        rotate(b"abc", 2, 0, b""),
        rotate(b"ab", 6, 3, b""),
        rotate(b"ab", 6, 1, b"12"),
        rotate(b"ab", 6, usize::MAX, b""),
        // What is there is not of whole entries.
        rotate(b"abc", 6, 0, b""),
    ];
    for change in changes {
        assert!(
            matches!(refusal(b"aabb", change), TableError::Entry),
            "{change:?}"
        );
    }
    let change = Change::Rotate {
        bytes: b"a",
        size: Some(WIDE.value_bytes_max + 1),
    };
    let refused = refusal(b"", change);
    assert!(matches!(refused, TableError::ValueTooLong { limit } if limit == WIDE.value_bytes_max));
}

#[test]
fn a_rotation_without_a_size_keeps_the_width() {
    let bounds = Bounds {
        width: Some(4),
        value_bytes_max: 4,
    };
    let change = Change::Rotate {
        bytes: b"de",
        size: None,
    };
    let mut new = Vec::new();
    decide(
        Some(record(b"abc")),
        &Update::new(b"1", change),
        bounds,
        &mut new,
    )
    .unwrap();
    assert_eq!(new, b"bcde");
    decide(
        None,
        &Update::new(
            b"1",
            Change::Rotate {
                bytes: b"abcdefgh",
                size: None,
            },
        ),
        bounds,
        &mut new,
    )
    .unwrap();
    assert_eq!(new, b"efgh");
}

#[test]
fn a_count_keeps_its_length_and_a_decrement_stops_at_zero() {
    let down = |by| Change::Decrement { by, initial: None };
    let up = |by| Change::Increment { by, initial: None };
    assert_eq!(after(b"10", down(1)), b"9 ");
    assert_eq!(after(b"9 ", down(100)), b"0 ");
    assert_eq!(after(b"9 ", up(1)), b"10");
    assert_eq!(after(b"99", up(1)), b"100");
    assert_eq!(
        after(b"18446744073709551615", up(2)),
        b"1                   "
    );
    assert_eq!(
        after(b"0000000000000000000000001", up(2)),
        b"3                        "
    );
}

#[test]
fn what_is_no_number_is_not_counted() {
    let up = Change::Increment {
        by: 1,
        initial: Some(1),
    };
    for value in [
        &b""[..],
        b" ",
        b"a",
        b"-1",
        b"+1",
        b" 1",
        b"1a",
        b"1 1",
        b"18446744073709551616",
        b"\xff",
    ] {
        assert!(
            matches!(refusal(value, up), TableError::NotANumber),
            "{value:?}"
        );
    }
    let add = |width| Change::AddInteger { by: 1, width };
    for value in [&b""[..], b"123", b"12345"] {
        for change in [
            add(IntegerWidth::Four),
            add(IntegerWidth::Eight),
            Change::AddDouble(1.0),
        ] {
            assert!(matches!(refusal(value, change), TableError::NotANumber));
        }
    }
}

#[test]
fn sums_that_do_not_fit_are_refused() {
    let add = |by, width| Change::AddInteger { by, width };
    let cases = [
        (i32::MAX.to_le_bytes().to_vec(), add(1, IntegerWidth::Four)),
        (i32::MIN.to_le_bytes().to_vec(), add(-1, IntegerWidth::Four)),
        (
            0_i32.to_le_bytes().to_vec(),
            add(i64::MAX, IntegerWidth::Four),
        ),
        (i64::MAX.to_le_bytes().to_vec(), add(1, IntegerWidth::Eight)),
        (f64::MAX.to_le_bytes().to_vec(), Change::AddDouble(f64::MAX)),
        (0_f64.to_le_bytes().to_vec(), Change::AddDouble(f64::NAN)),
    ];
    for (old, change) in cases {
        assert!(
            matches!(refusal(&old, change), TableError::OutOfRange),
            "{change:?}"
        );
    }
    let sum = after(&(-3_i32).to_le_bytes(), add(5, IntegerWidth::Four));
    assert_eq!(sum, 2_i32.to_le_bytes());
}

#[test]
fn a_value_that_becomes_too_long_is_refused() {
    let bounds = Bounds {
        width: Some(3),
        value_bytes_max: 3,
    };
    let long = [
        Change::Put(b"1234"),
        Change::Append(b"23"),
        Change::Prepend(b"23"),
        Change::AddDouble(1.0),
        Change::Increment {
            by: 1000,
            initial: None,
        },
    ];
    for change in long {
        let current = match change {
            Change::AddDouble(_) => None,
            _ => Some(record(b"12")),
        };
        let decided = decide(current, &Update::new(b"1", change), bounds, &mut Vec::new());
        assert!(
            matches!(decided, Err(TableError::ValueTooLong { limit: 3 })),
            "{change:?}"
        );
    }
}

/// What a change leaves and answers, or why it does not.
type Result = std::result::Result<(&'static [u8], Answer), Decision>;

/// What a change comes to when its condition is met.
struct Case {
    change: Change<'static>,
    /// The value and the answer where there was no record.
    absent: Result,
    /// The same where there was `12`.
    present: Result,
    /// Whether the attributes become the update's.
    sets_attributes: bool,
}

const OLD: Attributes = Attributes {
    flags: 7,
    expires_at: 70,
};
const GIVEN: Attributes = Attributes {
    flags: 8,
    expires_at: 80,
};

fn cases() -> Vec<Case> {
    let stored = |value: &'static [u8]| Ok((value, Answer::Stored));
    let case = |change, absent: Result, present: Result| Case {
        change,
        absent,
        present,
        sets_attributes: false,
    };
    let touched = Attributes {
        expires_at: GIVEN.expires_at,
        ..OLD
    };
    vec![
        Case {
            sets_attributes: true,
            ..case(Change::Put(b"new"), stored(b"new"), stored(b"new"))
        },
        case(Change::Append(b"34"), stored(b"34"), stored(b"1234")),
        case(Change::Prepend(b"34"), stored(b"34"), stored(b"3412")),
        case(
            Change::Rotate {
                bytes: b"345",
                size: Some(4),
            },
            stored(b"345"),
            stored(b"2345"),
        ),
        case(
            Change::RotateEntry {
                entry: b"3",
                size: Some(2),
                identity: 1,
                not_before: b"",
            },
            stored(b"3"),
            stored(b"23"),
        ),
        case(
            Change::Increment {
                by: 5,
                initial: None,
            },
            Err(Decision::NotFound),
            Ok((
                b"17",
                Answer::Number {
                    value: 17,
                    is_new: false,
                },
            )),
        ),
        case(
            Change::Increment {
                by: 5,
                initial: Some(2),
            },
            Ok((
                b"2",
                Answer::Number {
                    value: 2,
                    is_new: true,
                },
            )),
            Ok((
                b"17",
                Answer::Number {
                    value: 17,
                    is_new: false,
                },
            )),
        ),
        case(
            Change::Decrement {
                by: 5,
                initial: None,
            },
            Err(Decision::NotFound),
            Ok((
                b"7 ",
                Answer::Number {
                    value: 7,
                    is_new: false,
                },
            )),
        ),
        case(
            Change::Decrement {
                by: 5,
                initial: Some(2),
            },
            Ok((
                b"2",
                Answer::Number {
                    value: 2,
                    is_new: true,
                },
            )),
            Ok((
                b"7 ",
                Answer::Number {
                    value: 7,
                    is_new: false,
                },
            )),
        ),
        case(
            Change::Touch,
            Err(Decision::NotFound),
            Err(Decision::Touch(touched)),
        ),
        case(
            Change::Remove,
            Err(Decision::NotFound),
            Err(Decision::Remove),
        ),
    ]
}

#[test]
fn every_change_meets_every_condition() {
    // The condition, and what stops the change where there is no record, and where there is.
    let conditions = [
        (Condition::Any, None, None),
        (Condition::Absent, None, Some(Decision::NotStored)),
        (Condition::Present, Some(Decision::NotStored), None),
        (Condition::Unique(1), Some(Decision::NotFound), None),
        (
            Condition::Unique(2),
            Some(Decision::NotFound),
            Some(Decision::Differs),
        ),
        (Condition::Value(b"12"), Some(Decision::NotFound), None),
        (
            Condition::Value(b"1"),
            Some(Decision::NotFound),
            Some(Decision::Differs),
        ),
    ];
    let there = Current {
        attributes: OLD,
        ..record(b"12")
    };
    for case in cases() {
        for (condition, if_absent, if_present) in conditions {
            for (current, stopped, done) in [
                (None, if_absent, case.absent),
                (Some(there), if_present, case.present),
            ] {
                let update = Update {
                    condition,
                    attributes: GIVEN,
                    ..Update::new(b"k", case.change)
                };
                let mut new = b"rubbish".to_vec();
                let decided = decide(current, &update, WIDE, &mut new).unwrap();
                let what = format!("{update:?} {current:?}");
                match (stopped, done) {
                    (Some(stopped), _) | (None, Err(stopped)) => {
                        assert_eq!(decided, stopped, "{what}");
                    }
                    (None, Ok((value, answer))) => {
                        let keeps = current.is_some() && !case.sets_attributes;
                        let attributes = if keeps { OLD } else { GIVEN };
                        assert_eq!(decided, Decision::Put(attributes, answer), "{what}");
                        assert_eq!(new, value, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn binary_sums_begin_at_zero() {
    let mut new = Vec::new();
    for (change, answer, bytes) in [
        (
            Change::AddInteger {
                by: -2,
                width: IntegerWidth::Four,
            },
            Answer::Integer(-2),
            (-2_i32).to_le_bytes().to_vec(),
        ),
        (
            Change::AddInteger {
                by: 1 << 40,
                width: IntegerWidth::Eight,
            },
            Answer::Integer(1 << 40),
            (1_i64 << 40).to_le_bytes().to_vec(),
        ),
        (
            Change::AddDouble(0.5),
            Answer::Double(0.5),
            0.5_f64.to_le_bytes().to_vec(),
        ),
    ] {
        let decided = decide(None, &Update::new(b"k", change), WIDE, &mut new).unwrap();
        assert_eq!(decided, Decision::Put(Attributes::default(), answer));
        assert_eq!(new, bytes);
    }
}
