//! Places in the storage order, and what is found there.

use crate::columns::Tie;

/// A place: an event's time and id, as columns. Ascending is newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) age: i64,
    pub(crate) tie: Tie,
}

/// An event that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) place: Place,
    pub(crate) seq: i64,
}

/// Which way the order is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Newest first.
    Forward,
    /// Oldest first.
    Backward,
}

/// A part of the order, both ends in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) newest: Place,
    pub(crate) oldest: Place,
}

impl Place {
    pub(crate) const NEWEST: Self = Self {
        age: i64::MIN,
        tie: Tie::FIRST,
    };
    pub(crate) const OLDEST: Self = Self {
        age: i64::MAX,
        tie: Tie::LAST,
    };

    /// Returns the next place in this direction; `None` behind the last one.
    pub(crate) fn next(self, direction: Direction) -> Option<Self> {
        let Self { age, tie } = self;
        match direction {
            Direction::Forward => match tie.0.checked_add(1) {
                Some(tie) => Some(Self { age, tie: Tie(tie) }),
                None => age.checked_add(1).map(|age| Self {
                    age,
                    tie: Tie::FIRST,
                }),
            },
            Direction::Backward => match tie.0.checked_sub(1) {
                Some(tie) => Some(Self { age, tie: Tie(tie) }),
                None => age.checked_sub(1).map(|age| Self {
                    age,
                    tie: Tie::LAST,
                }),
            },
        }
    }
}

impl Direction {
    /// Tells whether `a` comes before `b`.
    pub(crate) fn is_before(self, a: Place, b: Place) -> bool {
        match self {
            Self::Forward => a < b,
            Self::Backward => a > b,
        }
    }
}

impl Span {
    /// Returns where reading begins.
    pub(crate) fn start(&self, direction: Direction) -> Place {
        match direction {
            Direction::Forward => self.newest,
            Direction::Backward => self.oldest,
        }
    }

    /// Returns the last place to read.
    pub(crate) fn end(&self, direction: Direction) -> Place {
        match direction {
            Direction::Forward => self.oldest,
            Direction::Backward => self.newest,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.newest > self.oldest
    }
}
