//! Files of Tokyo Cabinet, in and out.

use std::fs;

use crate::program::Place;

/// A file that Debian's tools have written: records 3, 7 (empty) and 8, and 9 was removed.
const OLD: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../tables/testdata/debian-narrow.tcf"
);

fn import(place: &Place, table: &str) -> String {
    place.run(&["tables", "import", OLD, "--into", table]).ok()
}

#[test]
fn an_old_file_moves_in_and_out() {
    let place = Place::new();
    assert_eq!(
        import(&place, "old.hash"),
        "3 records are in old.hash now\n"
    );
    let export = ["tables", "export", "--from", "old.hash"];
    let out = place.run(&[&export[..], &["new.tcf"]].concat()).ok();
    assert_eq!(out, "3 records of old.hash are in new.tcf now\n");
    let new = fs::read(place.path().join("new.tcf")).unwrap();
    assert_eq!(new[48..56], 3_u64.to_le_bytes());
    assert_eq!(&new[256 + 2 * 6..][..6], b"\x03abc\0\0");

    let big_endian = ["--big-endian", "--width", "5", "debian.tcf"];
    place.run(&[&export[..], &big_endian].concat()).ok();
    let again = fs::read(place.path().join("debian.tcf")).unwrap();
    let old = fs::read(OLD).unwrap();
    // Behind the records the tool leaves room for more.
    assert_eq!(again[256..], old[256..again.len()]);
}

#[test]
fn what_can_not_be_moved_says_why() {
    let place = Place::new();
    place.write("text.tcf", "no database of anybody");
    let damaged = ["tables", "import", "text.tcf", "--into", "old.hash"];
    let said = place.run(&damaged).failed(4);
    assert!(said.contains("fewer than a header's 256"), "{said}");

    let missing = ["tables", "export", "--from", "none.hash", "new.tcf"];
    let said = place.run(&missing).failed(2);
    assert!(said.contains("there is no tables/none.hash"), "{said}");

    import(&place, "old.hash");
    place.write("taken.tcf", "");
    let taken = ["tables", "export", "--from", "old.hash", "taken.tcf"];
    let said = place.run(&taken).failed(1);
    assert!(said.contains("File exists"), "{said}");
}

#[test]
fn records_without_a_place_are_all_refused_and_leave_nothing() {
    let place = Place::new();
    let narrow = ["tables", "import", OLD, "--into", "old.fixed?width=1"];
    let said = place.run(&narrow).failed(2);
    assert!(
        said.contains("record 3 has no place") && said.contains("1 bytes"),
        "{said}"
    );
    // The next try is not met by a table as narrow.
    assert_eq!(
        import(&place, "old.fixed?width=5"),
        "3 records are in old.fixed?width=5 now\n"
    );
    let said = place
        .run(&["tables", "import", OLD, "--into", "*"])
        .failed(2);
    assert!(said.contains("in memory"), "{said}");
}
