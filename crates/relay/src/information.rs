//! What the relay says about itself (NIP-11).

use hikyaku_event::PublicKey;
use serde_json::{Map, Value, json};

use crate::Limits;

/// The NIPs that are implemented completely, as far as they concern a relay.
pub const SUPPORTED_NIPS: [u16; 11] = [1, 9, 11, 17, 40, 42, 45, 59, 62, 67, 70];

/// The relay information document.
#[derive(Debug, Clone, Default)]
pub struct RelayInformation {
    /// The relay's name; under 30 characters, lest clients cut it.
    pub name: Option<String>,
    /// What the relay is for; plain text.
    pub description: Option<String>,
    /// The address of a wide picture.
    pub banner: Option<String>,
    /// The address of a square picture.
    pub icon: Option<String>,
    /// The key of the relay's administrator.
    pub pubkey: Option<PublicKey>,
    /// The relay's own key.
    pub self_key: Option<PublicKey>,
    /// Another way to reach the administrator: a URI.
    pub contact: Option<String>,
    /// The address of the relay's terms of service.
    pub terms_of_service: Option<String>,
    /// The software's home page.
    pub software: String,
    /// The software's version.
    pub version: String,
    /// The limits.
    pub limits: Limits,
}

impl RelayInformation {
    /// Writes the document as JSON; what is not set is left out.
    pub fn to_json(&self) -> String {
        let hex = |key: &Option<PublicKey>| key.as_ref().map(PublicKey::to_hex);
        let optional = [
            ("name", self.name.clone()),
            ("description", self.description.clone()),
            ("banner", self.banner.clone()),
            ("icon", self.icon.clone()),
            ("pubkey", hex(&self.pubkey)),
            ("self", hex(&self.self_key)),
            ("contact", self.contact.clone()),
            ("terms_of_service", self.terms_of_service.clone()),
        ];
        let mut document: Map<String, Value> = optional
            .into_iter()
            .filter_map(|(field, text)| Some((field.to_owned(), Value::from(text?))))
            .collect();
        document.insert("supported_nips".to_owned(), json!(SUPPORTED_NIPS));
        document.insert("software".to_owned(), json!(self.software));
        document.insert("version".to_owned(), json!(self.version));
        document.insert("limitation".to_owned(), limitation(&self.limits));
        Value::Object(document).to_string()
    }
}

fn limitation(limits: &Limits) -> Value {
    let mut limitation = json!({
        "max_message_length": limits.message_bytes_max,
        "max_subscriptions": limits.subscriptions_max,
        "max_subid_length": Limits::SUBSCRIPTION_ID_CHARACTERS_MAX,
        "max_limit": limits.query.max,
        "default_limit": limits.query.default,
        "max_event_tags": limits.tags_max,
        "max_content_length": limits.content_characters_max,
        "min_pow_difficulty": 0,
        "auth_required": false,
        "payment_required": false,
        "restricted_writes": false,
        "created_at_upper_limit": limits.created_at_ahead_seconds_max,
    });
    if let (Some(fields), Some(seconds)) = (
        limitation.as_object_mut(),
        limits.created_at_behind_seconds_max,
    ) {
        fields.insert("created_at_lower_limit".to_owned(), json!(seconds));
    }
    limitation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(information: &RelayInformation) -> Value {
        serde_json::from_str(&information.to_json()).unwrap()
    }

    #[test]
    fn only_what_is_complete_is_listed() {
        let document = document(&RelayInformation::default());
        assert_eq!(
            document["supported_nips"],
            json!([1, 9, 11, 17, 40, 42, 45, 59, 62, 67, 70])
        );
    }

    #[test]
    fn what_is_not_set_is_left_out() {
        let document = document(&RelayInformation::default());
        for field in ["name", "pubkey", "self", "contact", "icon", "banner"] {
            assert!(document.get(field).is_none(), "{field}");
        }
        assert!(
            document["limitation"]
                .get("created_at_lower_limit")
                .is_none()
        );
    }

    #[test]
    fn what_is_set_is_told() {
        let document = document(&RelayInformation {
            name: Some("a \"relay\"".to_owned()),
            pubkey: Some(PublicKey::new([1; 32])),
            self_key: Some(PublicKey::new([2; 32])),
            limits: Limits {
                created_at_behind_seconds_max: Some(60),
                ..Limits::default()
            },
            ..RelayInformation::default()
        });
        assert_eq!(document["name"], "a \"relay\"");
        assert_eq!(document["pubkey"], "01".repeat(32));
        assert_eq!(document["self"], "02".repeat(32));
        assert_eq!(document["limitation"]["created_at_lower_limit"], 60);
    }

    #[test]
    fn the_limits_are_told_without_the_fields_that_nip_11_dropped() {
        let document = document(&RelayInformation::default());
        let limitation = &document["limitation"];
        assert_eq!(limitation["max_message_length"], 1024 * 1024);
        assert_eq!(limitation["default_limit"], 500);
        assert_eq!(limitation["max_limit"], 5000);
        assert_eq!(limitation["max_subid_length"], 64);
        assert_eq!(limitation["created_at_upper_limit"], 900);
        assert!(limitation.get("max_filters").is_none());
        for dropped in [
            "retention",
            "relay_countries",
            "language_tags",
            "tags",
            "posting_policy",
        ] {
            assert!(document.get(dropped).is_none(), "{dropped}");
        }
    }
}
