//! Events as they may stand on the wire, with ids from a second implementation (`serde_json`).

use hikyaku_event::{
    Event, EventId,
    testing::{Author, fuzz_event},
};
use serde_json::json;
use sha2::{Digest, Sha256};

/// An event before it is spelt as JSON. Its signature is not valid.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) pubkey: String,
    pub(crate) created_at: u64,
    pub(crate) kind: u16,
    pub(crate) tags: Vec<Vec<String>>,
    pub(crate) content: String,
}

impl Draft {
    pub(crate) fn new(tags: &[&[&str]], content: &str) -> Self {
        let owned = |tag: &&[&str]| tag.iter().map(ToString::to_string).collect();
        Self {
            pubkey: Author::new(1).pubkey().to_hex(),
            created_at: 1_700_000_000,
            kind: 1,
            tags: tags.iter().map(owned).collect(),
            content: content.to_owned(),
        }
    }

    /// Returns the serialisation that `JSON.stringify` and `serde_json` give.
    pub(crate) fn serialisation(&self) -> String {
        let Self {
            pubkey,
            created_at,
            kind,
            tags,
            content,
        } = self;
        json!([0, pubkey, created_at, kind, tags, content]).to_string()
    }

    pub(crate) fn id(&self) -> EventId {
        hash(self.serialisation().as_bytes())
    }

    /// Returns the seven fields, spelt by `serde_json`.
    pub(crate) fn members(&self) -> Vec<(String, String)> {
        let members = [
            ("id", json!(self.id().to_hex())),
            ("pubkey", json!(self.pubkey)),
            ("created_at", json!(self.created_at)),
            ("kind", json!(self.kind)),
            ("tags", json!(self.tags)),
            ("content", json!(self.content)),
            ("sig", json!("0f".repeat(64))),
        ];
        members
            .map(|(key, value)| (key.to_owned(), value.to_string()))
            .to_vec()
    }

    pub(crate) fn json(&self) -> String {
        object(&self.members())
    }

    /// Returns the JSON with one member's value spelt differently.
    pub(crate) fn json_with(&self, key: &str, value: &str) -> String {
        self.json_with_all(&[(key, value)])
    }

    /// Returns the JSON with these members' values spelt differently.
    pub(crate) fn json_with_all(&self, values: &[(&str, &str)]) -> String {
        let mut members = self.members();
        for (key, value) in &mut members {
            let replaced = values.iter().find(|(replaced, _)| replaced == key);
            replaced.inspect(|(_, new)| (*new).clone_into(value));
        }
        object(&members)
    }
}

pub(crate) fn hash(serialisation: &[u8]) -> EventId {
    EventId::new(Sha256::digest(serialisation).into())
}

pub(crate) fn object(members: &[(String, String)]) -> String {
    let members: Vec<_> = members
        .iter()
        .map(|(key, value)| format!("\"{key}\":{value}"))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// Parses what must be an event.
pub(crate) fn parse(json: &str) -> Event {
    fuzz_event(json.as_bytes());
    Event::parse(json.as_bytes()).unwrap_or_else(|error| panic!("{error}: {json}"))
}
