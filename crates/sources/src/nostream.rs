//! nostream's `events` table in PostgreSQL, read while nostream serves.
//!
//! FORMAT, by its migrations: a row is an event in columns: `event_id`, `event_pubkey` and
//! `event_signature` (bytea), `event_created_at` and `event_kind` (integers), `event_tags` (jsonb,
//! nullable), `event_content` (text). Since August 2022 `deleted_at` (a timestamp) marks what a kind 5
//! or a request to vanish has deleted and nostream does not serve any more. `expires_at` repeats a tag.
//! A replaceable event has one row, which its newer version overwrites.
//!
//! Nothing that the id covers is lost in these columns. jsonb changes the spelling of JSON, not the
//! strings in it; the two things that it can't hold, `\u0000` and lone surrogates, nostream could not
//! store in the first place.

use std::{fmt::Write as _, pin::Pin, time::Duration};

use futures_util::TryStreamExt;
use hikyaku_address::{Address, AddressError};
use hikyaku_event::escape_into;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{
    Client, Config, Error, NoTls, Row, RowStream, Statement, config::Host, types::ToSql,
};

use crate::{Rows, Source, SourceError};

/// The columns that an event is made of.
const COLUMNS: [&str; 7] = [
    "event_id",
    "event_pubkey",
    "event_created_at",
    "event_kind",
    "event_tags",
    "event_content",
    "event_signature",
];
/// How many rows one statement gives: few enough that nostream's table is never held back from its
/// cleaning (VACUUM) for long, many enough that the statements' beginnings do not count.
const PAGE_ROWS: i64 = 10_000;
/// How long connecting may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(15);

/// A connection to nostream's database.
pub struct Nostream {
    runtime: Runtime,
    client: Client,
    /// The database's name and host, without what is secret in its address.
    place: String,
    page: Statement,
    /// The page being read, and how many of its rows have come.
    rows: Option<(Pin<Box<RowStream>>, i64)>,
    /// Time and id of the last row: pages follow each other by them, so that each is a read of its
    /// own along the index on the time, and nothing is held between them.
    last: (i64, Vec<u8>),
    total: Option<u64>,
}

impl Nostream {
    /// Connects to `postgres://user@host/database` (or `key=value` pairs), with TLS as libpq's
    /// `sslmode` has it. Where it names no password, `password` is used. With `seen_within` only those
    /// rows are read that nostream first saw within that time before the last one it has, and all
    /// replaceable ones: their newer versions take a row's place, and not its time.
    pub fn connect(
        address: &str,
        password: Option<&str>,
        seen_within: Option<Duration>,
    ) -> Result<Self, SourceError> {
        let Address { mut config, tls } = address.parse().map_err(|error: AddressError| {
            SourceError::Unreachable(format!(
                "{error}; an address looks like \
                 postgres://nostr_ts_relay@127.0.0.1:5432/nostr_ts_relay"
            ))
        })?;
        if let (None, Some(password)) = (config.get_password(), password) {
            config.password(password);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_PATIENCE);
        }
        config.application_name("hikyaku import");
        let place = place(&config);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| SourceError::Unreachable(format!("can't connect: {error}")))?;
        // The connection's end is seen by the statements that were waiting for it.
        let client = match tls {
            Some(tls) => runtime.block_on(config.connect(tls)).map(|made| {
                runtime.spawn(made.1);
                made.0
            }),
            None => runtime.block_on(config.connect(NoTls)).map(|made| {
                runtime.spawn(made.1);
                made.0
            }),
        };
        let client = client.map_err(|error| refused(&place, &error))?;
        let (page, total) = runtime.block_on(look(&client, &place, seen_within))?;
        Ok(Self {
            runtime,
            client,
            place,
            page,
            rows: None,
            last: (i64::MIN, Vec::new()),
            total,
        })
    }

    fn read_rows(&mut self, into: &mut Rows) -> Result<(), Error> {
        while !into.is_full() {
            let (mut page, mut came) = if let Some(rows) = self.rows.take() {
                rows
            } else {
                let parameters: [&(dyn ToSql + Sync); 3] = [&self.last.0, &self.last.1, &PAGE_ROWS];
                let stream = self.client.query_raw(&self.page, parameters);
                (Box::pin(self.runtime.block_on(stream)?), 0)
            };
            match self.runtime.block_on(page.try_next())? {
                Some(row) => {
                    self.last = (row.try_get(2)?, row.try_get(0)?);
                    came += 1;
                    match event(&row)? {
                        Some(json) => into.event(&json),
                        None => into.left_out(),
                    }
                    self.rows = Some((page, came));
                }
                None if came < PAGE_ROWS => break,
                None => {}
            }
        }
        Ok(())
    }
}

impl Source for Nostream {
    fn total(&self) -> Option<u64> {
        self.total
    }

    fn read(&mut self, rows: &mut Rows) -> Result<(), SourceError> {
        self.read_rows(rows).map_err(|error| {
            SourceError::Lost(format!(
                "the connection to nostream's database {} broke off ({})",
                self.place,
                reason(&error)
            ))
        })
    }
}

/// Looks whether this is nostream's database, and prepares to read it.
async fn look(
    client: &Client,
    place: &str,
    seen_within: Option<Duration>,
) -> Result<(Statement, Option<u64>), SourceError> {
    let failed = |error: Error| refused(place, &error);
    // Whatever the server's settings are: nothing is written, and a page waits for the import.
    client
        .batch_execute(
            "SET default_transaction_read_only = on; SET statement_timeout = 0; SET jit = off",
        )
        .await
        .map_err(failed)?;
    let found = client
        .query(
            "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass('events') \
             AND attnum > 0 AND NOT attisdropped",
            &[],
        )
        .await
        .map_err(failed)?;
    let found: Vec<String> = found
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    let has = |name: &str| found.iter().any(|column| column == name);
    if found.is_empty() {
        return Err(SourceError::Foreign(format!(
            "the database {place} has no table `events` in its search path; nostream's is usually \
             called nostr_ts_relay (DB_NAME in nostream's .env); another schema is chosen with \
             ?options=-csearch_path%3DSCHEMA at the end of the address"
        )));
    }
    let missing: Vec<_> = COLUMNS.into_iter().filter(|column| !has(column)).collect();
    if !missing.is_empty() {
        return Err(SourceError::Foreign(format!(
            "the database {place} has a table `events`, but not nostream's: {} is missing",
            missing.join(", ")
        )));
    }
    let deleted = if has("deleted_at") {
        "deleted_at IS NOT NULL"
    } else {
        "false"
    };
    let which = match seen_within {
        None => String::new(),
        Some(_) if !has("first_seen") => {
            return Err(SourceError::Foreign(format!(
                "the table `events` of the database {place} does not say when a row was first seen: \
                 read it whole"
            )));
        }
        Some(within) => recent(client, within).await.map_err(failed)?,
    };
    // The columns' own order, which the index on the time has: without its table, a name in ORDER BY is
    // that of the select list, and each page would sort all that is left.
    let page = client
        .prepare(&format!(
            "SELECT event_id, event_pubkey, event_created_at::bigint, event_kind::bigint, \
             event_tags::text, event_content, event_signature, {deleted} FROM events \
             WHERE (event_created_at, event_id) > ($1::bigint, $2::bytea) {which}\
             ORDER BY events.event_created_at, events.event_id LIMIT $3::bigint"
        ))
        .await
        .map_err(failed)?;
    let estimate: f32 = client
        .query_one(
            "SELECT reltuples FROM pg_class WHERE oid = to_regclass('events')",
            &[],
        )
        .await
        .and_then(|row| row.try_get(0))
        .map_err(failed)?;
    // Not known before the first ANALYZE.
    #[expect(clippy::cast_sign_loss, reason = "looked at first")]
    let total = (estimate > 0.0 && seen_within.is_none()).then_some(estimate as u64);
    Ok((page, total))
}

/// Returns the condition on rows of the last time. It goes by nostream's own clock, in whatever time zone
/// that is.
async fn recent(client: &Client, within: Duration) -> Result<String, Error> {
    let since = "SELECT (least(max(first_seen), localtimestamp) - make_interval(secs => $1))::text FROM events";
    let since = client.query_one(since, &[&within.as_secs_f64()]).await?;
    let since: Option<&str> = since.try_get(0)?;
    Ok(since.map_or_else(String::new, |since| {
        format!(
            "AND (first_seen >= '{since}' OR first_seen IS NULL OR event_kind IN (0, 3, 41) \
             OR event_kind BETWEEN 10000 AND 19999 OR event_kind BETWEEN 30000 AND 39999) "
        )
    }))
}

/// Writes a row's event as JSON; none for a deleted row.
fn event(row: &Row) -> Result<Option<Vec<u8>>, Error> {
    if row.try_get(7)? {
        return Ok(None);
    }
    let bytes = |column| row.try_get::<_, &[u8]>(column).map(faster_hex::hex_string);
    let (id, pubkey, sig) = (bytes(0)?, bytes(1)?, bytes(6)?);
    let (created_at, kind): (i64, i64) = (row.try_get(2)?, row.try_get(3)?);
    let tags: Option<&str> = row.try_get(4)?;
    let content: &str = row.try_get(5)?;
    let mut head = String::with_capacity(content.len() + tags.map_or(2, str::len) + 512);
    // Writing to a string does not fail.
    let _ = write!(
        head,
        "{{\"id\":\"{id}\",\"pubkey\":\"{pubkey}\",\"created_at\":{created_at},\"kind\":{kind},\
         \"tags\":{},\"content\":",
        tags.unwrap_or("[]")
    );
    let mut json = head.into_bytes();
    escape_into(&mut json, content);
    json.extend_from_slice(b",\"sig\":\"");
    json.extend_from_slice(sig.as_bytes());
    json.extend_from_slice(b"\"}");
    Ok(Some(json))
}

/// Names a database without its user's secrets.
fn place(config: &Config) -> String {
    let host = config.get_hosts().first().map_or_else(
        || "?".to_owned(),
        |host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        },
    );
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("{} at {host}:{port}", config.get_dbname().unwrap_or("?"))
}

/// Says why there is no connection, and what to do.
fn refused(place: &str, error: &Error) -> SourceError {
    let hint = match error.code().map(tokio_postgres::error::SqlState::code) {
        Some("28P01" | "28000") => {
            "; check user and password (DB_USER and DB_PASSWORD in nostream's .env), which the \
             address or PGPASSWORD may hold"
        }
        Some("42501") => {
            "; this user may not read it: use nostream's own, or GRANT SELECT ON events"
        }
        Some("3D000") => "; see DB_NAME in nostream's .env",
        Some(_) => "",
        None => "; is the server up, does it listen there, and is sslmode what it wants?",
    };
    SourceError::Unreachable(format!(
        "can't read nostream's database {place}: {}{hint}",
        reason(error)
    ))
}

/// The words of the server, or of the system below the library's.
fn reason(error: &Error) -> String {
    if let Some(answer) = error.as_db_error() {
        return answer.message().to_owned();
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
