//! The versions of the schema, oldest first. A released one never changes: what comes later is a new
//! one behind it.

use super::SchemaName;
use crate::PostgresError;

/// One step of the schema: what it is for, and its statements.
pub(crate) struct Version {
    pub(super) summary: &'static str,
    pub(super) sql: &'static str,
    /// Nothing but indexes of tables that may be large. Where there are events they are made behind the
    /// migration, while the relay serves, and no query may count on them before.
    pub(super) online: bool,
}

/// All steps; the first one makes version 1.
pub(crate) static VERSIONS: &[Version] = &[
    Version {
        summary: "events, tags, and what deletes and hides them",
        sql: include_str!("v1.sql"),
        online: false,
    },
    Version {
        summary: "the state of the tag index's backfill",
        sql: include_str!("v2.sql"),
        online: false,
    },
    Version {
        summary: "indexes that an import puts off",
        sql: include_str!("deferred_indexes.sql"),
        online: false,
    },
    Version {
        summary: "who is kept out",
        sql: include_str!("bans.sql"),
        online: false,
    },
    Version {
        summary: "sessions of browsers",
        sql: include_str!("sessions.sql"),
        online: false,
    },
    Version {
        summary: "the server's history that numbers belong to",
        sql: include_str!("timeline.sql"),
        online: false,
    },
    Version {
        summary: "rows of tags that go before their index is made",
        sql: include_str!("orphans.sql"),
        online: false,
    },
    Version {
        summary: "rows of tags that are made with their index, and events that are packed by lz4",
        sql: include_str!("refilled.sql"),
        online: false,
    },
];

/// Where the version of a schema is written down.
pub(super) const VERSION_TABLE: &str = "CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.versions (
    version integer NOT NULL PRIMARY KEY,
    summary text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);";

/// Returns all statements that make the newest version of a schema of this name, for an operator to
/// read, or to run where the program may not.
pub fn schema_sql(schema: &str) -> Result<String, PostgresError> {
    let name = SchemaName::new(schema)?;
    let step = |(number, version): (i32, &Version)| {
        let Version { summary, sql, .. } = version;
        let record = record(number, version);
        format!("-- Version {number}: {summary}\n{sql}{record};\n")
    };
    let steps: Vec<_> = (1..).zip(VERSIONS).map(step).collect();
    let steps = steps.join("\n");
    Ok(name.fill(&format!("BEGIN;\n{VERSION_TABLE}\n\n{steps}COMMIT;\n")))
}

/// Returns the statement that writes a version down.
pub(super) fn record(number: i32, version: &Version) -> String {
    let summary = version.summary.replace('\'', "''");
    format!("INSERT INTO {{schema}}.versions (version, summary) VALUES ({number}, '{summary}')")
}
