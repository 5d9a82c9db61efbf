//! What was asked for in one batch, by table and verb: counted as it is carried out, timed once.

use crate::{catalogue::TableId, verb::Verb};

/// What a request asks for, and of which table: one number, as it is compared for each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Asked(u32);

/// Bits of a verb; 0 is none. Above them is the table's place from 1; 0 is none.
const VERB_BITS: u32 = 8;
/// It is left to a table's thread.
const LEFT: u32 = 1 << 31;
const _: () = assert!(Verb::ALL.len() < 1 << VERB_BITS);

impl Asked {
    /// What no request asks for.
    const NOBODY: Self = Self(u32::MAX);

    #[inline]
    pub(crate) fn new(table: Option<TableId>, verb: Verb) -> Self {
        Self(verb as u32 + 1).of(table)
    }

    /// Returns the same of another table.
    #[inline]
    #[must_use]
    pub(crate) fn of(self, table: Option<TableId>) -> Self {
        let table = table.map_or(0, |table| table.index() as u32 + 1);
        Self(self.0 & ((1 << VERB_BITS) - 1) | table << VERB_BITS)
    }

    #[must_use]
    pub(crate) fn left(self) -> Self {
        Self(self.0 | LEFT)
    }

    /// Returns what was left to a table's thread.
    pub(crate) fn was_left(self) -> Option<Self> {
        (self.0 & LEFT > 0).then_some(Self(self.0 & !LEFT))
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 & ((1 << VERB_BITS) - 1) == 0
    }

    /// Returns the table's place from 1 (0: none), and the verb.
    pub(crate) fn parts(self) -> (usize, Option<Verb>) {
        let verb = (self.0 & ((1 << VERB_BITS) - 1)).wrapping_sub(1) as usize;
        let table = (self.0 & !LEFT) >> VERB_BITS;
        (table as usize, Verb::ALL.get(verb).copied())
    }
}

/// The requests of one batch that asked for the same.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) asked: Asked,
    pub(crate) calls: u64,
    /// Received and answered.
    pub(crate) bytes: u64,
    /// Where the first of them stands in the batch's input.
    pub(crate) at: usize,
    /// The first of them, written down where the input will be gone.
    pub(crate) example: Option<String>,
}

/// One batch's requests. There are as many runs as tables and verbs in it: few.
#[derive(Debug)]
pub(crate) struct Tally {
    runs: Vec<Run>,
    /// The run that the last requests are of.
    place: usize,
    /// What those ask for, how many they are, and after how many bytes the first of them began.
    current: Asked,
    calls: u64,
    from: usize,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            place: 0,
            current: Asked::NOBODY,
            calls: 0,
            from: 0,
        }
    }
}

impl Tally {
    /// Counts more that ask for the same as the one before them; false if they do not.
    #[inline]
    pub(crate) fn count_same(&mut self, asked: Asked, calls: u64) -> bool {
        let is_same = asked == self.current;
        self.calls += if is_same { calls } else { 0 };
        is_same
    }

    /// Counts requests of which the first begins after so many bytes, and stands there in the input.
    pub(crate) fn turn_to(&mut self, (asked, calls): (Asked, u64), before: usize, at: usize) {
        self.close(before);
        let place = self.runs.iter().position(|run| run.asked == asked);
        self.place = place.unwrap_or_else(|| self.begin(asked, at));
        (self.current, self.calls, self.from) = (asked, calls, before);
    }

    /// Ends the last run there, where bytes are counted from 0 again.
    pub(crate) fn close(&mut self, passed: usize) {
        if let Some(run) = self.runs.get_mut(self.place) {
            run.calls += self.calls;
            run.bytes += passed.saturating_sub(self.from) as u64;
        }
        (self.current, self.calls, self.from) = (Asked::NOBODY, 0, 0);
    }

    /// Leaves bytes out that belong to what is counted elsewhere.
    pub(crate) fn leave_out(&mut self, bytes: usize) {
        self.from += bytes;
    }

    /// Counts a request by itself.
    pub(crate) fn add(&mut self, asked: Asked, bytes: usize, at: usize) {
        let place = self.runs.iter().position(|run| run.asked == asked);
        let place = place.unwrap_or_else(|| self.begin(asked, at));
        if let Some(run) = self.runs.get_mut(place) {
            run.calls += 1;
            run.bytes += bytes as u64;
        }
    }

    /// Adds bytes of answers.
    pub(crate) fn add_bytes(&mut self, bytes: usize) {
        if let Some(run) = self.runs.last_mut() {
            run.bytes += bytes as u64;
        }
    }

    fn begin(&mut self, asked: Asked, at: usize) -> usize {
        self.runs.push(Run {
            asked,
            calls: 0,
            bytes: 0,
            at,
            example: None,
        });
        self.runs.len() - 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the runs, in the order of their first requests.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Writes first requests down, unless that was done.
    pub(crate) fn write_examples(&mut self, write: impl Fn(&Run) -> Option<String>) {
        for run in &mut self.runs {
            if run.example.is_none() {
                run.example = write(run);
            }
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        (self.current, self.calls, self.from) = (Asked::NOBODY, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;

    fn asked(verb: Verb) -> Asked {
        Asked::new(Some(Catalogue::DEFAULT), verb)
    }

    #[test]
    fn requests_for_the_same_are_one_run_wherever_they_stand() {
        let (get, set) = (asked(Verb::Get), asked(Verb::Set));
        let mut tally = Tally::default();
        // Of 10 bytes each; there is a step without a name behind the first.
        for (at, asked) in [(0, get), (20, set), (30, set), (40, get)] {
            if !tally.count_same(asked, 1) {
                tally.turn_to((asked, 1), at, at);
            }
        }
        tally.close(50);
        tally.add(set.of(None), 7, 50);
        let runs: Vec<_> = tally
            .runs()
            .iter()
            .map(|run| (run.asked, run.calls, run.bytes, run.at))
            .collect();
        let none = (set.of(None), 1, 7, 50);
        assert_eq!(runs, [(get, 2, 30, 0), (set, 2, 20, 20), none]);
        tally.clear();
        assert!(tally.is_empty());
    }

    #[test]
    fn what_is_asked_is_a_table_and_a_verb() {
        let last = Verb::ALL.last().copied().unwrap();
        assert_eq!(asked(last).parts(), (1, Some(last)));
        assert_eq!(asked(last).of(None).parts(), (0, Some(last)));
        assert_eq!(asked(last).left().was_left(), Some(asked(last)));
        assert_eq!(asked(last).was_left(), None);
        assert!(Asked::default().of(Some(Catalogue::DEFAULT)).is_none());
    }
}
