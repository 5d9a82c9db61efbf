//! What a relay says (NIP-01), as far as a measurement needs it.

use std::borrow::Cow;

use crate::{
    corpus::{Bytes32, Fields, bytes32},
    error::{BenchError, Result},
};

/// A message of a relay.
#[derive(Debug, PartialEq)]
pub(crate) enum Reply<'a> {
    Ok {
        id: Bytes32,
        accepted: bool,
        reason: Cow<'a, str>,
    },
    Event {
        subscription: &'a str,
        id: Bytes32,
    },
    EndOfStored {
        subscription: Cow<'a, str>,
    },
    Closed {
        subscription: Cow<'a, str>,
        reason: Cow<'a, str>,
    },
    /// AUTH, NOTICE, COUNT: nothing that was asked for. A greeting is no reply.
    Other,
}

impl<'a> Reply<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self> {
        if let Some(rest) = message.strip_prefix(b"[\"EVENT\",\"") {
            return event(rest).ok_or_else(|| malformed(message));
        }
        let fields: Vec<serde_json::Value> =
            serde_json::from_slice(message).map_err(|_| malformed(message))?;
        let text = |place: usize| fields.get(place).and_then(|field| field.as_str());
        let owned = |place: usize| text(place).map(|text| Cow::Owned(text.to_owned()));
        let reply = match text(0) {
            Some("OK") => text(1)
                .and_then(bytes32)
                .zip(fields.get(2).and_then(serde_json::Value::as_bool))
                .map(|(id, accepted)| Self::Ok {
                    id,
                    accepted,
                    reason: owned(3).unwrap_or_default(),
                }),
            Some("EOSE") => owned(1).map(|subscription| Self::EndOfStored { subscription }),
            Some("CLOSED") => owned(1).map(|subscription| Self::Closed {
                subscription,
                reason: owned(2).unwrap_or_default(),
            }),
            // As it may be written with spaces, which ours would have seen above.
            Some("EVENT") => return spaced_event(message).ok_or_else(|| malformed(message)),
            _ => Some(Self::Other),
        };
        reply.ok_or_else(|| malformed(message))
    }
}

/// Reads what follows `["EVENT","`, only as far as the id.
fn event(rest: &[u8]) -> Option<Reply<'_>> {
    let end = rest.iter().position(|byte| *byte == b'"')?;
    let (subscription, event) = rest.split_at_checked(end)?;
    let subscription = std::str::from_utf8(subscription).ok()?;
    // A quote within a string has a backslash before it: these bytes are a key, never a value.
    let key = b"\"id\":\"";
    let at = event.windows(key.len()).position(|bytes| bytes == key);
    let id = if let Some(at) = at {
        let hex = event.get(at + key.len()..at + key.len() + 64)?;
        bytes32(std::str::from_utf8(hex).ok()?)?
    } else {
        let json = event.get(2..)?.trim_ascii().strip_suffix(b"]")?;
        bytes32(&Fields::parse(json)?.id)?
    };
    Some(Reply::Event { subscription, id })
}

fn spaced_event(message: &[u8]) -> Option<Reply<'_>> {
    let (_, subscription, event): (&str, &str, Fields<'_>) =
        serde_json::from_slice(message).ok()?;
    Some(Reply::Event {
        subscription,
        id: bytes32(&event.id)?,
    })
}

fn malformed(message: &[u8]) -> BenchError {
    let said = String::from_utf8_lossy(message.get(..200).unwrap_or(message)).into_owned();
    BenchError::Wrong(format!("not a message of NIP-01: {said}"))
}

/// Returns a refusal's reason in few words, so that refusals can be counted by it.
pub(crate) fn kind_of_reason(reason: &str) -> String {
    match reason.split_once(':') {
        Some((prefix, rest)) if !prefix.is_empty() && !prefix.contains(' ') => {
            let short: String = rest.trim().chars().take(60).collect();
            format!("{prefix}: {short}")
        }
        _ => reason.chars().take(80).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_no_reply() {
        for greeting in [
            r#"["AUTH","challenge"]"#,
            r#"["NOTICE","hello"]"#,
            r#"["COUNT","a",{"count":1}]"#,
        ] {
            assert_eq!(Reply::parse(greeting.as_bytes()).unwrap(), Reply::Other);
        }
    }

    #[test]
    fn an_event_is_read_however_it_is_written() {
        let id = "ab".repeat(32);
        let body = |id: &str, space: &str| {
            format!(
                r#"{{"content":"\"id\":\"x\"","pubkey":"","created_at":1,"kind":1,"tags":[],"id":{space}"{id}"}}"#
            )
        };
        for message in [
            format!(r#"["EVENT","q",{}]"#, body(&id, "")),
            format!(r#"["EVENT","q",{}]"#, body(&id, " ")),
            format!(r#"[ "EVENT", "q", {} ]"#, body(&id, " ")),
        ] {
            let right = Reply::Event {
                subscription: "q",
                id: [0xab; 32],
            };
            assert_eq!(
                Reply::parse(message.as_bytes()).unwrap(),
                right,
                "{message}"
            );
        }
    }

    #[test]
    fn what_is_not_of_the_protocol_is_a_wrong_answer() {
        for message in [
            "",
            "[",
            r#"["OK","12",true,""]"#,
            r#"["EVENT","q",{}]"#,
            r#"["EOSE"]"#,
        ] {
            let said = Reply::parse(message.as_bytes());
            assert!(
                matches!(said, Err(BenchError::Wrong(_))),
                "{message}: {said:?}"
            );
        }
    }
}
