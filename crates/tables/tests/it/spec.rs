//! Tables by one line of text.

use std::path::Path;

use hikyaku_tables::{Durability, Kind, TableError, TableOptions, TableSpec, open};
use hikyaku_vfs::SimulatedDisk;

fn refusal(text: &str) -> String {
    match text.parse::<TableSpec>() {
        Err(TableError::Syntax(message)) => message,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_text_names_a_table_and_its_options() {
    let spec: TableSpec = "presence.fixed?width=16&limit=1g".parse().unwrap();
    assert_eq!((&*spec.file, spec.kind), ("presence.fixed", Kind::Fixed));
    let options = TableOptions {
        width: Some(16),
        limit: Some(1 << 30),
        ..TableOptions::default()
    };
    assert_eq!(spec.options, options);
    let spec: TableSpec = "names.hash".parse().unwrap();
    assert_eq!((&*spec.file, spec.kind), ("names.hash", Kind::Hash));
    let text = "the.scores.ordered?value=64m&durability=interval&interval=5";
    let spec: TableSpec = text.parse().unwrap();
    assert_eq!(spec.kind, Kind::Ordered);
    assert_eq!(spec.options.durability, Some(Durability::Interval));
    assert_eq!(spec.options.interval, Some(5));
    let spec: TableSpec = "*".parse().unwrap();
    assert_eq!(spec, TableSpec::in_memory());
    let spec: TableSpec = "*?limit=64m".parse().unwrap();
    assert_eq!(spec.options.limit, Some(64 << 20));
}

#[test]
fn a_text_reads_as_it_is_written() {
    for text in [
        "presence.fixed?width=16&limit=1g",
        "names.hash",
        "scores.ordered?limit=3t&value=1025&cache=1m&durability=none&interval=7",
        "*?limit=64m&value=1k",
    ] {
        let spec: TableSpec = text.parse().unwrap();
        assert_eq!(spec.to_string(), text);
    }
}

#[test]
fn a_wrong_option_is_named_with_the_right_ones() {
    let cases = [
        (
            "a.fixed?widht=16",
            "\"widht\"",
            "did you mean width? There are: width, limit",
        ),
        (
            "a.hash?width=16",
            "\"width\"",
            "limit, value, cache, durability, interval",
        ),
        ("a.fixed?width=x", "width is", "\"x\""),
        ("a.fixed?width=0", "width is", "\"0\""),
        ("a.fixed?width=16&width=17", "width is given twice", ""),
        ("a.fixed?width", "NAME=VALUE", "\"width\""),
        ("a.fixed?", "NAME=VALUE", ""),
        (
            "a.hash?durability=often",
            "sync, interval or none",
            "\"often\"",
        ),
        ("a.hash?interval=-1", "seconds", "\"-1\""),
        ("a.hahs", ".fixed, .hash or .ordered", "did you mean hash?"),
        ("a", ".fixed, .hash or .ordered", "in memory"),
    ];
    for (text, one, other) in cases {
        let message = refusal(text);
        assert!(
            message.contains(one) && message.contains(other),
            "{message}"
        );
    }
}

#[test]
fn a_name_does_not_lead_out_of_the_folder() {
    let long = format!("{}.hash", "a".repeat(300));
    for text in [
        "../a.hash",
        "/a.hash",
        "a/b.hash",
        "a\\b.hash",
        "..hash",
        ".hash",
        "...hash",
        "./a.hash",
        "",
        "?limit=1",
        "a\0.hash",
        "a\n.hash",
        "a b.hash",
        "-a.hash",
        "~/a.hash",
        "**",
        "*.hash",
        "$(a).hash",
        &long,
    ] {
        refusal(text);
        let disk = SimulatedDisk::new(1);
        let opened = open(&disk.disk(), Path::new("/"), text, None);
        assert!(matches!(opened, Err(TableError::Syntax(_))), "{text:?}");
        assert_eq!(disk.files(), []);
    }
}
