//! Ranges of keys in Tokyo Cabinet's interval notation.

use std::ops::Bound;

use crate::TableError;

/// An end of an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The table's first key: `min`.
    First,
    /// The table's last key: `max`.
    Last,
    /// A key, which need not be there.
    Key(Vec<u8>),
}

/// Both ends as keys.
pub(crate) type Ends = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// An interval of keys: `[10,20]`, `[10,20)`, `(10,20)`, `(10,20]`, where `min` and `max` stand for
/// the table's first and last key: `(min,max)` has neither of the two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// Where it begins.
    pub lower: Bound<End>,
    /// Where it ends.
    pub upper: Bound<End>,
}

impl Interval {
    /// All keys.
    pub const ALL: Self = Self {
        lower: Bound::Unbounded,
        upper: Bound::Unbounded,
    };

    /// Reads the notation. Spaces around its parts are skipped, as Tokyo Cabinet does, so keys in it
    /// can neither contain a comma nor begin or end with a space.
    pub fn parse(text: &[u8]) -> Result<Self, TableError> {
        let wrong = || {
            TableError::Syntax(format!(
                "{} is no interval such as [10,20), (10,max] or [min,max]",
                text.escape_ascii()
            ))
        };
        let (open, rest) = trim(text).split_first().ok_or_else(wrong)?;
        let (close, keys) = rest.split_last().ok_or_else(wrong)?;
        let mut ends = keys.split(|&byte| byte == b',').map(end);
        let (Some(Some(lower)), Some(Some(upper)), None) = (ends.next(), ends.next(), ends.next())
        else {
            return Err(wrong());
        };
        Ok(Self {
            lower: match open {
                b'[' => Bound::Included(lower),
                b'(' => Bound::Excluded(lower),
                _ => return Err(wrong()),
            },
            upper: match close {
                b']' => Bound::Included(upper),
                b')' => Bound::Excluded(upper),
                _ => return Err(wrong()),
            },
        })
    }

    /// Returns the interval's ends as keys, for a table that knows its first and its last; `None` if
    /// one is asked for and there is none, so that the interval is empty.
    pub(crate) fn keys(
        &self,
        first: impl Fn() -> Result<Option<Vec<u8>>, TableError>,
        last: impl Fn() -> Result<Option<Vec<u8>>, TableError>,
    ) -> Result<Option<Ends>, TableError> {
        let key = |end: &End| match end {
            End::First => first(),
            End::Last => last(),
            End::Key(key) => Ok(Some(key.clone())),
        };
        let bound = |bound: &Bound<End>| {
            Ok::<_, TableError>(match bound {
                Bound::Unbounded => Some(Bound::Unbounded),
                Bound::Included(end) => key(end)?.map(Bound::Included),
                Bound::Excluded(end) => key(end)?.map(Bound::Excluded),
            })
        };
        // Nobody need look for an end that leaves nothing out.
        let lower = match &self.lower {
            Bound::Included(End::First) => Some(Bound::Unbounded),
            lower => bound(lower)?,
        };
        let upper = match &self.upper {
            Bound::Included(End::Last) => Some(Bound::Unbounded),
            upper => bound(upper)?,
        };
        Ok(lower.zip(upper))
    }
}

/// Reads an end; none if there is nothing.
fn end(text: &[u8]) -> Option<End> {
    match trim(text) {
        b"" => None,
        b"min" => Some(End::First),
        b"max" => Some(End::Last),
        key => Some(End::Key(key.to_vec())),
    }
}

/// Takes spaces away. (Tokyo Cabinet skips control characters too, but they may be a part of a key of a
/// table that is not fixed.)
fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    text
}
