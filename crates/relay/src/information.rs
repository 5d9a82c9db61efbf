//! What the relay says about itself (NIP-11).

use hikyaku_event::PublicKey;

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
        unimplemented!()
    }
}
