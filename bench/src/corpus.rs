//! A corpus in memory, with a dumb answer to every question: what a relay that holds it must say.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fs,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    ops::Range,
    path::Path,
};

use serde::Deserialize;

use crate::error::{BenchError, During, Result};

pub(crate) type Bytes32 = [u8; 32];

/// The fields of an event that a filter can ask for.
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

    fn letters(&self) -> impl Iterator<Item = (u8, u64)> {
        self.tags
            .iter()
            .filter_map(|tag| match tag.first()?.as_bytes() {
                [letter] if letter.is_ascii_alphabetic() => Some((*letter, hash(tag.get(1)?))),
                _ => None,
            })
    }
}

/// An event as far as matching needs it; tag values are hashes.
#[derive(Debug)]
struct Row {
    line: Range<usize>,
    id: Bytes32,
    author: Bytes32,
    created_at: u64,
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
}

impl Corpus {
    /// Reads a file, one event a line, or its first events.
    pub(crate) fn read(path: &Path, limit: Option<usize>) -> Result<Self> {
        let text = fs::read_to_string(path).at(path)?;
        let (mut rows, mut tags) = (Vec::new(), Vec::new());
        let mut start = 0;
        for line in text.split_inclusive('\n').take(limit.unwrap_or(usize::MAX)) {
            let range = start..start + line.trim_end().len();
            start += line.len();
            let malformed = || {
                let number = rows.len() + 1;
                BenchError::Input(format!("{}, line {number}: not an event", path.display()))
            };
            let fields = Fields::parse(line.as_bytes()).ok_or_else(malformed)?;
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
        let mut corpus = Self { text, rows, tags };
        corpus.decide_what_is_stored();
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
        let stored = self.rows.iter().filter(|row| row.stored);
        stored.fold((0, 0), |(count, bytes), row| {
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
            let tags = self.tags.get(row.tags.clone()).unwrap_or_default();
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

    /// Answers a question by looking at every event: ids, newest first, ties to the lowest.
    pub(crate) fn answer(&self, question: &Question) -> Vec<Bytes32> {
        let matcher = Matcher::new(question);
        let mut found: Vec<_> = self
            .rows
            .iter()
            .filter(|row| row.stored)
            .filter(|row| {
                let tags = self.tags.get(row.tags.clone()).unwrap_or_default();
                matcher.matches(&row.id, &row.author, row.created_at, row.kind, tags)
            })
            .map(|row| (std::cmp::Reverse(row.created_at), row.id))
            .collect();
        found.sort_unstable();
        found.dedup();
        found.truncate(question.limit);
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// Replaced and deleted events are not stored in the end, in whatever order they came: the
    /// corpus deletes by id only, and only what is never replaced.
    fn decide_what_is_stored(&mut self) {
        let mut newest: HashMap<(u16, Bytes32, u64), usize> = HashMap::new();
        let mut deleted: HashSet<(Bytes32, u64)> = HashSet::new();
        let mut seen: HashSet<Bytes32> = HashSet::new();
        let mut gone = Vec::new();
        for (place, row) in self.rows.iter().enumerate() {
            let tags = self.tags.get(row.tags.clone()).unwrap_or_default();
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

/// One filter of a REQ. An empty list is no condition.
#[derive(Debug, Default, Clone)]
pub(crate) struct Question {
    pub(crate) ids: Vec<String>,
    pub(crate) authors: Vec<String>,
    pub(crate) kinds: Vec<u16>,
    pub(crate) tags: Vec<(char, String)>,
    pub(crate) until: Option<u64>,
    pub(crate) limit: usize,
}

impl Question {
    /// Writes the filter as a client would.
    pub(crate) fn to_json(&self) -> String {
        let mut filter = serde_json::Map::new();
        if !self.ids.is_empty() {
            filter.insert("ids".to_owned(), self.ids.clone().into());
        }
        if !self.authors.is_empty() {
            filter.insert("authors".to_owned(), self.authors.clone().into());
        }
        if !self.kinds.is_empty() {
            filter.insert("kinds".to_owned(), self.kinds.clone().into());
        }
        for (name, value) in &self.tags {
            filter.insert(format!("#{name}"), vec![value.clone()].into());
        }
        if let Some(until) = self.until {
            filter.insert("until".to_owned(), until.into());
        }
        filter.insert("limit".to_owned(), self.limit.into());
        serde_json::Value::Object(filter).to_string()
    }
}

/// A question made ready to be asked of many events.
#[derive(Debug)]
pub(crate) struct Matcher {
    ids: HashSet<Bytes32>,
    authors: HashSet<Bytes32>,
    kinds: Vec<u16>,
    tags: Vec<(u8, u64)>,
    until: u64,
}

impl Matcher {
    pub(crate) fn new(question: &Question) -> Self {
        let letter = |name: char| name as u8;
        Self {
            ids: question.ids.iter().filter_map(|id| bytes32(id)).collect(),
            authors: question
                .authors
                .iter()
                .filter_map(|key| bytes32(key))
                .collect(),
            kinds: question.kinds.clone(),
            tags: question
                .tags
                .iter()
                .map(|(name, value)| (letter(*name), hash(value)))
                .collect(),
            until: question.until.unwrap_or(u64::MAX),
        }
    }

    /// Tells whether an event that a relay sent is an answer.
    pub(crate) fn accepts(&self, event: &Fields<'_>) -> bool {
        let (Some(id), Some(author)) = (bytes32(&event.id), bytes32(&event.pubkey)) else {
            return false;
        };
        let tags: Vec<_> = event.letters().collect();
        self.matches(&id, &author, event.created_at, event.kind, &tags)
    }

    fn matches(
        &self,
        id: &Bytes32,
        author: &Bytes32,
        created_at: u64,
        kind: u16,
        tags: &[(u8, u64)],
    ) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&kind))
            && created_at <= self.until
            && self.tags.iter().all(|wanted| tags.contains(wanted))
            && (self.ids.is_empty() || self.ids.contains(id))
            && (self.authors.is_empty() || self.authors.contains(author))
    }
}

/// Reads 64 hex digits.
pub(crate) fn bytes32(hex: &str) -> Option<Bytes32> {
    let mut bytes = [0; 32];
    faster_hex::hex_decode(hex.as_bytes(), &mut bytes).ok()?;
    Some(bytes)
}

fn hash(value: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn event(id: u8, author: u8, created_at: u64, kind: u16, tags: &str) -> String {
        let (id, author) = (format!("{id:064x}"), format!("{author:064x}"));
        format!(
            "{{\"id\":\"{id}\",\"pubkey\":\"{author}\",\"created_at\":{created_at},\
             \"kind\":{kind},\"tags\":{tags},\"content\":\"\",\"sig\":\"\"}}"
        )
    }

    fn corpus(lines: &[String]) -> Corpus {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(lines.join("\n").as_bytes()).unwrap();
        Corpus::read(file.path(), None).unwrap()
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
            tags: vec![('t', "a".to_owned()), ('p', "b".to_owned())],
            limit: 10,
            ..Question::default()
        };
        assert_eq!(ids(&corpus, &question), [1]);
    }
}
