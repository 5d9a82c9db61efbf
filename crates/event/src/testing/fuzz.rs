//! The bodies of the fuzz targets: what must hold for any bytes at all. The fuzzer calls them with
//! its inputs, the tests of this crate with theirs.

use bytes::Bytes;

use crate::{ClientMessage, Event, Filter, SubscriptionId};

/// Any bytes are refused as an event, or make one whose JSON means the same.
pub fn fuzz_event(data: &[u8]) {
    let Ok(event) = Event::parse(data) else {
        return;
    };
    let verified = event.verify_id();
    let stored = Event::from_stored(event.json().clone());
    let stored = stored.unwrap_or_else(|error| panic!("its own JSON is refused: {error}"));
    assert_same(&event, &stored);
    assert_eq!(event.json(), stored.json(), "its own JSON is written anew");
    assert_eq!(
        verified,
        stored.verify_id(),
        "rewriting changes the id's rightness"
    );
    exercise(&event);
}

/// Any bytes are refused as a filter, or make one that is read back as it was written.
pub fn fuzz_filter(data: &[u8]) {
    let Ok(filter) = Filter::parse(data) else {
        return;
    };
    let again = Filter::parse(filter.to_json().as_bytes());
    assert_eq!(
        again.as_ref(),
        Ok(&filter),
        "a filter is not read back as it was written"
    );
    assert_eq!(
        filter.clone().sorted(),
        filter,
        "a parsed filter is not sorted"
    );
}

/// Any bytes are refused as a message, or make one whose parts parse by themselves.
pub fn fuzz_message(data: &[u8]) {
    const FILTERS_MAX: usize = 4;
    match ClientMessage::parse(data, FILTERS_MAX) {
        Ok(ClientMessage::Event(Ok(event)) | ClientMessage::Auth(Ok(event))) => {
            fuzz_event(event.json());
        }
        Ok(ClientMessage::Req(id, filters) | ClientMessage::Count(id, filters)) => {
            assert_eq!(SubscriptionId::new(id.as_str()), Some(id));
            let filters = filters.unwrap_or_default();
            assert!(filters.len() <= FILTERS_MAX, "more filters than allowed");
            for filter in filters {
                fuzz_filter(filter.to_json().as_bytes());
            }
        }
        Ok(ClientMessage::Close(id)) => assert_eq!(SubscriptionId::new(id.as_str()), Some(id)),
        Ok(ClientMessage::Event(Err(_)) | ClientMessage::Auth(Err(_))) | Err(_) => {}
    }
}

fn assert_same(one: &Event, other: &Event) {
    assert_eq!(one.id(), other.id());
    assert_eq!(one.pubkey(), other.pubkey());
    assert_eq!(one.created_at(), other.created_at());
    assert_eq!(one.kind(), other.kind());
    assert_eq!(one.sig(), other.sig());
    assert_eq!(one.content(), other.content());
    let strings = |event: &Event| -> Vec<Vec<String>> {
        event
            .tags()
            .map(|tag| tag.strings().map(Into::into).collect())
            .collect()
    };
    assert_eq!(strings(one), strings(other));
}

/// Asks everything there is to ask, for the sake of not panicking.
fn exercise(event: &Event) {
    let _ = (event.address(), event.expires_at(), event.is_protected());
    let _ = (
        event.is_party(&event.pubkey()),
        event.indexed_tags().count(),
    );
    let copy = Event::from_stored(Bytes::copy_from_slice(event.json()));
    assert!(copy.is_ok());
}
