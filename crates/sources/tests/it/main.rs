//! Other relays' databases, made as those relays make them, and read.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod nostr_rs_relay;
mod nostream;
mod strfry;

use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use hikyaku_sources::{Note, Rows, Source, SourceError};

/// Returns so many notes.
fn notes(count: u64) -> Vec<Event> {
    let alice = Author::new(1);
    (0..count)
        .map(|number| {
            EventBuilder::new(1)
                .created_at(1_700_000_000 + number)
                .content(&format!("note {number}"))
                .sign(&alice)
        })
        .collect()
}

/// Returns events whose text is hard to keep.
fn hard() -> Vec<Event> {
    let bob = Author::new(2);
    [
        "quotes \" and ' and \\ and \\n",
        "lines\nand\r\ntabs\t",
        "\u{1}\u{1f} \u{7f} \u{2028}",
        "日本語 🦀 e\u{301}",
        "",
    ]
    .iter()
    .enumerate()
    .map(|(number, text)| {
        EventBuilder::new(1)
            .created_at(1_600_000_000 + number as u64)
            .tag(["t", text])
            .tag(["e"])
            .tag(["alt", text, "", "1.0"])
            .content(text)
            .sign(&bob)
    })
    .collect()
}

/// What a source gave, in order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Given {
    /// The ids of the events, each of which is valid.
    ids: Vec<String>,
    left_out: usize,
    unreadable: Vec<String>,
}

/// Reads until the end.
fn read_all(source: &mut dyn Source) -> Result<Given, SourceError> {
    let mut given = Given::default();
    while read_some(source, &mut given)? {}
    Ok(given)
}

/// Reads a batch; tells whether it had any rows.
fn read_some(source: &mut dyn Source, given: &mut Given) -> Result<bool, SourceError> {
    let mut rows = Rows::default();
    source.read(&mut rows)?;
    let mut any = false;
    for line in rows.lines() {
        any = true;
        match Note::parse(line) {
            Some(Note::LeftOut) => given.left_out += 1,
            Some(Note::Unreadable(reason)) => given.unreadable.push(reason),
            None => {
                let event = Event::parse(line).unwrap();
                event.verify_id().unwrap();
                given.ids.push(event.id().to_hex());
            }
        }
    }
    Ok(any)
}

fn ids<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<String> {
    events
        .into_iter()
        .map(|event| event.id().to_hex())
        .collect()
}

fn refusal<S>(result: Result<S, SourceError>) -> SourceError {
    result.err().expect("it is refused")
}
