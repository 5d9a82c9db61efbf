//! Which events a session lets in: everything that can be told without the store and before the
//! signature is checked.

use std::borrow::Cow;

use hikyaku_event::{Event, Kind, Timestamp};
use hikyaku_store::{Reader, rules};
use serde_json::Value;

use crate::{Limits, RelayUrls};

/// Why an event is refused, with its machine-readable prefix.
pub(crate) type Reason = Cow<'static, str>;

/// NIP-62's name for every relay; in upper case only.
const ALL_RELAYS: &str = "ALL_RELAYS";
/// A repost of a note, and one of anything else (NIP-18): their content may embed the event.
const REPOSTS: [Kind; 2] = [Kind(6), Kind(16)];

/// Checks an EVENT: limits, id, time, and who may publish it.
pub(crate) fn check(
    event: &Event,
    reader: &Reader,
    limits: &Limits,
    now: Timestamp,
) -> Result<(), Reason> {
    check_limits(event, limits)?;
    event
        .verify_id()
        .map_err(|error| Reason::from(format!("invalid: {error}")))?;
    check_time(event, limits, now)?;
    check_kind(event)?;
    check_protection(event, reader)
}

/// Checks an event's size: JSON, tags, content.
pub(crate) fn check_limits(event: &Event, limits: &Limits) -> Result<(), Reason> {
    let bytes = event.json().len();
    if bytes > limits.event_bytes_max {
        return Err(too_much(
            "the event has",
            bytes,
            limits.event_bytes_max,
            "bytes",
        ));
    }
    // Neither tags nor content can be over the limit if there are not even bytes enough: a tag
    // takes three of them ("[],").
    if bytes / 3 > limits.tags_max {
        let tags = event.tags().count();
        if tags > limits.tags_max {
            return Err(too_much("the event has", tags, limits.tags_max, "tags"));
        }
    }
    if bytes > limits.content_characters_max {
        let characters = event.content().chars().count();
        if characters > limits.content_characters_max {
            let max = limits.content_characters_max;
            return Err(too_much("the content has", characters, max, "characters"));
        }
    }
    Ok(())
}

fn too_much(what: &str, found: usize, max: usize, unit: &str) -> Reason {
    format!("invalid: {what} {found} {unit}, at most {max} are accepted").into()
}

fn check_time(event: &Event, limits: &Limits, now: Timestamp) -> Result<(), Reason> {
    let created_at = event.created_at();
    if created_at > now.saturating_add(limits.created_at_ahead_seconds_max) {
        return Err(format!(
            "invalid: created_at is more than {} seconds ahead of this relay's clock",
            limits.created_at_ahead_seconds_max
        )
        .into());
    }
    if let Some(behind) = limits.created_at_behind_seconds_max
        && created_at < now.saturating_sub(behind)
    {
        return Err(format!("invalid: created_at is more than {behind} seconds ago").into());
    }
    if rules::is_expired(event, now) {
        return Err("invalid: the event has expired".into());
    }
    Ok(())
}

fn check_kind(event: &Event) -> Result<(), Reason> {
    match event.kind() {
        Kind::CLIENT_AUTH => Err("invalid: an event of kind 22242 belongs in AUTH".into()),
        Kind::VANISH if relay_tags(event).next().is_none() => {
            Err("invalid: a request to vanish must name a relay or ALL_RELAYS".into())
        }
        _ => Ok(()),
    }
}

/// Keeps protected events to their authors (NIP-70), embedded ones too.
fn check_protection(event: &Event, reader: &Reader) -> Result<(), Reason> {
    if event.is_protected() && !reader.keys().contains(&event.pubkey()) {
        return Err(if reader.keys().is_empty() {
            "auth-required: this event may only be published by its author".into()
        } else {
            "restricted: this event may only be published by its author".into()
        });
    }
    if REPOSTS.contains(&event.kind()) && embeds_protected(&event.content()) {
        return Err("blocked: a repost may not embed a protected event".into());
    }
    Ok(())
}

/// Tells whether the text is the JSON of an event with a `-` tag.
fn embeds_protected(content: &str) -> bool {
    let Ok(embedded) = serde_json::from_str::<Value>(content) else {
        return false;
    };
    let tags = embedded.get("tags").and_then(Value::as_array);
    tags.is_some_and(|tags| {
        tags.iter()
            .any(|tag| tag.get(0).is_some_and(|name| name == "-"))
    })
}

/// Tells whether the event is a request to vanish that means this relay (NIP-62).
pub fn is_to_vanish(event: &Event, urls: &RelayUrls) -> bool {
    event.kind() == Kind::VANISH
        && relay_tags(event).any(|relay| relay == ALL_RELAYS || urls.names_us(&relay))
}

fn relay_tags(event: &Event) -> impl Iterator<Item = Cow<'_, str>> {
    event
        .tags()
        .filter(|tag| tag.name() == "relay")
        .filter_map(|tag| tag.value())
}
