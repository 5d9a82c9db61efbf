//! The commands and flags, with the help that a newcomer reads.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::{configuration::Flags, failure::EXIT_CODES, requests::Sort, tables::TablesCommand};

const EXAMPLES: &str = "\
Examples:
  hikyaku serve                         a relay at ws://127.0.0.1:7777, data in ./data
  hikyaku import events.jsonl           store the events of a file, one JSON object a line
  hikyaku query '{\"kinds\":[1],\"limit\":5}'
  hikyaku config --example >hikyaku.toml
  hikyaku bench relay ws://127.0.0.1:7777

Commands that work on a store also work while a server has it open: they find it through the data
folder.";

/// A Nostr relay: one program, one data folder.
#[derive(Debug, Parser)]
#[command(version, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"), max_term_width = 100)]
pub(crate) struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the store and the configuration are; the same for every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    /// The data folder [default: ./data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The PostgreSQL database that the store is in [default: none; it is in the data folder]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// The configuration [default: ./hikyaku.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl Place {
    fn flags(&self) -> Flags {
        Flags {
            config: self.config.clone(),
            data: self.data.clone(),
            store: self.store.clone(),
            ..Flags::default()
        }
    }
}

/// A place, and whether a program reads the answer.
#[derive(Debug, Clone, Args)]
pub(crate) struct Asking {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where an import's events are from: one of these.
#[derive(Debug, Clone, Args)]
#[group(multiple = false)]
pub(crate) struct Origin {
    /// The file; - is standard input
    #[arg(default_value = "-", value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// nostream's database; PGPASSWORD may hold the password
    #[arg(long, value_name = "URL")]
    pub(crate) from_nostream: Option<String>,
    /// The folder with strfry's data.mdb
    #[arg(long, value_name = "DIR")]
    pub(crate) from_strfry: Option<PathBuf>,
    /// nostr-rs-relay's SQLite file
    #[arg(long, value_name = "FILE")]
    pub(crate) from_nostr_rs_relay: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the relay until it is told to stop
    ///
    /// Says on standard error when it is ready, and at which address. SIGTERM or Ctrl-C stops it in
    /// order: writes in flight are finished and answered, clients are told. A second one stops it at
    /// once. The data folder is made at the first start, and the relay's own key in it.
    #[command(after_help = "\
Examples:
  hikyaku serve
  hikyaku serve --data /srv/nostr --listen 0.0.0.0:7777
  HIKYAKU_PUBLIC_URL=wss://relay.example.com hikyaku serve")]
    Serve {
        #[command(flatten)]
        place: Place,
        /// Where clients connect [default: 127.0.0.1:7777]
        #[arg(long, value_name = "ADDR:PORT")]
        listen: Option<String>,
        /// The certificate that clients are shown, in PEM [default: none; TLS is a proxy's business]
        #[arg(long, value_name = "FILE")]
        tls_certificate: Option<String>,
        /// Its private key, in PEM
        #[arg(long, value_name = "FILE")]
        tls_key: Option<String>,
    },
    /// Store events from a file, from standard input, or from another relay's database
    ///
    /// A file has one JSON object a line. Another relay's database is only read, also while that relay
    /// runs; run the same command again for what has arrived meanwhile. Ids and signatures are
    /// checked, and the rules of deletion, replacement, vanishing and expiry apply; the limits on size
    /// and time that clients have do not. At its end it says what became of the events. A bad line is
    /// counted and shown, and does not stop it. Ctrl-C stops it in order.
    #[command(after_help = "\
Examples:
  hikyaku import events.jsonl
  zstdcat backup.jsonl.zst | hikyaku import --data /srv/nostr -
  PGPASSWORD=... hikyaku import --from-nostream postgres://nostr_ts_relay@127.0.0.1/nostr_ts_relay
  hikyaku import --from-strfry /var/lib/strfry/strfry-db
  hikyaku import --from-nostr-rs-relay /var/lib/nostr-rs-relay/nostr.db")]
    Import {
        #[command(flatten)]
        asking: Asking,
        #[command(flatten)]
        origin: Origin,
        /// Only what nostream has first seen so long before its last event, and all that is replaceable:
        /// 90s, 15m, 12h, 30d
        #[arg(long, value_name = "TIME", value_parser = seconds, requires = "from_nostream")]
        seen_within: Option<u64>,
        /// Stop at the first invalid line, with exit code 1
        #[arg(long)]
        strict: bool,
        /// Take signatures on trust: only for events that a relay of yours has checked before
        ///
        /// Ids are checked all the same.
        #[arg(long)]
        unchecked: bool,
    },
    /// Write events to standard output, one JSON object a line, newest first
    #[command(after_help = "\
Examples:
  hikyaku export >backup.jsonl
  hikyaku export --filter '{\"authors\":[\"<64 hex digits>\"]}' --oldest-first")]
    Export {
        #[command(flatten)]
        place: Place,
        /// Only what this filter (NIP-01) matches
        #[arg(long, value_name = "JSON", default_value = "{}")]
        filter: String,
        /// Begin with the oldest
        #[arg(long)]
        oldest_first: bool,
    },
    /// Print the events of some filters, newest first
    ///
    /// Like one REQ (NIP-01) of these filters, each with its own limit; but the operator sees private
    /// kinds too, and without `limit` everything comes.
    #[command(after_help = "\
Example:
  hikyaku query '{\"kinds\":[0],\"authors\":[\"<64 hex digits>\"]}' '{\"kinds\":[1],\"limit\":20}'")]
    Query {
        #[command(flatten)]
        place: Place,
        /// Filters (NIP-01)
        #[arg(required = true, value_name = "FILTER")]
        filters: Vec<String>,
    },
    /// Count the events of some filters, each event once
    #[command(after_help = "\
Example:
  hikyaku count '{\"kinds\":[7],\"#e\":[\"<64 hex digits>\"]}'")]
    Count {
        #[command(flatten)]
        asking: Asking,
        /// Filters (NIP-01); `limit` is ignored
        #[arg(required = true, value_name = "FILTER")]
        filters: Vec<String>,
    },
    /// Delete the events of a filter for good
    ///
    /// First says how many there are, and asks; without a terminal it deletes only with --yes. The
    /// events may be published or imported again afterwards. A deleted kind 5 or 62 loses its force.
    #[command(after_help = "\
Examples:
  hikyaku delete --filter '{\"authors\":[\"<64 hex digits>\"]}'
  hikyaku delete --filter '{\"kinds\":[1],\"until\":1700000000}' --yes")]
    Delete {
        #[command(flatten)]
        asking: Asking,
        /// Which events (NIP-01), without `limit`; {} is all of them
        #[arg(long, value_name = "JSON", required = true)]
        filter: String,
        /// Delete without asking
        #[arg(long)]
        yes: bool,
    },
    /// Print the store's figures
    Stats {
        #[command(flatten)]
        asking: Asking,
    },
    /// Look for what usually goes wrong, and say what to do about it
    ///
    /// Looks at the machine, the configuration, the store or the database, the running server if there
    /// is one, and the relay's public address. Changes nothing. Exit code 1 if anything is bad.
    Doctor {
        #[command(flatten)]
        asking: Asking,
    },
    /// Print what requests cost, by their shape: which are slow, and why
    ///
    /// Asks the running server, which measures every REQ, COUNT, EVENT and HTTP request. Requests are
    /// grouped by which fields they have, how many values (rounded) and which limit. `exam/ret` is how
    /// many events were looked at for each one that was answered; 1 is the best there is.
    #[command(after_help = "\
Examples:
  hikyaku slow
  hikyaku slow --save before.json           # then change something, wait, and
  hikyaku slow --since before.json")]
    Slow {
        #[command(flatten)]
        asking: Asking,
        /// Keep the figures in a file, to compare with later
        #[arg(long, value_name = "FILE")]
        save: Option<PathBuf>,
        /// Only what has come since these were kept, beside what was then
        #[arg(long, value_name = "FILE")]
        since: Option<PathBuf>,
        /// What comes first
        #[arg(long, value_enum, default_value = "time")]
        sort: Sort,
        /// How many shapes at most
        #[arg(long, value_name = "COUNT", default_value_t = 20)]
        limit: u32,
    },
    /// Show live which requests the running server works on, and what they cost
    ///
    /// Keys: s sorts by the next column, a shows the time since the start, space pauses, q quits. Without
    /// a terminal each interval is printed below the last.
    Top {
        #[command(flatten)]
        place: Place,
        /// Seconds between two pictures
        #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
        interval: u64,
        /// End after so many pictures
        #[arg(long, value_name = "COUNT")]
        count: Option<u64>,
        /// What comes first
        #[arg(long, value_enum, default_value = "time")]
        sort: Sort,
    },
    /// Check every checksum, and that the indexes agree with the log
    ///
    /// Finds damage before it matters; exit code 4 if there is any. A server goes on serving
    /// meanwhile.
    Verify {
        #[command(flatten)]
        asking: Asking,
    },
    /// Rebuild the indexes from the log
    ///
    /// For a store that `verify` finds damaged, or that does not open. Every intact event is kept; if
    /// the log itself is damaged, its old files are kept aside. No server may have the store open.
    Repair {
        #[command(flatten)]
        asking: Asking,
    },
    /// Merge the indexes and rewrite the log without what is deleted
    ///
    /// The store does this by itself where it pays; this does it everywhere, now. A server goes on
    /// serving meanwhile.
    Compact {
        #[command(flatten)]
        place: Place,
    },
    /// Print who the members are, when each was last here, and how many events it wrote
    ///
    /// A key is a member once it has written or authenticated here. Members have numbers, from 1 in
    /// the order of their first appearance.
    #[command(after_help = "\
Examples:
  hikyaku members --seen-within 1d
  hikyaku members <64 hex digits> --json")]
    Members {
        #[command(flatten)]
        asking: Asking,
        /// Only these members' keys, in hex
        #[arg(value_name = "KEY")]
        keys: Vec<String>,
        /// Only who was here within this time: 90s, 15m, 12h, 30d
        #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with = "keys")]
        seen_within: Option<u64>,
        /// Only who has a higher number than this
        #[arg(
            long,
            value_name = "NUMBER",
            default_value_t = 0,
            conflicts_with = "keys"
        )]
        after: u32,
        /// How many at most
        #[arg(
            long,
            value_name = "COUNT",
            default_value_t = 100,
            conflicts_with = "keys"
        )]
        limit: u32,
    },
    /// Print who looked at a member's page, newest first
    ///
    /// Pages and plugins leave footprints, and only between members who have both switched them on.
    Footprints {
        #[command(flatten)]
        asking: Asking,
        /// The member's key, in hex
        #[arg(value_name = "KEY")]
        key: String,
        /// Switch the member's footprints on first
        #[arg(long, conflicts_with = "off")]
        on: bool,
        /// Switch them off: those on its page go, and those it left are not shown any more
        #[arg(long)]
        off: bool,
    },
    /// Keep a key, an address or a network out
    ///
    /// Who is banned by address can't connect, who is banned by key can't publish or authenticate;
    /// connections they have are closed (`blocked:`). What a key has written stays; `delete` removes
    /// it. With a store in PostgreSQL all nodes know it at once.
    #[command(after_help = "\
Examples:
  hikyaku ban 203.0.113.0/24 --reason \"a flood of spam\" --for 7d
  hikyaku ban <64 hex digits>")]
    Ban {
        #[command(flatten)]
        asking: Asking,
        /// A public key in hex, an IP address, or a range like 10.0.0.0/8
        #[arg(value_name = "WHO")]
        who: String,
        /// What they are told
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
        /// For how long: 90s, 15m, 12h, 30d [default: for ever]
        #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
        time: Option<u64>,
    },
    /// Take a ban back
    Unban {
        #[command(flatten)]
        asking: Asking,
        /// Whose
        #[arg(value_name = "WHO")]
        who: String,
    },
    /// List who is kept out
    Bans {
        #[command(flatten)]
        asking: Asking,
    },
    /// Look after the sessions of browsers that have logged in (sessions.enabled)
    Sessions {
        /// What
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// Work with tables: small facts that change all the time
    #[command(subcommand)]
    Tables(TablesCommand),
    /// Look after the store in PostgreSQL
    Postgres {
        /// What
        #[command(subcommand)]
        command: PostgresCommand,
    },
    /// Measure a server: this one or any other of its kind
    ///
    /// Loads only servers on this machine, unless you say that the server is yours. Ctrl-C ends a
    /// measurement with what it has.
    #[command(subcommand)]
    Bench(hikyaku_bench::Bench),
    /// Print the configuration in force, and where each value is from
    ///
    /// A flag wins over the environment, the environment over the file, the file over the default.
    Config {
        #[command(flatten)]
        asking: Asking,
        /// Print an example file with every key instead
        #[arg(long)]
        example: bool,
    },
    /// A command of a plugin, and its arguments.
    #[command(external_subcommand)]
    Plugins(Vec<String>),
}

/// What can be done about sessions of browsers.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// Revoke one session, or all sessions of a key, whatever the device
    ///
    /// They are refused at once; with a store in PostgreSQL at all nodes. Who has a key can log in
    /// again: `ban` keeps it out.
    #[command(after_help = "\
Examples:
  hikyaku sessions revoke <64 hex digits>   all sessions of a key
  hikyaku sessions revoke <32 hex digits>   one session, by its name")]
    Revoke {
        #[command(flatten)]
        asking: Asking,
        /// A public key in hex, or a session's name
        #[arg(value_name = "WHO")]
        who: String,
    },
    /// List what is revoked
    Revoked {
        #[command(flatten)]
        asking: Asking,
    },
}

impl SessionsCommand {
    /// Returns the place, and whether a program reads the answer.
    pub(crate) fn asking(&self) -> &Asking {
        match self {
            Self::Revoke { asking, .. } | Self::Revoked { asking } => asking,
        }
    }
}

/// What can be done about the store in PostgreSQL.
#[derive(Debug, Subcommand)]
pub(crate) enum PostgresCommand {
    /// Print the statements that make the tables
    ///
    /// `serve` and `import` run them by themselves where they are missing. For an operator who wants to
    /// read them, or whose relay may not make tables.
    Schema {
        #[command(flatten)]
        place: Place,
    },
    /// Index the tags of these names: longer ones than a letter, or letters again after `drop-tag`
    ///
    /// New events are indexed by them at once, older ones by a backfill, newest first, which the
    /// servers do while they serve; or `backfill run` does. Until it has ended an answer that asks for
    /// such a tag does not say that it is complete.
    IndexTag {
        #[command(flatten)]
        asking: Asking,
        /// Names, as `t` or `title`
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Take the tags of these names out of the index
    ///
    /// For names that nobody asks for: their rows cost room and time. What is asked for by them is not
    /// found any more. `p` can't be dropped.
    DropTag {
        #[command(flatten)]
        asking: Asking,
        /// Names, as `t` or `title`
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Look after the backfill of the index of tags
    Backfill {
        /// What to do
        #[command(subcommand)]
        command: BackfillCommand,
    },
}

/// What can be done about the backfill. Each prints how far it is afterwards.
#[derive(Debug, Subcommand)]
pub(crate) enum BackfillCommand {
    /// Tell how far it is: done, total, rate and time left
    Status {
        #[command(flatten)]
        asking: Asking,
    },
    /// Have it wait
    Pause {
        #[command(flatten)]
        asking: Asking,
    },
    /// Have it go on
    Resume {
        #[command(flatten)]
        asking: Asking,
    },
    /// End it, and take back what it has done: the names are not indexed then
    Cancel {
        #[command(flatten)]
        asking: Asking,
    },
    /// Say how fast it may go, from its next batch on
    Pace {
        #[command(flatten)]
        asking: Asking,
        /// Of the time, how many percent it keeps the database at work; 100 does not wait
        #[arg(long, value_name = "PERCENT", default_value_t = 25)]
        share: u32,
        /// Events a second at most
        #[arg(long, value_name = "EVENTS")]
        rate: Option<u32>,
    },
    /// Work here, with a progress line, until it has ended or Ctrl-C comes
    Run {
        #[command(flatten)]
        asking: Asking,
    },
}

impl BackfillCommand {
    /// Returns the place, and whether a program reads the answer.
    pub(crate) fn asking(&self) -> &Asking {
        match self {
            Self::Status { asking }
            | Self::Pause { asking }
            | Self::Resume { asking }
            | Self::Cancel { asking }
            | Self::Pace { asking, .. }
            | Self::Run { asking } => asking,
        }
    }
}

impl PostgresCommand {
    fn place(&self) -> &Place {
        match self {
            Self::Schema { place } => place,
            Self::IndexTag { asking, .. } | Self::DropTag { asking, .. } => &asking.place,
            Self::Backfill { command } => &command.asking().place,
        }
    }
}

/// Reads a time such as 90s, 15m, 12h or 30d.
fn seconds(text: &str) -> Result<u64, String> {
    let unit = match text.bytes().last() {
        Some(b's') => 1,
        Some(b'm') => 60,
        Some(b'h') => 60 * 60,
        Some(b'd') => 24 * 60 * 60,
        _ => return Err("expected a number and s, m, h or d".to_owned()),
    };
    text.get(..text.len() - 1)
        .and_then(|number| number.parse::<u64>().ok())
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| "expected a whole number and s, m, h or d".to_owned())
}

impl Command {
    /// Returns the flags that override the configuration.
    pub(crate) fn flags(&self) -> Flags {
        let place = match self {
            Self::Serve {
                place,
                listen,
                tls_certificate,
                tls_key,
            } => {
                return Flags {
                    listen: listen.clone(),
                    tls_certificate: tls_certificate.clone(),
                    tls_key: tls_key.clone(),
                    ..place.flags()
                };
            }
            Self::Import { asking, .. }
            | Self::Count { asking, .. }
            | Self::Delete { asking, .. }
            | Self::Stats { asking }
            | Self::Slow { asking, .. }
            | Self::Doctor { asking }
            | Self::Verify { asking }
            | Self::Repair { asking }
            | Self::Members { asking, .. }
            | Self::Footprints { asking, .. }
            | Self::Ban { asking, .. }
            | Self::Unban { asking, .. }
            | Self::Bans { asking }
            | Self::Config { asking, .. } => &asking.place,
            Self::Sessions { command } => &command.asking().place,
            Self::Postgres { command } => command.place(),
            Self::Export { place, .. }
            | Self::Query { place, .. }
            | Self::Top { place, .. }
            | Self::Compact { place } => place,
            Self::Tables(_) | Self::Bench(_) | Self::Plugins(_) => return Flags::default(),
        };
        place.flags()
    }
}
