//! The lines that a write-policy plugin reads and writes.

use std::{
    io::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

use hikyaku_event::{Event, EventId};
use hikyaku_server::Client;
use serde::Deserialize;

/// What a plugin decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Accept,
    Reject(String),
    ShadowReject,
}

/// Writes the line that asks about an event. Of several keys that the client has authenticated it is
/// told the author's, or the last: plugins know of one.
pub(super) fn question(client: &Client, event: &Event) -> Vec<u8> {
    let address = client.address().to_canonical();
    let author = event.pubkey();
    let authed = if client.has_key(&author) {
        Some(&author)
    } else {
        client.keys().last()
    };
    let source = if address.is_ipv4() { "IP4" } else { "IP6" };
    let received_at = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let mut line = Vec::with_capacity(event.json().len() + 128);
    line.extend_from_slice(b"{\"type\":\"new\",\"event\":");
    line.extend_from_slice(event.json());
    // Writing to memory does not fail.
    let _ = write!(
        line,
        ",\"receivedAt\":{received_at},\"sourceType\":\"{source}\",\"sourceInfo\":\"{address}\""
    );
    if let Some(key) = authed {
        let _ = write!(line, ",\"authed\":\"{}\"", key.to_hex());
    }
    line.extend_from_slice(b"}\n");
    line
}

#[derive(Deserialize)]
struct Fields {
    id: String,
    action: String,
    #[serde(default)]
    msg: Option<String>,
}

/// Reads a line that answers. `Err` says what is wrong with it.
pub(super) fn answer(line: &[u8]) -> Result<(EventId, Answer), String> {
    let fields: Fields = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let id = EventId::from_hex(fields.id.as_bytes()).map_err(|error| format!("id: {error}"))?;
    let answer = match fields.action.as_str() {
        "accept" => Answer::Accept,
        "reject" => Answer::Reject(
            fields
                .msg
                .filter(|message| !message.is_empty())
                .unwrap_or_else(|| "blocked: not taken here".to_owned()),
        ),
        "shadowReject" => Answer::ShadowReject,
        other => return Err(format!("`{other}` is no action")),
    };
    Ok((id, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read() {
        let id = "ab".repeat(32);
        for (rest, expected) in [
            (r#""action":"accept""#, Some(Answer::Accept)),
            (
                r#""action":"accept","msg":null,"more":1"#,
                Some(Answer::Accept),
            ),
            (
                r#""action":"shadowReject","msg":"""#,
                Some(Answer::ShadowReject),
            ),
            (
                r#""action":"reject","msg":"blocked: no""#,
                Some(Answer::Reject("blocked: no".to_owned())),
            ),
            (
                r#""action":"reject""#,
                Some(Answer::Reject("blocked: not taken here".to_owned())),
            ),
            (r#""action":"perhaps""#, None),
            (r#""msg":"""#, None),
        ] {
            let line = format!("{{\"id\":\"{id}\",{rest}}}");
            let answer = answer(line.as_bytes()).ok().map(|(_, answer)| answer);
            assert_eq!(answer, expected, "{rest}");
        }
        assert!(answer(b"hello").is_err());
        assert!(answer(br#"{"id":"1","action":"accept"}"#).is_err());
    }
}
