//! The fields of an event that a filter can ask for.

use std::{
    borrow::Cow,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
};

use serde::Deserialize;

pub(crate) type Bytes32 = [u8; 32];

/// An event without its content and signature.
#[derive(Debug, Deserialize)]
pub(crate) struct Fields<'a> {
    #[serde(borrow)]
    pub(crate) id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) pubkey: Cow<'a, str>,
    pub(crate) created_at: u64,
    pub(crate) kind: u16,
    #[serde(borrow)]
    pub(crate) tags: Vec<Vec<Cow<'a, str>>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn parse(json: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// Returns the values of the tags with this name.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = move |tag: &&Vec<Cow<'a, str>>| tag.first().is_some_and(|it| it == name);
        self.tags
            .iter()
            .filter(named)
            .filter_map(|tag| Some(tag.get(1)?.as_ref()))
    }

    /// Returns the tags that a filter can name, their values as hashes.
    pub(super) fn letters(&self) -> impl Iterator<Item = (u8, u64)> {
        self.tags
            .iter()
            .filter_map(|tag| match tag.first()?.as_bytes() {
                [letter] if letter.is_ascii_alphabetic() => Some((*letter, hash(tag.get(1)?))),
                _ => None,
            })
    }
}

/// Reads 64 hex digits.
pub(crate) fn bytes32(hex: &str) -> Option<Bytes32> {
    let mut bytes = [0; 32];
    faster_hex::hex_decode(hex.as_bytes(), &mut bytes).ok()?;
    Some(bytes)
}

/// Tag values are compared by this: two that collide by chance are not in any corpus.
pub(super) fn hash(value: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}
