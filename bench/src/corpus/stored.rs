//! A corpus in memory, with the answer to every question: what a relay that holds it must say.

use std::{
    collections::{HashMap, HashSet},
    fs,
    ops::Range,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    corpus::{
        event::{Bytes32, Fields, bytes32, hash},
        index::Index,
        question::{Matcher, Question},
    },
    error::{BenchError, During, Result},
};

/// An event as far as matching needs it; tag values are hashes.
#[derive(Debug)]
pub(super) struct Row {
    line: Range<usize>,
    pub(super) id: Bytes32,
    pub(super) author: Bytes32,
    pub(super) created_at: u64,
    kind: u16,
    tags: Range<usize>,
    stored: bool,
}

/// All events of a file.
#[derive(Debug)]
pub(crate) struct Corpus {
    text: String,
    rows: Vec<Row>,
    tags: Vec<(u8, u64)>,
    index: Index,
}

impl Corpus {
    /// Reads a file, one event a line, without the events of some kinds.
    pub(crate) fn read(path: &Path, without: &[u16], stop: &AtomicBool) -> Result<Self> {
        let text = fs::read_to_string(path).at(path)?;
        Self::of(text, &path.display().to_string(), without, stop)
    }

    /// Reads events, one a line; `name` is what an error calls them.
    pub(crate) fn of(text: String, name: &str, without: &[u16], stop: &AtomicBool) -> Result<Self> {
        let (mut rows, mut tags) = (Vec::new(), Vec::new());
        let mut start = 0;
        for (number, line) in text.split_inclusive('\n').enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Err(BenchError::Interrupted);
            }
            let range = start..start + line.trim_end().len();
            start += line.len();
            let malformed =
                || BenchError::Input(format!("{name}, line {}: not an event", number + 1));
            let fields = Fields::parse(line.as_bytes()).ok_or_else(malformed)?;
            if without.contains(&fields.kind) {
                continue;
            }
            let first = tags.len();
            tags.extend(fields.letters());
            let row = Row {
                line: range,
                id: bytes32(&fields.id).ok_or_else(malformed)?,
                author: bytes32(&fields.pubkey).ok_or_else(malformed)?,
                created_at: fields.created_at,
                kind: fields.kind,
                tags: first..tags.len(),
                stored: true,
            };
            rows.push(row);
        }
        let mut corpus = Self {
            text,
            rows,
            tags,
            index: Index::default(),
        };
        corpus.decide_what_is_stored();
        corpus.index = Index::new(&corpus);
        Ok(corpus)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the fields of an event by its place in the file, and whether a relay that got the
    /// whole file has it.
    pub(crate) fn event(&self, place: usize) -> Option<(Fields<'_>, bool)> {
        let row = self.rows.get(place)?;
        let line = self.text.get(row.line.clone())?;
        Some((Fields::parse(line.as_bytes())?, row.stored))
    }

    /// Returns how many events a relay that got the whole file has, and the bytes of their JSON.
    pub(crate) fn stored_size(&self) -> (u64, u64) {
        self.stored().fold((0, 0), |(count, bytes), (_, row)| {
            (count + 1, bytes + row.line.len() as u64)
        })
    }

    /// Returns authors of three to `events_max` events, all among the first `early` of the corpus and
    /// all with this hashtag.
    pub(crate) fn rare_authors(
        &self,
        hashtag: &str,
        events_max: usize,
        early: usize,
    ) -> Vec<Bytes32> {
        let hashtag = (b't', hash(hashtag));
        let mut counts: HashMap<Bytes32, usize> = HashMap::new();
        for (place, row) in self.rows.iter().enumerate() {
            let tags = self.tags_of(row);
            let count = counts.entry(row.author).or_default();
            let fits = place < early && tags.contains(&hashtag);
            // One event that does not fit rules the author out.
            *count = count.saturating_add(if fits { 1 } else { usize::MAX });
        }
        counts.retain(|_, count| (3..=events_max).contains(count));
        let mut rare: Vec<_> = counts.into_keys().collect();
        rare.sort_unstable();
        rare
    }

    /// Answers a question: ids, newest first, ties to the lowest.
    pub(crate) fn answer(&self, question: &Question) -> Vec<Bytes32> {
        let matcher = Matcher::new(question);
        let candidates = self.index.candidates(&matcher);
        let rows = candidates.filter_map(|place| self.rows.get(place));
        rows.filter(|row| self.is_answer(&matcher, row))
            .map(|row| row.id)
            .take(question.limit)
            .collect()
    }

    /// Returns who wrote an event, by its place in the file.
    pub(crate) fn author(&self, place: usize) -> Option<&Bytes32> {
        self.rows.get(place).map(|row| &row.author)
    }

    /// Returns the JSON of a stored event.
    pub(crate) fn json(&self, id: &Bytes32) -> Option<&str> {
        let row = self.rows.get(self.index.find(id)?)?;
        self.text.get(row.line.clone())
    }

    /// Returns when an event was made.
    pub(crate) fn created_at(&self, id: &Bytes32) -> Option<u64> {
        let row = self.rows.get(self.index.find(id)?)?;
        Some(row.created_at)
    }

    /// Returns every event in the order of the file: id, author, JSON.
    pub(crate) fn events(&self) -> impl Iterator<Item = (Bytes32, Bytes32, &str)> {
        self.rows.iter().filter_map(|row| {
            let json = self.text.get(row.line.clone())?;
            Some((row.id, row.author, json))
        })
    }

    /// Returns the time of the newest event.
    pub(crate) fn newest(&self) -> u64 {
        self.rows
            .iter()
            .map(|row| row.created_at)
            .max()
            .unwrap_or(0)
    }

    /// Returns the events that a relay has in the end, and their places.
    pub(super) fn stored(&self) -> impl Iterator<Item = (usize, &Row)> {
        self.rows.iter().enumerate().filter(|(_, row)| row.stored)
    }

    pub(super) fn tags_of(&self, row: &Row) -> &[(u8, u64)] {
        self.tags.get(row.tags.clone()).unwrap_or_default()
    }

    fn is_answer(&self, matcher: &Matcher, row: &Row) -> bool {
        let tags = self.tags_of(row);
        matcher.matches(&row.id, &row.author, row.created_at, row.kind, tags)
    }

    /// Replaced and deleted events are not stored in the end, in whatever order they came: the
    /// corpus deletes by id only, and only what is never replaced.
    fn decide_what_is_stored(&mut self) {
        let mut newest: HashMap<(u16, Bytes32, u64), usize> = HashMap::new();
        let mut deleted: HashSet<(Bytes32, u64)> = HashSet::new();
        let mut seen: HashSet<Bytes32> = HashSet::new();
        let mut gone = Vec::new();
        for (place, row) in self.rows.iter().enumerate() {
            let tags = self.tags_of(row);
            if !seen.insert(row.id) {
                gone.push(place);
                continue;
            }
            if row.kind == 5 {
                let named = tags.iter().filter(|(letter, _)| *letter == b'e');
                deleted.extend(named.map(|(_, id)| (row.author, *id)));
            }
            let replaceable = matches!(row.kind, 0 | 3 | 10_000..20_000);
            let addressable = matches!(row.kind, 30_000..40_000);
            if !replaceable && !addressable {
                continue;
            }
            let d = tags
                .iter()
                .find(|(letter, _)| addressable && *letter == b'd');
            let address = (
                row.kind,
                row.author,
                d.map_or_else(|| hash(""), |(_, value)| *value),
            );
            if let Some(other) = newest.insert(address, place) {
                let older = |it: usize| {
                    let row = self.rows.get(it);
                    row.map(|row| (row.created_at, std::cmp::Reverse(row.id)))
                };
                let loser = if older(other) > older(place) {
                    place
                } else {
                    other
                };
                gone.push(loser);
                newest.insert(address, if loser == place { other } else { place });
            }
        }
        for place in gone {
            if let Some(row) = self.rows.get_mut(place) {
                row.stored = false;
            }
        }
        for row in &mut self.rows {
            let name = (row.author, hash(&faster_hex::hex_string(&row.id)));
            row.stored &= row.kind == 5 || !deleted.contains(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Generate, Questions, SHAPES, generate};

    fn event(id: u8, author: u8, created_at: u64, kind: u16, tags: &str) -> String {
        let (id, author) = (format!("{id:064x}"), format!("{author:064x}"));
        format!(
            "{{\"id\":\"{id}\",\"pubkey\":\"{author}\",\"created_at\":{created_at},\
             \"kind\":{kind},\"tags\":{tags},\"content\":\"\",\"sig\":\"\"}}"
        )
    }

    fn corpus(lines: &[String]) -> Corpus {
        Corpus::of(lines.join("\n"), "test", &[], &AtomicBool::new(false)).unwrap()
    }

    fn ids(corpus: &Corpus, question: &Question) -> Vec<u8> {
        corpus.answer(question).iter().map(|id| id[31]).collect()
    }

    #[test]
    fn answers_come_newest_first_with_ties_to_the_lowest_id() {
        let corpus = corpus(&[
            event(3, 1, 10, 1, "[]"),
            event(1, 1, 10, 1, "[]"),
            event(2, 1, 11, 1, "[]"),
            event(4, 1, 12, 7, "[]"),
        ]);
        let question = Question {
            kinds: vec![1],
            limit: 2,
            ..Question::default()
        };
        assert_eq!(ids(&corpus, &question), [2, 1]);
    }

    #[test]
    fn replaced_and_deleted_events_are_not_expected() {
        let target = format!("[[\"e\",\"{:064x}\"]]", 1);
        let corpus = corpus(&[
            event(1, 1, 10, 1, "[]"),
            event(2, 1, 20, 0, "[]"),
            event(3, 1, 19, 0, "[]"),
            event(4, 2, 30, 5, &target),
            event(5, 1, 31, 5, &target),
        ]);
        let question = Question {
            limit: 10,
            ..Question::default()
        };
        assert_eq!(ids(&corpus, &question), [5, 4, 2]);
        assert_eq!(corpus.stored_size().0, 3);
    }

    #[test]
    fn two_tags_are_both_asked_for() {
        let corpus = corpus(&[
            event(1, 1, 1, 1, "[[\"t\",\"a\"],[\"p\",\"b\"]]"),
            event(2, 1, 2, 1, "[[\"t\",\"a\"],[\"p\",\"c\"]]"),
        ]);
        let question = Question {
            tags: vec![('t', vec!["a".to_owned()]), ('p', vec!["b".to_owned()])],
            limit: 10,
            ..Question::default()
        };
        assert_eq!(ids(&corpus, &question), [1]);
    }

    #[test]
    fn every_answer_is_the_one_that_a_look_at_all_events_gives() {
        let options = Generate {
            events: 3_000,
            seed: 5,
            authors: 300,
        };
        let mut text = Vec::new();
        let never = AtomicBool::new(false);
        generate(&options, &mut text, &never).unwrap();
        let text = String::from_utf8(text).unwrap();
        let corpus = Corpus::of(text, "test", &[], &never).unwrap();
        let mut questions = Questions::new(&corpus, 1);
        let mut events = 0;
        for shape in &SHAPES {
            for _ in 0..30 {
                // A corpus as short as this has no rare authors.
                let Some(question) = questions.draw(shape) else {
                    continue;
                };
                let matcher = Matcher::new(&question);
                let answers = corpus
                    .stored()
                    .filter(|(_, row)| corpus.is_answer(&matcher, row));
                let mut dumb: Vec<_> = answers
                    .map(|(_, row)| (std::cmp::Reverse(row.created_at), row.id))
                    .collect();
                dumb.sort_unstable();
                dumb.truncate(question.limit);
                let dumb: Vec<_> = dumb.into_iter().map(|(_, id)| id).collect();
                assert_eq!(corpus.answer(&question), dumb, "{}", shape.name);
                events += dumb.len();
            }
        }
        assert!(events > 5_000, "{events}");
    }
}
