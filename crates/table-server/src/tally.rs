//! What was asked for in one batch, by table and verb: counted as it is carried out, timed once.

use crate::{catalogue::TableId, verb::Verb};

/// What a request asks for, and of which table (`None`: of none).
pub(crate) type Asked = (Option<TableId>, Verb);

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
#[derive(Debug, Default)]
pub(crate) struct Tally {
    runs: Vec<Run>,
    /// The run that the last request is of.
    current: usize,
}

impl Tally {
    /// Counts a request that stands there and had so many bytes, its answer's included. Without what
    /// it asks for it is the rest of the one before it.
    #[inline]
    pub(crate) fn count(&mut self, asked: Option<Asked>, bytes: usize, at: usize) {
        match (self.runs.get_mut(self.current), asked) {
            (Some(run), Some(asked)) if run.asked == asked => {
                run.calls += 1;
                run.bytes += bytes as u64;
            }
            (_, Some(asked)) => self.turn_to(asked, bytes, at),
            (Some(run), None) => run.bytes += bytes as u64,
            (None, None) => {}
        }
    }

    #[inline(never)]
    fn turn_to(&mut self, asked: Asked, bytes: usize, at: usize) {
        if let Some(place) = self.runs.iter().position(|run| run.asked == asked) {
            self.current = place;
            self.count(Some(asked), bytes, at);
            return;
        }
        self.current = self.runs.len();
        self.runs.push(Run {
            asked,
            calls: 1,
            bytes: bytes as u64,
            at,
            example: None,
        });
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
        self.current = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;

    #[test]
    fn requests_for_the_same_are_one_run_wherever_they_stand() {
        let [get, set] = [Verb::Get, Verb::Set].map(|verb| (Some(Catalogue::DEFAULT), verb));
        let mut tally = Tally::default();
        tally.count(None, 9, 0);
        for (at, asked) in [Some(get), None, Some(set), Some(set), Some(get)]
            .into_iter()
            .enumerate()
        {
            tally.count(asked, 10, at);
        }
        let runs: Vec<_> = tally
            .runs()
            .iter()
            .map(|run| (run.asked, run.calls, run.bytes, run.at))
            .collect();
        assert_eq!(runs, [(get, 2, 30, 0), (set, 2, 20, 2)]);
        tally.clear();
        assert!(tally.is_empty());
    }
}
