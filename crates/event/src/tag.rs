//! Tags: the strings of one tag, read where they lie in the event's JSON.

use std::{borrow::Cow, fmt};

use crate::{
    escape::{RawString, Spelling},
    scan::tag_strings,
};

/// One tag of an event.
#[derive(Clone, Copy)]
pub struct Tag<'a> {
    json: &'a [u8],
    /// Where the tag begins in the JSON, after its bracket.
    start: u32,
}

impl<'a> Tag<'a> {
    pub(crate) const fn new(json: &'a [u8], start: u32) -> Self {
        Self { json, start }
    }

    /// Returns the tag's strings in order, unescaped.
    pub fn strings(&self) -> impl Iterator<Item = Cow<'a, str>> + use<'a> {
        tag_strings(self.json, self.start).map(RawString::text)
    }

    /// Returns the `index`-th string of the tag, unescaped: 0 is the name, 1 the value.
    pub fn get(&self, index: usize) -> Option<Cow<'a, str>> {
        tag_strings(self.json, self.start)
            .nth(index)
            .map(RawString::text)
    }

    /// Returns the tag's name; an empty tag has an empty name.
    pub fn name(&self) -> Cow<'a, str> {
        self.get(0).unwrap_or_default()
    }

    /// Returns the tag's value, if it has one.
    pub fn value(&self) -> Option<Cow<'a, str>> {
        self.raw_value().map(RawString::text)
    }

    /// Returns the name if it is one ASCII letter: the tags that filters can ask for.
    #[inline]
    pub fn letter(&self) -> Option<u8> {
        let letter = match self.json.get(self.start as usize..)? {
            [b'"', b'\\', ..] => match *self.name().as_bytes() {
                [letter] => letter,
                _ => return None,
            },
            [b'"', letter, b'"', ..] => *letter,
            _ => return None,
        };
        letter.is_ascii_alphabetic().then_some(letter)
    }

    /// Tells whether the name is this one.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        let first = tag_strings(self.json, self.start).next();
        first.is_some_and(|first| *first.bytes() == *name.as_bytes())
    }

    /// Tells whether there is a value and it is this one.
    pub(crate) fn value_is(&self, value: &[u8]) -> bool {
        self.raw_value().is_some_and(|raw| match raw.spelling {
            Spelling::Plain => raw.raw == value,
            _ => *raw.bytes() == *value,
        })
    }

    #[inline]
    pub(crate) fn raw_value(&self) -> Option<RawString<'a>> {
        match self.json.get(self.start as usize..)? {
            // What is asked for most: a name of one letter need not be scanned.
            [b'"', name, b'"', b',', ..] if *name != b'\\' => {
                tag_strings(self.json, self.start + 4).next()
            }
            _ => tag_strings(self.json, self.start).nth(1),
        }
    }
}

impl fmt::Debug for Tag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.strings()).finish()
    }
}
