//! The connections that one request uses: one, or two that share its work.

use super::Session;

/// One connection, or two: PostgreSQL works on the statements of two at the same time. What goes over
/// either counts on nothing that went over the other.
#[derive(Clone, Copy)]
pub(crate) struct Sessions<'a> {
    first: &'a Session,
    second: Option<&'a Session>,
}

impl<'a> Sessions<'a> {
    pub(crate) fn new(first: &'a Session, second: Option<&'a Session>) -> Self {
        Self { first, second }
    }

    pub(crate) fn each(self) -> impl Iterator<Item = &'a Session> {
        [self.first].into_iter().chain(self.second)
    }

    /// Returns what the nth of several has to itself.
    pub(crate) fn only(self, nth: usize) -> Self {
        let session = self.second.filter(|_| nth % 2 == 1);
        Self::new(session.unwrap_or(self.first), None)
    }

    /// Halves work, unless that makes parts of fewer than `least`.
    pub(crate) fn share<'w, T>(
        self,
        work: &'w [T],
        least: usize,
    ) -> impl Iterator<Item = (&'a Session, &'w [T])> {
        let halves = if self.second.is_some() && work.len() >= 2 * least {
            2
        } else {
            1
        };
        let parts = work.chunks(work.len().div_ceil(halves).max(1));
        self.each().zip(parts)
    }
}
