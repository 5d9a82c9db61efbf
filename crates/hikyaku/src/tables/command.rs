//! The commands and flags about tables.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum, builder::RangedI64ValueParser};
use hikyaku_tables::{Logging, NamedTable};

use super::settings::{
    Followed, LISTEN, LOG_FILE_BYTES_MAX, LOG_FILE_BYTES_MIN, TablesSettings, Token,
};

/// The commands about tables.
#[derive(Debug, Subcommand)]
pub(crate) enum TablesCommand {
    /// Serve tables to other programs, by the memcached text protocol and Tokyo Tyrant's
    ///
    /// Both on one port. Says on standard error when it is ready. SIGTERM or Ctrl-C stops it in order:
    /// what was sent is carried out and answered. docs/tables.md is for authors of clients.
    #[command(after_help = "\
Examples:
  hikyaku tables serve --open 'cache=*'
  hikyaku tables serve --open 'seen=seen.fixed?width=16&limit=1g' --open names=names.hash
  hikyaku tables serve --listen 10.0.0.5:11211 --token \"$TOKEN\" --open names=names.hash --log async")]
    Serve(Box<ServeFlags>),
    /// Carry out the updates of an update log again, from a time on
    ///
    /// For tables that were brought back from a copy: with a copy of the log's folder (or another
    /// server's) they become as they were at its end. No server may have the tables open.
    #[command(after_help = "\
Example:
  hikyaku tables restore --open seen=seen.fixed --from 1767225600000000 /backup/updates")]
    Restore {
        /// The folder of the tables
        #[arg(long, value_name = "DIR", default_value = "tables")]
        folder: PathBuf,
        /// A table: the name it has in the log, and its file with options
        #[arg(long, value_name = "NAME=TABLE", required = true)]
        open: Vec<NamedTable>,
        /// Microseconds since 1970: updates of that time and later
        #[arg(long, value_name = "TIME", default_value = "0")]
        from: u64,
        /// The folder of the log
        #[arg(value_name = "LOG")]
        log: PathBuf,
    },
    /// Copy a folder of tables, as the beginning of a server that follows this one
    ///
    /// The copy knows up to where the log is in it: a server on it, under a number of its own, goes on
    /// from there with --follow. If a server has the tables open, it is asked for the copy, and goes on
    /// serving meanwhile; what it has open is copied. Tables in memory are left out.
    #[command(after_help = "\
Examples:
  hikyaku tables copy /backup/tables
  hikyaku tables copy --folder /srv/tables --open seen=seen.fixed /backup/tables   (no server runs)")]
    Copy {
        /// The folder of the tables
        #[arg(long, value_name = "DIR", default_value = "tables")]
        folder: PathBuf,
        /// A table: its name, and its file with options; needed where no server has them open
        #[arg(long, value_name = "NAME=TABLE")]
        open: Vec<NamedTable>,
        /// The number of the server whose tables they are, where no server has them open [default: as
        /// their log says, or 1]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        server_id: Option<u32>,
        /// The new folder
        #[arg(value_name = "TO")]
        to: PathBuf,
    },
    /// Put the records of a Tokyo Cabinet file (.tcf) into a table
    ///
    /// Over what is there, and only if there is a place for every record. Files of both byte orders
    /// are read: upstream's, and that of Debian's build. The counts of a file that was not closed are
    /// not believed: all its records are found. Where the tables have an update log the records are in
    /// it afterwards, and reach the servers that follow. No server may have the table open.
    #[command(after_help = "\
Examples:
  hikyaku tables import old/visitors.tcf --into 'visitors.fixed?width=60&limit=1g'
  hikyaku tables import old/visitors.tcf --into 'seen=visitors.fixed?width=60&limit=1g'")]
    Import {
        /// The folder of the tables
        #[arg(long, value_name = "DIR", default_value = "tables")]
        folder: PathBuf,
        /// The file
        #[arg(value_name = "FILE.tcf")]
        file: PathBuf,
        /// The table, which is made if it is not there; with an update log, the name it is served under
        /// goes before it
        #[arg(long, value_name = "[NAME=]TABLE")]
        into: String,
    },
    /// Write a table's records to a Tokyo Cabinet file (.tcf)
    ///
    /// Its keys must be numbers from 1, as those of a fixed table are. The file must not exist.
    #[command(after_help = "\
Example:
  hikyaku tables export --from visitors.fixed visitors.tcf && tcfmgr inform visitors.tcf")]
    Export {
        /// The folder of the tables
        #[arg(long, value_name = "DIR", default_value = "tables")]
        folder: PathBuf,
        /// The table; with an update log, the name it is served under goes before it
        #[arg(long, value_name = "[NAME=]TABLE")]
        from: String,
        /// The file
        #[arg(value_name = "FILE.tcf")]
        file: PathBuf,
        /// Bytes of each record [default: as the longest needs]
        #[arg(long, value_name = "BYTES")]
        width: Option<u32>,
        /// Write the numbers as Debian's build of Tokyo Cabinet reads them, not upstream's
        #[arg(long)]
        big_endian: bool,
    },
}

/// The flags of `tables serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeFlags {
    /// The folder of the tables
    #[arg(long, value_name = "DIR", default_value = "tables")]
    pub(super) folder: PathBuf,
    /// A table: its name for clients, and its file with options; the first is the default table
    #[arg(long, value_name = "NAME=TABLE", required = true)]
    pub(super) open: Vec<NamedTable>,
    /// Where clients connect [default: 127.0.0.1:11211, without --unix]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) listen: Option<SocketAddr>,
    /// A Unix socket, which only its owner may use
    #[arg(long, value_name = "PATH")]
    pub(super) unix: Option<PathBuf>,
    /// What clients over TCP must present first; needed where the address is not loopback
    #[arg(long, env = "HIKYAKU_TABLES_TOKEN", hide_env_values = true)]
    pub(super) token: Option<String>,
    /// Whether updates are logged, and whether their answers wait for the log
    #[arg(long, value_enum, default_value_t = Log::None)]
    pub(super) log: Log,
    /// This server's number in update logs, from 1: each server of a pair or chain has its own
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) server_id: u32,
    /// Bytes of the update log that are kept for followers and restores; what a recovery needs is kept
    /// whatever this is
    #[arg(long, value_name = "BYTES", default_value = "1073741824")]
    pub(super) log_bytes: u64,
    /// Bytes of each of the log's files, 64 KiB to 1 GiB; the oldest goes as a whole
    #[arg(long, value_name = "BYTES", default_value = "67108864", value_parser = log_file_bytes())]
    pub(super) log_file_bytes: u32,
    /// Follow another table server's update log, live, and go on where it stopped; needs --log
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) follow: Option<Followed>,
    /// The token of the server that is followed, if it wants one
    #[arg(
        long,
        env = "HIKYAKU_TABLES_FOLLOW_TOKEN",
        hide_env_values = true,
        requires = "follow"
    )]
    pub(super) follow_token: Option<String>,
    /// Microseconds since 1970 from which on to follow a server for the first time [default: from the
    /// beginning of its log]
    #[arg(long, value_name = "TIME", default_value = "0", requires = "follow")]
    pub(super) follow_since: u64,
    /// Where clients may have copies of tables written to [default: nowhere]
    #[arg(long, value_name = "DIR")]
    pub(super) copies: Option<PathBuf>,
    /// The folder of the update logs that clients may have restored, each in a folder of its own
    /// [default: none]
    #[arg(long, value_name = "DIR")]
    pub(super) restores: Option<PathBuf>,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "N")]
    pub(super) workers: Option<NonZeroUsize>,
    /// Connections open at the same time
    #[arg(long, value_name = "N", default_value = "10000")]
    pub(super) connections_max: usize,
    /// Bytes of one value
    #[arg(long, value_name = "BYTES", default_value = "1048576")]
    pub(super) value_bytes_max: usize,
    /// Seconds a connection may be silent [default: any time]
    #[arg(long, value_name = "SECONDS")]
    pub(super) idle_timeout: Option<u64>,
}

fn log_file_bytes() -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(i64::from(LOG_FILE_BYTES_MIN)..=i64::from(LOG_FILE_BYTES_MAX))
}

impl ServeFlags {
    /// Returns what they choose.
    pub(super) fn settings(&self) -> TablesSettings {
        TablesSettings {
            open: self.open.clone(),
            listen: match (self.listen, &self.unix) {
                (None, None) => Some(LISTEN.into()),
                (listen, _) => listen,
            },
            unix: self.unix.clone(),
            token: self.token.clone().map(Token),
            logging: match self.log {
                Log::None => Logging::None,
                Log::Async => Logging::Async,
                Log::Sync => Logging::Sync,
            },
            log_bytes: self.log_bytes,
            log_file_bytes: self.log_file_bytes,
            server_id: self.server_id,
            follow: self.follow.clone(),
            follow_token: self.follow_token.clone().map(Token),
            follow_since_us: self.follow_since,
            copies: self.copies.clone(),
            restores: self.restores.clone(),
            workers: self.workers,
            connections_max: self.connections_max,
            value_bytes_max: self.value_bytes_max,
            idle_timeout: self.idle_timeout.map(Duration::from_secs),
        }
    }
}

/// Whether updates are logged.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Log {
    /// They are not
    None,
    /// They are, and nobody waits
    Async,
    /// They are, and answers wait until they are durable
    Sync,
}
