//! An SQLite file as nostr-rs-relay's first start makes it, and as it stores events.

use std::path::Path;

use hikyaku_event::Event;
use rusqlite::{Connection, params};

/// A file that a relay has open.
#[derive(Debug)]
pub struct NostrRsRelayFile(Connection);

impl NostrRsRelayFile {
    /// Makes the file, with the tables of schema version 18 that have to do with events.
    pub fn create(path: &Path) -> Self {
        let file = open(path);
        run(
            &file,
            "PRAGMA encoding = 'UTF-8';
            PRAGMA journal_mode = WAL;
            PRAGMA auto_vacuum = FULL;
            PRAGMA main.synchronous = NORMAL;
            PRAGMA foreign_keys = ON;
            PRAGMA application_id = 1654008667;
            PRAGMA user_version = 18;
            CREATE TABLE event (
                id INTEGER PRIMARY KEY,
                event_hash BLOB NOT NULL,
                first_seen INTEGER NOT NULL,
                created_at INTEGER NOT NULL,
                expires_at INTEGER,
                author BLOB NOT NULL,
                delegated_by BLOB,
                kind INTEGER NOT NULL,
                hidden INTEGER,
                content TEXT NOT NULL
            );
            CREATE UNIQUE INDEX event_hash_index ON event(event_hash);
            CREATE INDEX author_index ON event(author);
            CREATE INDEX kind_index ON event(kind);
            CREATE INDEX created_at_index ON event(created_at);
            CREATE TABLE tag (
                id INTEGER PRIMARY KEY,
                event_id INTEGER NOT NULL,
                name TEXT,
                value TEXT,
                value_hex BLOB,
                created_at INTEGER NOT NULL,
                kind INTEGER NOT NULL,
                FOREIGN KEY(event_id) REFERENCES event(id) ON UPDATE CASCADE ON DELETE CASCADE
            );",
        );
        Self(file)
    }

    /// Stores an event.
    pub fn add(&self, event: &Event) {
        let json = std::str::from_utf8(event.json()).unwrap_or_default();
        self.add_text(event, json);
    }

    /// Stores a row that is an event's but for the JSON.
    #[expect(clippy::expect_used, reason = "a test may panic")]
    pub fn add_text(&self, event: &Event, json: &str) {
        let (id, author) = (event.id(), event.pubkey());
        self.0
            .execute(
                "INSERT OR IGNORE INTO event (event_hash, created_at, expires_at, kind, author, \
                 delegated_by, content, first_seen, hidden) \
                 VALUES (?1, ?2, ?3, ?4, ?5, NULL, ?6, strftime('%s','now'), FALSE)",
                params![
                    id.as_bytes(),
                    event.created_at().cast_signed(),
                    event.expires_at().map(u64::cast_signed),
                    event.kind().0,
                    author.as_bytes(),
                    json
                ],
            )
            .expect("the row is stored");
    }

    /// Hides an event, as a kind 5 of its author does.
    #[expect(clippy::expect_used, reason = "a test may panic")]
    pub fn hide(&self, event: &Event) {
        let id = event.id();
        self.0
            .execute(
                "UPDATE event SET hidden=TRUE WHERE event_hash=?1",
                params![id.as_bytes()],
            )
            .expect("the row is changed");
    }

    /// Runs other statements on the file.
    pub fn run(&self, statements: &str) {
        run(&self.0, statements);
    }
}

#[expect(clippy::expect_used, reason = "a test may panic")]
fn open(path: &Path) -> Connection {
    Connection::open(path).expect("a new SQLite file")
}

#[expect(clippy::expect_used, reason = "a test may panic")]
fn run(file: &Connection, statements: &str) {
    file.execute_batch(statements)
        .expect("statements of the test");
}
