//! strfry's LMDB environment.
//!
//! FORMAT: named databases, whose integer keys are u64 in the machine's order.
//! `rasgueadb_defaultDb__Meta`: under 1 a `FlatBuffers` table { dbVersion, endianness, ... };
//! `rasgueadb_defaultDb__EventPayload`: the events' JSON ([`payload`](super::payload)), under numbers
//! that rise in the order of arrival; `rasgueadb_defaultDb__CompressionDictionary`: tables { dict }.
//! What is deleted, replaced or expired strfry removes.

use std::{io, path::Path};

use lmdb::{Cursor, Database, Environment, EnvironmentFlags, Error, RoTransaction, Transaction};

use super::{flatbuffer, payload::Unpacker};
use crate::{Rows, Source, SourceError};

const META: &str = "rasgueadb_defaultDb__Meta";
const PAYLOADS: &str = "rasgueadb_defaultDb__EventPayload";
const DICTIONARIES: &str = "rasgueadb_defaultDb__CompressionDictionary";
/// The versions of the whole that have payloads as described.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=3;
/// strfry makes about 20.
const DATABASES_MAX: u32 = 64;

/// An open environment.
pub struct Strfry {
    environment: Environment,
    payloads: Database,
    dictionaries: Option<Database>,
    unpacker: Unpacker,
    total: u64,
    /// The number of the last event read.
    last: u64,
}

impl Strfry {
    /// Opens the environment in a folder, for reading only. (A reader enters itself in `lock.mdb`, so
    /// that strfry keeps the pages it reads.)
    pub fn open(folder: &Path) -> Result<Self, SourceError> {
        let shown = folder.display();
        if !folder.join("data.mdb").exists() {
            return Err(SourceError::Unreachable(format!(
                "there is no data.mdb in {shown}; name the folder that strfry.conf has under `db`"
            )));
        }
        let environment = Environment::new()
            .set_flags(EnvironmentFlags::READ_ONLY)
            .set_max_dbs(DATABASES_MAX)
            .open(folder)
            .map_err(|error| refused(folder, error))?;
        let database = |name| match environment.open_db(Some(name)) {
            Ok(database) => Ok(Some(database)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(refused(folder, error)),
        };
        let (Some(meta), Some(payloads)) = (database(META)?, database(PAYLOADS)?) else {
            return Err(SourceError::Foreign(format!(
                "{shown} is an LMDB environment, but not strfry's, or of a version before its first \
                 release; {EXPORT}"
            )));
        };
        let dictionaries = database(DICTIONARIES)?;
        check_version(folder, &environment, meta)?;
        let total = environment
            .begin_ro_txn()
            .and_then(|transaction| count(&transaction, payloads))
            .map_err(|error| refused(folder, error))?;
        Ok(Self {
            environment,
            payloads,
            dictionaries,
            unpacker: Unpacker::default(),
            total,
            last: 0,
        })
    }

    fn read_rows(&mut self, rows: &mut Rows) -> Result<(), Error> {
        // Ends with this batch: strfry does not have to keep old pages for longer.
        let transaction = self.environment.begin_ro_txn()?;
        let mut cursor = transaction.open_ro_cursor(self.payloads)?;
        let from = (self.last + 1).to_ne_bytes();
        for row in cursor.iter_from(from) {
            let (key, payload) = row?;
            let Ok(number) = key.try_into().map(u64::from_ne_bytes) else {
                return Err(Error::Corrupted);
            };
            let dictionary = |number: u32| find(&transaction, self.dictionaries?, number);
            match self.unpacker.unpack(payload, dictionary) {
                Ok(json) => rows.event(json),
                Err(reason) => rows.unreadable(format!("strfry's event {number}: {reason}")),
            }
            self.last = number;
            if rows.is_full() {
                break;
            }
        }
        Ok(())
    }
}

impl Source for Strfry {
    fn total(&self) -> Option<u64> {
        Some(self.total)
    }

    fn read(&mut self, rows: &mut Rows) -> Result<(), SourceError> {
        self.read_rows(rows).map_err(|error| {
            SourceError::Lost(format!("strfry's database can't be read on: {error}"))
        })
    }
}

const EXPORT: &str = "strfry itself can write its events: strfry export | hikyaku import -";

fn check_version(
    folder: &Path,
    environment: &Environment,
    meta: Database,
) -> Result<(), SourceError> {
    let transaction = environment
        .begin_ro_txn()
        .map_err(|error| refused(folder, error))?;
    let entry = transaction.get(meta, &1_u64.to_ne_bytes());
    let field = |number| {
        entry
            .ok()
            .and_then(|table| flatbuffer::integer(table, number))
    };
    let shown = folder.display();
    match (field(0), field(1)) {
        (Some(version), Some(1)) if VERSIONS.contains(&version) => Ok(()),
        (Some(version), Some(1)) => Err(SourceError::Foreign(format!(
            "{shown} has strfry's database version {version}; this program knows {} to {}; {EXPORT}",
            VERSIONS.start(),
            VERSIONS.end()
        ))),
        (Some(_), Some(_)) => Err(SourceError::Foreign(format!(
            "{shown} was written on a machine of another byte order; {EXPORT}"
        ))),
        _ => Err(SourceError::Foreign(format!(
            "{shown} does not tell its version: it is not strfry's, or older than its first release; \
             {EXPORT}"
        ))),
    }
}

fn count(transaction: &RoTransaction<'_>, database: Database) -> Result<u64, Error> {
    Ok(transaction.stat(database)?.entries() as u64)
}

fn find(transaction: &RoTransaction<'_>, database: Database, number: u32) -> Option<Vec<u8>> {
    let table = transaction
        .get(database, &u64::from(number).to_ne_bytes())
        .ok()?;
    flatbuffer::vector(table, 0).map(<[u8]>::to_vec)
}

/// Says why an environment is not opened, and what to do.
fn refused(folder: &Path, error: Error) -> SourceError {
    let shown = folder.display();
    let denied = matches!(error, Error::Other(code)
        if io::Error::from_raw_os_error(code).kind() == io::ErrorKind::PermissionDenied);
    match error {
        _ if denied => SourceError::Unreachable(format!(
            "can't open {shown}: {error}. A reader enters itself in lock.mdb there: run this as \
             strfry's user, or as that user: {EXPORT}"
        )),
        Error::Invalid | Error::VersionMismatch | Error::Corrupted => {
            SourceError::Foreign(format!(
                "{shown} is no LMDB environment that this program can read ({error}); {EXPORT}"
            ))
        }
        _ => SourceError::Unreachable(format!("can't open {shown}: {error}")),
    }
}
