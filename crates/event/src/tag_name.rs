//! The names that tags have in filters.

use std::{fmt, str::FromStr, sync::Arc};

/// The name of the tags that a filter asks for: one ASCII letter (NIP-01), or a longer one, which a
/// store answers if its operator has it indexed.
///
/// A letter costs no allocation. Letters come before all other names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagName(Name);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Name {
    Letter([u8; 1]),
    Word(Arc<str>),
}

impl TagName {
    /// Bytes of a name.
    pub const BYTES_MAX: usize = 64;

    /// Takes a name of 1 to 64 bytes without control characters; `None` if it is none.
    pub fn new(name: &str) -> Option<Self> {
        match *name.as_bytes() {
            [letter] if letter.is_ascii_alphabetic() => Some(Self(Name::Letter([letter]))),
            ref bytes if bytes.is_empty() || bytes.len() > Self::BYTES_MAX => None,
            _ if name.contains(char::is_control) => None,
            _ => Some(Self(Name::Word(name.into()))),
        }
    }

    /// Names the tags of one ASCII letter; anything else is a mistake of the caller, and panics.
    #[inline]
    pub const fn of_letter(letter: u8) -> Self {
        assert!(
            letter.is_ascii_alphabetic(),
            "a tag's letter is an ASCII letter"
        );
        Self(Name::Letter([letter]))
    }

    /// Returns the name, if it is one ASCII letter.
    #[inline]
    pub const fn letter(&self) -> Option<u8> {
        match &self.0 {
            Name::Letter([letter]) => Some(*letter),
            Name::Word(_) => None,
        }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            // An ASCII letter is UTF-8.
            Name::Letter(letter) => str::from_utf8(letter).unwrap_or_default(),
            Name::Word(word) => word,
        }
    }
}

/// A text is no tag's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a tag's name has 1 to 64 bytes, and no control characters")]
pub struct TagNameError;

impl FromStr for TagName {
    type Err = TagNameError;
    fn from_str(name: &str) -> Result<Self, TagNameError> {
        Self::new(name).ok_or(TagNameError)
    }
}

impl fmt::Display for TagName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TagName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_one_letter_is_the_same_however_it_is_made() {
        let made = TagName::new("t").unwrap();
        assert_eq!(made, TagName::of_letter(b't'));
        assert_eq!((made.letter(), made.as_str()), (Some(b't'), "t"));
        assert!(made < TagName::new("a longer one").unwrap());
    }

    #[test]
    fn other_names_are_words_and_strange_ones_are_none() {
        for name in ["title", "1", "-", "é", &"x".repeat(64)] {
            let made = TagName::new(name).unwrap();
            assert_eq!((made.letter(), made.as_str()), (None, name));
        }
        for name in ["", "a\0b", "a\n", &"x".repeat(65)] {
            assert_eq!(TagName::new(name), None, "{name:?}");
        }
    }
}
