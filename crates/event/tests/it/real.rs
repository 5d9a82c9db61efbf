//! Real events from the network, where they are present beside the workspace.

use std::path::Path;

use hikyaku_event::{Event, Verifier, testing::fuzz_event};

/// Returns the real events, one a line; none, saying so, where they are not present.
fn real_events() -> Vec<Vec<u8>> {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let path = folders
        .map(|folder| folder.join("shared/data/real-events.jsonl"))
        .find(|path| path.exists());
    let Some(jsonl) = path.and_then(|path| std::fs::read(path).ok()) else {
        println!("skipped: no shared/data/real-events.jsonl beside the workspace");
        return Vec::new();
    };
    jsonl
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(Into::into)
        .collect()
}

#[test]
fn real_events_parse_and_verify() {
    let mut verifier = Verifier::new();
    for json in real_events() {
        let event = Event::parse(&json).unwrap();
        assert_eq!(event.json(), &json, "compact events are kept as they came");
        assert_eq!(event.verify_id(), Ok(()), "{}", event.id());
        assert_eq!(verifier.verify(&event), Ok(()), "{}", event.id());
        fuzz_event(&json);
    }
}
