//! Who may ask for private kinds (NIP-42, NIP-17, NIP-59).
//!
//! What a reader gets to see is decided event by event ([`Reader::may_read`]). Here is decided what
//! is better refused outright: a filter that can only give nothing as things stand tells the client
//! why, instead of an empty answer.

use hikyaku_event::{Filter, Kind, PublicKey, TagName};
use hikyaku_store::Reader;

/// Refuses filters that name only private kinds, for a client that has not authenticated or has not
/// authenticated anybody who could be a party. Filters that name other kinds too just leave the
/// private ones out.
pub(crate) fn check(filters: &[Filter], reader: &Reader) -> Result<(), &'static str> {
    let private = || filters.iter().filter(|filter| names_only_private(filter));
    if reader.is_operator() {
        Ok(())
    } else if reader.keys().is_empty() && private().next().is_some() {
        Err("auth-required: private messages are only for their parties, authenticate first")
    } else if private().any(|filter| !may_be_party(filter, reader.keys())) {
        Err("restricted: these private messages are for somebody else")
    } else {
        Ok(())
    }
}

fn names_only_private(filter: &Filter) -> bool {
    filter
        .kinds
        .as_ref()
        .is_some_and(|kinds| !kinds.is_empty() && kinds.iter().all(|kind| kind.is_private()))
}

/// Tells whether the filter leaves room for one of the keys as recipient or, of kind 4, as author.
fn may_be_party(filter: &Filter, keys: &[PublicKey]) -> bool {
    let is_recipient = match filter
        .tags
        .iter()
        .find(|tag| tag.name == TagName::of_letter(b'p'))
    {
        Some(recipients) => keys
            .iter()
            .any(|key| recipients.values.contains(&key.to_hex())),
        None => true,
    };
    let asks_messages = filter
        .kinds
        .as_ref()
        .is_some_and(|kinds| kinds.contains(&Kind::DIRECT_MESSAGE));
    let is_author = match &filter.authors {
        Some(authors) => keys.iter().any(|key| authors.contains(key)),
        None => true,
    };
    is_recipient || (asks_messages && is_author)
}
