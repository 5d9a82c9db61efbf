//! What a relay says: the bytes of OK, EVENT, EOSE, CLOSED, COUNT, AUTH and NOTICE.

use std::borrow::Cow;

use bytes::Bytes;
use hikyaku_event::{EventId, SubscriptionId};
use hikyaku_store::{Completeness, Outcome, Refusal, StoreError};
use serde_json::Value;

/// One text message to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The whole message.
    Text(Bytes),
    /// An event for a subscription: the message is `header`, `json`, and one `]`. Both are shared,
    /// so that no event is copied per receiver.
    Event {
        /// `["EVENT","<subscription id>",`; made once per subscription.
        header: Bytes,
        /// The event.
        json: Bytes,
    },
}

/// What became of a [`crate::Publication`].
#[derive(Debug, Clone, Copy)]
pub enum PublishOutcome<'a> {
    /// What the store decided; a duplicate found before the signature check is
    /// [`Outcome::Duplicate`].
    Written(Outcome),
    /// Its author is kept out.
    Banned {
        /// What the operator has to say.
        reason: &'a str,
    },
    /// Its signature is wrong.
    WrongSignature,
    /// It is ephemeral, and this many subscriptions of all workers took it.
    Delivered {
        /// 0 is answered with `mute:` (NIP-01).
        listeners: u64,
    },
    /// Its author or the client has sent too much, and its store was not asked.
    TooFast {
        /// After how many seconds there is room again.
        wait_seconds: u64,
    },
    /// Somebody who may decide that does not want it; the reason begins with a word that programs
    /// read (NIP-01).
    Rejected(&'a str),
    /// Somebody else has dealt with it, so that it is not stored; its author hears this.
    Answered(&'a str),
    /// Nobody keeps it, and its author is not to know.
    Shadowed,
    /// The store could not write it.
    Failed(&'a StoreError),
}

/// Makes the OK that answers an EVENT.
pub fn ok(id: &EventId, outcome: PublishOutcome<'_>) -> Message {
    let (accepted, text) = verdict(outcome);
    if let PublishOutcome::Banned { .. }
    | PublishOutcome::Rejected(_)
    | PublishOutcome::Answered(_) = outcome
    {
        return ok_text(&id.to_hex(), accepted, &text);
    }
    // Neither the id nor our own texts hold anything to escape.
    Message::Text(format!(r#"["OK","{id}",{accepted},"{text}"]"#).into())
}

/// Returns whether an event is accepted, and the reason with its machine-readable prefix.
fn verdict(outcome: PublishOutcome<'_>) -> (bool, Cow<'_, str>) {
    let (accepted, text) = match outcome {
        PublishOutcome::Written(Outcome::Stored(_))
        | PublishOutcome::Delivered { listeners: 1.. }
        | PublishOutcome::Shadowed => (true, ""),
        PublishOutcome::Rejected(reason) => (false, reason),
        PublishOutcome::Answered(text) => (true, text),
        PublishOutcome::Written(Outcome::Duplicate) => (true, "duplicate: already have this event"),
        PublishOutcome::Written(Outcome::Superseded) => (
            true,
            "duplicate: already have a newer version of this event",
        ),
        PublishOutcome::Written(Outcome::Refused(refusal)) => (false, refused(refusal)),
        PublishOutcome::Written(Outcome::Done | Outcome::Absent) => {
            (false, "error: the event was not stored")
        }
        PublishOutcome::Banned { reason } => return (false, format!("blocked: {reason}").into()),
        PublishOutcome::WrongSignature => (false, "invalid: the signature is not valid"),
        PublishOutcome::Delivered { listeners: 0 } => (
            false,
            "mute: no one was listening to this ephemeral event, so it was dropped",
        ),
        PublishOutcome::TooFast { wait_seconds } => {
            return (false, rate_limited(wait_seconds).into());
        }
        PublishOutcome::Failed(error) => return (false, failed(error)),
    };
    (accepted, text.into())
}

/// Returns what a client hears that is too fast (NIP-01).
pub fn rate_limited(wait_seconds: u64) -> String {
    format!("rate-limited: slow down, there is room again in {wait_seconds} s")
}

fn refused(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Deleted => "blocked: this event was deleted and can not be published again",
        Refusal::Vanished => "blocked: its author or recipient has asked to vanish from this relay",
        Refusal::Expired => "invalid: the event has expired",
        Refusal::Ephemeral => "invalid: events of this kind are not stored",
    }
}

/// Returns what a client is told of a store's failure; the operator reads the error itself.
fn failed(error: &StoreError) -> Cow<'static, str> {
    let text = match error {
        StoreError::Unavailable(_) => {
            "error: the relay can not reach or extend its storage now, try again later"
        }
        StoreError::Stopped(_) => "error: the relay takes no new events until it is restarted",
        StoreError::Corrupt(_) => "error: a part of the relay's storage is damaged",
        StoreError::Unsupported(text) => return format!("unsupported: {text}").into(),
    };
    text.into()
}

/// Makes an OK for an event that may not even have a proper id: `id` is whatever the client wrote.
pub(crate) fn ok_text(id: &str, accepted: bool, text: &str) -> Message {
    Message::Text(format!(r#"["OK",{},{accepted},{}]"#, quote(id), quote(text)).into())
}

/// Makes the NOTICE for what can be answered by nothing else.
pub(crate) fn notice(text: &str) -> Message {
    Message::Text(format!(r#"["NOTICE",{}]"#, quote(text)).into())
}

/// Makes the AUTH that hands out the challenge (NIP-42).
pub(crate) fn auth(challenge: &str) -> Message {
    Message::Text(format!(r#"["AUTH",{}]"#, quote(challenge)).into())
}

/// Makes the CLOSED that ends or refuses a subscription or count.
pub(crate) fn closed(id: &SubscriptionId, text: &str) -> Message {
    Message::Text(format!(r#"["CLOSED",{},{}]"#, quote(id.as_str()), quote(text)).into())
}

/// Makes the CLOSED for what the store could not answer.
pub(crate) fn closed_by(id: &SubscriptionId, error: &StoreError) -> Message {
    closed(id, &failed(error))
}

/// Makes the EOSE, with NIP-67's hint where something is known.
pub(crate) fn eose(id: &SubscriptionId, completeness: Completeness) -> Message {
    let hint = match completeness {
        Completeness::Finish => r#",["finish"]"#,
        Completeness::More => r#",["more"]"#,
        Completeness::Unknown => "",
    };
    Message::Text(format!(r#"["EOSE",{}{hint}]"#, quote(id.as_str())).into())
}

/// Makes the COUNT that answers a COUNT (NIP-45).
pub(crate) fn count(id: &SubscriptionId, count: u64, exact: bool) -> Message {
    let approximate = if exact { "" } else { r#","approximate":true"# };
    let id = quote(id.as_str());
    Message::Text(format!(r#"["COUNT",{id},{{"count":{count}{approximate}}}]"#).into())
}

/// Makes the header of every event of a subscription.
pub(crate) fn event_header(id: &SubscriptionId) -> Bytes {
    format!(r#"["EVENT",{},"#, quote(id.as_str())).into()
}

fn quote(text: &str) -> String {
    Value::from(text).to_string()
}
