//! What an event must satisfy beside being proposed by an index: pieces of SQL with their parameters.
//!
//! They are about a proposed row `c`, which has `age, tie, seq, author, kind, conditional` of an index.
//! What only the event's row knows is asked for as a scalar sub-select, behind all that is cheap:
//! PostgreSQL takes an AND in its order, and makes no hash table of a whole table of one.

use std::sync::Arc;

use hikyaku_event::{Filter, Kind, PublicKey, TagName, Timestamp};
use hikyaku_store::Reader;
use tokio_postgres::types::ToSql;

use crate::{
    columns::{self, Word},
    names::Name,
};

/// A parameter of a statement.
pub(crate) type Parameter = Arc<dyn ToSql + Sync + Send>;

/// The kinds that only their parties may read.
const PRIVATE_KINDS: [Kind; 3] = [
    Kind::DIRECT_MESSAGE,
    Kind::GIFT_WRAP,
    Kind::EPHEMERAL_GIFT_WRAP,
];

/// The row of the proposed event.
const ROW: &str = "FROM {schema}.events e WHERE e.seq = c.seq";

/// What one filter asks of one reader, ready for statements.
pub(crate) struct Asked {
    /// The kinds it may have of those it asks for; `None`: all that are left by `reader`.
    pub(crate) kinds: Option<Vec<i32>>,
    pub(crate) authors: Option<Vec<PublicKey>>,
    pub(crate) tags: Vec<(TagName, Vec<Vec<u8>>)>,
    pub(crate) ids: Option<Vec<Word>>,
    reader: Rights,
    snapshot: i64,
    now: i64,
}

/// What a reader may see.
enum Rights {
    Everything,
    /// No private kinds.
    Public,
    /// Private kinds of these keys.
    Parties {
        keys: Vec<Word>,
        hex: Vec<Vec<u8>>,
    },
}

/// What a proposing index has decided already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) kinds: bool,
    pub(crate) authors: bool,
    /// The condition on tags of this number.
    pub(crate) tag: Option<usize>,
}

impl Asked {
    /// `None` if nothing can match.
    pub(crate) fn new(
        filter: &Filter,
        reader: &Reader,
        snapshot: i64,
        now: Timestamp,
    ) -> Option<Self> {
        if filter.matches_nothing() {
            return None;
        }
        let rights = if reader.is_operator() {
            Rights::Everything
        } else if reader.keys().is_empty() {
            Rights::Public
        } else {
            Rights::Parties {
                keys: reader.keys().iter().map(|key| (*key).into()).collect(),
                hex: reader
                    .keys()
                    .iter()
                    .map(|key| key.to_hex().into_bytes())
                    .collect(),
            }
        };
        let public = matches!(rights, Rights::Public);
        let kinds = filter.kinds.as_ref().map(|kinds| {
            let readable = kinds.iter().filter(|kind| !(public && kind.is_private()));
            readable.map(|kind| i32::from(kind.0)).collect::<Vec<_>>()
        });
        if kinds.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        let tags = filter.tags.iter().map(|condition| {
            let values = condition.values.iter();
            (
                condition.name.clone(),
                values.map(|value| columns::value(value)).collect(),
            )
        });
        Some(Self {
            kinds,
            authors: filter.authors.clone(),
            tags: tags.collect(),
            ids: filter
                .ids
                .as_ref()
                .map(|ids| ids.iter().map(|id| (*id).into()).collect()),
            reader: rights,
            snapshot,
            now: columns::seconds(now),
        })
    }

    fn may_be_private(&self) -> bool {
        let kinds = self.kinds.as_ref();
        kinds.is_none_or(|kinds| kinds.iter().any(|kind| is_private(*kind)))
    }

    /// Returns the keys that stand for the reader if only private kinds are asked for, so that their
    /// parties are a condition like any other.
    pub(crate) fn parties(&self) -> Option<(&[Word], &[Vec<u8>])> {
        let kinds = self.kinds.as_ref()?;
        match &self.reader {
            Rights::Parties { keys, hex } if kinds.iter().all(|kind| is_private(*kind)) => {
                Some((keys, hex))
            }
            _ => None,
        }
    }

    /// Tells whether the conditions that are left may reject most of what is proposed.
    pub(crate) fn is_selective(&self, decided: Decided) -> bool {
        let kinds = self.kinds.is_some() && !decided.kinds;
        let authors = self.authors.is_some() && !decided.authors;
        let tags = self.tags.len() > usize::from(decided.tag.is_some());
        let parties = matches!(self.reader, Rights::Parties { .. }) && self.may_be_private();
        kinds || authors || tags || parties
    }

    /// Returns how many values of tags are looked for at each entry.
    pub(crate) fn lookups(&self, decided: Decided) -> u64 {
        let left = (0..)
            .zip(&self.tags)
            .filter(|(number, _)| decided.tag != Some(*number));
        left.map(|(_, (_, values))| values.len() as u64).sum()
    }

    /// Writes the conditions that are left, with their parameters behind those that are there.
    pub(crate) fn conditions(&self, decided: Decided, parameters: &mut Vec<Parameter>) -> String {
        let mut sql = Conditions {
            sql: Vec::new(),
            parameters,
        };
        let snapshot = sql.parameter(self.snapshot);
        sql.and(format!("c.seq <= {snapshot}"));
        if !decided.kinds {
            match (&self.kinds, &self.reader) {
                (Some(kinds), _) => {
                    let kinds = sql.parameter(kinds.clone());
                    sql.and(format!("c.kind = ANY({kinds})"));
                }
                (None, Rights::Public) => {
                    let kinds = PRIVATE_KINDS.map(|kind| kind.0.to_string()).join(", ");
                    sql.and(format!("c.kind NOT IN ({kinds})"));
                }
                (None, _) => {}
            }
        }
        let authors = self.authors.as_ref().filter(|_| !decided.authors);
        if let Some(authors) = authors {
            let first: Vec<_> = authors.iter().map(columns::author).collect();
            let first = sql.parameter(first);
            sql.and(format!("c.author = ANY({first})"));
            let keys: Vec<Word> = authors.iter().map(|key| (*key).into()).collect();
            let keys = sql.parameter(keys);
            sql.and(format!("(SELECT e.pubkey {ROW}) = ANY({keys})"));
        }
        let now = sql.parameter(self.now);
        sql.and(format!(
            "(NOT c.conditional OR (SELECT (e.expires_at IS NULL OR e.expires_at > {now}) \
             AND (e.shown_from IS NULL OR e.shown_from <= {snapshot}) {ROW}))"
        ));
        for (number, (name, values)) in self.tags.iter().enumerate() {
            if decided.tag != Some(number) {
                let condition = sql.tagged(name, values.clone());
                sql.and(condition);
            }
        }
        if let Rights::Parties { keys, hex } = &self.reader
            && self.may_be_private()
        {
            let tagged = sql.tagged(&TagName::of_letter(b'p'), hex.clone());
            let keys = sql.parameter(keys.clone());
            let kinds = PRIVATE_KINDS.map(|kind| kind.0.to_string()).join(", ");
            let direct = Kind::DIRECT_MESSAGE.0;
            sql.and(format!(
                "(c.kind NOT IN ({kinds}) OR {tagged} OR \
                 c.kind = {direct} AND (SELECT e.pubkey {ROW}) = ANY({keys}))"
            ));
        }
        sql.sql.join(" AND ")
    }
}

fn is_private(kind: i32) -> bool {
    PRIVATE_KINDS.iter().any(|other| i32::from(other.0) == kind)
}

/// Writes a tag's name: a letter into the statement, a longer one, which a client chooses, as a
/// parameter.
pub(super) fn named(name: &TagName, parameters: &mut Vec<Parameter>) -> String {
    if let Some(letter) = name.letter() {
        return format!("'{}'", char::from(letter));
    }
    parameters.push(Arc::new(Name(name.clone())));
    format!("${}", parameters.len())
}

struct Conditions<'a> {
    sql: Vec<String>,
    parameters: &'a mut Vec<Parameter>,
}

impl Conditions<'_> {
    fn and(&mut self, condition: String) {
        self.sql.push(condition);
    }

    fn parameter(&mut self, value: impl ToSql + Sync + Send + 'static) -> String {
        self.parameters.push(Arc::new(value));
        format!("${}", self.parameters.len())
    }

    /// Looks for the proposed event among those that have one of the values.
    fn tagged(&mut self, name: &TagName, values: Vec<Vec<u8>>) -> String {
        let values = self.parameter(values);
        let name = named(name, self.parameters);
        format!(
            "(SELECT true FROM {{schema}}.event_tags r WHERE r.name = {name} \
             AND r.value = ANY({values}) AND r.age = c.age AND r.tie = c.tie LIMIT 1) IS TRUE"
        )
    }
}
