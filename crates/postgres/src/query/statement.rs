//! The statement that reads a few entries of each of many streams of one index.
//!
//! A stream is what an index has under one value of its leading columns, in the storage order. For each
//! stream the statement reads at most `take` entries from its place on, and says which of them satisfy
//! the conditions. Where those may reject many it returns of the rejected only the last, to go on behind
//! it; where they hardly reject any it returns all, which spares the server numbering them. So what it
//! costs is bounded by what it is told to take, whatever matches.

use std::sync::Arc;

use futures_util::future::try_join_all;
use hikyaku_event::TagName;
use tokio_postgres::types::ToSql;

use super::{
    condition::{Asked, Decided, Parameter, named},
    place::{Direction, Hit, Place},
};
use crate::{
    PostgresError,
    columns::{Tie, Word},
    connection::{Session, Sessions},
};

/// An index that can propose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Index {
    /// The values of one tag name.
    Tag(TagName),
    AuthorKind,
    Author,
    Kind,
    Time,
}

/// The leading columns' value of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lead {
    Value(Vec<u8>),
    AuthorKind(Word, i32),
    Author(Word),
    Kind(i32),
    All,
}

/// Ids that are worth a connection of their own.
const IDS_SHARED: usize = 24;

/// How much to read of each stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// The time of the last place.
    pub(crate) end: i64,
    /// Entries, whether they match or not.
    pub(crate) take: i32,
    pub(crate) direction: Direction,
}

/// What was read of a stream.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// How many streams were read.
    pub(crate) streams: usize,
    pub(crate) hits: Vec<(usize, Hit)>,
    /// For streams that gave as much as they were to: their number and the last place read.
    pub(crate) full: Vec<(usize, Place)>,
}

impl Index {
    /// The parameters that say the leads, what each is called, and the condition on the table.
    fn leads(&self) -> (&'static [(&'static str, &'static str)], &'static str) {
        match self {
            Self::Tag(_) => (&[("bytea", "value")], "t.value = s.value"),
            Self::AuthorKind => (
                &[("bytea", "pubkey"), ("integer", "kind")],
                "t.pubkey = s.pubkey AND t.kind = s.kind AND NOT t.hidden",
            ),
            Self::Author => (
                &[("bytea", "pubkey")],
                "t.pubkey = s.pubkey AND NOT t.hidden",
            ),
            Self::Kind => (&[("integer", "kind")], "t.kind = s.kind AND NOT t.hidden"),
            Self::Time => (&[], "NOT t.hidden"),
        }
    }
}

/// Reads entries of streams of one index; `streams` are their leads and places.
pub(crate) async fn read(
    session: &Session,
    index: &Index,
    streams: &[(Lead, Place)],
    decided: Decided,
    asked: &Asked,
    page: Page,
) -> Result<Read, PostgresError> {
    let sparse = asked.is_selective(decided);
    let (sql, parameters) = prepare(index, streams, decided, asked, page, sparse);
    let parameters: Vec<_> = parameters.iter().map(as_sql).collect();
    let mut given: Vec<(i32, Place)> = vec![(0, Place::NEWEST); streams.len()];
    let mut read = Read {
        streams: streams.len(),
        ..Read::default()
    };
    for row in session.rows(&sql, &parameters).await? {
        let number = usize::try_from(row.get::<_, i64>(0) - 1).unwrap_or(0);
        let place = Place {
            age: row.get(1),
            tie: row.get(2),
        };
        let seq = row.get(3);
        if row.get::<_, bool>(4) {
            read.hits.push((number, Hit { place, seq }));
        }
        if let Some(given) = given.get_mut(number) {
            given.0 += 1;
            given.1 = place;
        }
        if sparse && row.get::<_, bool>(5) {
            read.full.push((number, place));
        }
    }
    if !sparse {
        let full = |(_, (count, _)): &(usize, (i32, Place))| *count >= page.take;
        let given = given.into_iter().enumerate().filter(full);
        read.full
            .extend(given.map(|(number, (_, last))| (number, last)));
    }
    Ok(read)
}

/// Writes the statement, with its parameters.
fn prepare(
    index: &Index,
    streams: &[(Lead, Place)],
    decided: Decided,
    asked: &Asked,
    page: Page,
    sparse: bool,
) -> (String, Vec<Parameter>) {
    let mut parameters: Vec<Parameter> = Vec::new();
    lead_parameters(index, streams, &mut parameters);
    let ages: Vec<i64> = streams.iter().map(|(_, place)| place.age).collect();
    let ties: Vec<Tie> = streams.iter().map(|(_, place)| place.tie).collect();
    parameters.push(Arc::new(ages));
    parameters.push(Arc::new(ties));
    parameters.push(Arc::new(page.end));
    parameters.push(Arc::new(i64::from(page.take)));
    let sql = sql(
        index,
        decided,
        asked,
        page.direction,
        sparse,
        &mut parameters,
    );
    (sql, parameters)
}

fn lead_parameters(index: &Index, streams: &[(Lead, Place)], parameters: &mut Vec<Parameter>) {
    let leads = streams.iter().map(|(lead, _)| lead);
    let keys = || {
        leads
            .clone()
            .filter_map(|lead| match lead {
                Lead::AuthorKind(key, _) | Lead::Author(key) => Some(*key),
                _ => None,
            })
            .collect::<Vec<Word>>()
    };
    let kinds = || {
        leads
            .clone()
            .filter_map(|lead| match lead {
                Lead::AuthorKind(_, kind) | Lead::Kind(kind) => Some(*kind),
                _ => None,
            })
            .collect::<Vec<i32>>()
    };
    match index {
        Index::Tag(_) => {
            let values = leads.clone().filter_map(|lead| match lead {
                Lead::Value(value) => Some(value.clone()),
                _ => None,
            });
            parameters.push(Arc::new(values.collect::<Vec<_>>()));
        }
        Index::AuthorKind => {
            parameters.push(Arc::new(keys()));
            parameters.push(Arc::new(kinds()));
        }
        Index::Author => parameters.push(Arc::new(keys())),
        Index::Kind => parameters.push(Arc::new(kinds())),
        Index::Time => {}
    }
}

fn sql(
    index: &Index,
    decided: Decided,
    asked: &Asked,
    direction: Direction,
    sparse: bool,
    parameters: &mut Vec<Parameter>,
) -> String {
    let (leads, matches) = index.leads();
    let (order, from, until) = match direction {
        Direction::Forward => ("ASC", ">=", "<="),
        Direction::Backward => ("DESC", "<=", ">="),
    };
    let numbered = (1..).zip(leads);
    let arrays = numbered.map(|(number, (of, _))| format!("${number}::{of}[], "));
    let arrays = arrays.collect::<Vec<_>>().concat();
    let names = leads.iter().map(|(_, name)| format!("{name}, "));
    let names = names.collect::<Vec<_>>().concat();
    let next = leads.len() + 1;
    let (ages, ties, end, take) = (next, next + 1, next + 2, next + 3);
    let (table, name) = match index {
        Index::Tag(name) => (
            "event_tags",
            format!("t.name = {} AND ", named(name, parameters)),
        ),
        _ => ("events", String::new()),
    };
    let conditions = asked.conditions(decided, parameters);
    let entries = format!(
        "SELECT t.age, t.tie, t.seq, t.author, t.kind, t.conditional \
         FROM {{schema}}.{table} t \
         WHERE {name}{matches} \
             AND (t.age, t.tie) {from} (s.age, s.tie) AND t.age {until} ${end} \
         ORDER BY t.age {order}, t.tie {order} LIMIT ${take}"
    );
    let streams = format!(
        "unnest({arrays}${ages}::bigint[], ${ties}::uuid[]) WITH ORDINALITY AS s({names}age, tie, n)"
    );
    if !sparse {
        return format!(
            "SELECT s.n, c.age, c.tie, c.seq, ({conditions}) AS ok \
             FROM {streams} CROSS JOIN LATERAL ({entries}) c"
        );
    }
    format!(
        "SELECT s.n, d.age, d.tie, d.seq, d.ok, d.full \
         FROM {streams} CROSS JOIN LATERAL ( \
             SELECT c.age, c.tie, c.seq, ({conditions}) AS ok, \
                 row_number() OVER () = ${take} AS full \
             FROM ({entries}) c \
         ) d \
         WHERE d.ok OR d.full"
    )
}

/// What was counted of a stream.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) count: u64,
    /// Where the next page of it begins; `None` if this was all.
    pub(crate) next: Option<Place>,
}

/// Counts among the next entries of one stream, at most `take`, without handing them out.
pub(crate) async fn count(
    session: &Session,
    index: &Index,
    stream: (Lead, Place),
    decided: Decided,
    asked: &Asked,
    page: Page,
) -> Result<Counted, PostgresError> {
    let (sql, parameters) = prepare(index, &[stream], decided, asked, page, true);
    let sql = format!(
        "SELECT count(*) FILTER (WHERE ok), max(age) FILTER (WHERE \"full\"), \
         (array_agg(tie) FILTER (WHERE \"full\"))[1] FROM ({sql}) AS entries"
    );
    let parameters: Vec<_> = parameters.iter().map(as_sql).collect();
    let rows = session.rows(&sql, &parameters).await?;
    let Some(row) = rows.first() else {
        return Ok(Counted {
            count: 0,
            next: None,
        });
    };
    let last = row.get::<_, Option<i64>>(1).zip(row.get(2));
    Ok(Counted {
        count: row.get::<_, i64>(0).unsigned_abs(),
        next: last.and_then(|(age, tie)| Place { age, tie }.next(page.direction)),
    })
}

fn as_sql(parameter: &Parameter) -> &(dyn ToSql + Sync) {
    &**parameter
}

/// Finds the events of ids, each for itself.
pub(crate) async fn by_id(
    sessions: Sessions<'_>,
    ids: &[Word],
    asked: &Asked,
) -> Result<Vec<Hit>, PostgresError> {
    let shares = sessions.share(ids, IDS_SHARED);
    let hits = try_join_all(shares.map(|(session, ids)| some_by_id(session, ids, asked))).await?;
    Ok(hits.concat())
}

async fn some_by_id(
    session: &Session,
    ids: &[Word],
    asked: &Asked,
) -> Result<Vec<Hit>, PostgresError> {
    let mut parameters: Vec<Parameter> = vec![Arc::new(ids.to_vec())];
    let conditions = asked.conditions(Decided::default(), &mut parameters);
    let sql = format!(
        "SELECT c.age, c.tie, c.seq FROM {{schema}}.events c \
         WHERE c.id = ANY($1) AND NOT c.hidden AND {conditions}"
    );
    let parameters: Vec<_> = parameters.iter().map(as_sql).collect();
    let rows = session.rows(&sql, &parameters).await?;
    let hit = |row: &tokio_postgres::Row| Hit {
        place: Place {
            age: row.get(0),
            tie: row.get(1),
        },
        seq: row.get(2),
    };
    Ok(rows.iter().map(hit).collect())
}
