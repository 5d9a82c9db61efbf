//! The keys: their names, what they are for, and which setting each is.

use hikyaku_server::SessionOptions;

use super::{
    settings::Settings,
    value::{Given, Value},
};
use crate::tables::{LOG_FILE_BYTES_MAX, LOG_FILE_BYTES_MIN};

/// One key of the configuration.
pub(super) struct Key {
    /// Its name in the file, with the table's before a dot.
    pub(super) name: &'static str,
    /// What it is for: sentences for the operator.
    pub(super) help: &'static str,
    /// What a value may look like, in TOML, where the default is none.
    pub(super) example: &'static str,
    /// Puts a value into the settings; the error says what was expected.
    pub(super) read: fn(&mut Settings, &Given) -> Result<(), String>,
    /// Writes the setting as TOML; `None` if it is unset.
    pub(super) write: fn(&Settings) -> Option<String>,
}

impl Key {
    /// Returns the environment variable that overrides the file.
    pub(super) fn variable(&self) -> String {
        format!(
            "HIKYAKU_{}",
            self.name.replace('.', "_").to_ascii_uppercase()
        )
    }

    /// Splits the name into table and key; the table may be empty.
    pub(super) fn place(&self) -> (&'static str, &'static str) {
        self.name.split_once('.').unwrap_or(("", self.name))
    }
}

/// Returns the position of a key.
pub(super) fn position(name: &str) -> Option<usize> {
    KEYS.iter().position(|key| key.name == name)
}

macro_rules! key {
    ($name:literal, $($field:ident).+, $help:literal) => {
        key!($name, $($field).+, $help, "")
    };
    ($name:literal, $($field:ident).+, $help:literal, $example:literal) => {
        Key {
            name: $name,
            help: $help,
            example: $example,
            read: |settings, given| {
                settings.$($field).+ = Value::read(given)?;
                Ok(())
            },
            write: |settings| settings.$($field).+.write(),
        }
    };
}

/// Tells whether a browser could write this into `Origin`: a scheme, a host, perhaps a port.
fn is_origin(text: &str) -> bool {
    let host = ["https://", "http://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    let is_plain =
        |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b':' | b'[' | b']');
    text == "*" || host.is_some_and(|host| !host.is_empty() && host.bytes().all(is_plain))
}

/// All keys; those of a table stand together.
pub(super) static KEYS: &[Key] = &[
    key!(
        "data",
        data,
        "The folder that everything is kept in. A relative path in a file starts at the file's folder."
    ),
    key!(
        "listen",
        server.listen,
        "Where clients connect. Port 0 lets the system choose one."
    ),
    key!(
        "public_url",
        server.public_url,
        "The relay's address as clients know it. AUTH (NIP-42) and requests to vanish (NIP-62) are compared with it; while it is unset, only the listen address and localhost mean this relay.",
        "\"wss://relay.example.com\""
    ),
    Key {
        name: "cors_origins",
        help: "Whose pages may use plugins' routes from a browser: origins, or \"*\" for all. The relay itself may be used by all.",
        example: "",
        read: |settings, given| {
            let origins: Vec<String> = Value::read(given)?;
            for origin in &origins {
                if !is_origin(origin) {
                    return Err(format!(
                        "`{origin}` is no origin: expected \"*\", or one like \"https://app.example.com\""
                    ));
                }
            }
            settings.cors_origins = origins;
            Ok(())
        },
        write: |settings| settings.cors_origins.write(),
    },
    key!(
        "workers",
        server.workers,
        "How many worker threads serve clients; unset means one per core.",
        "4"
    ),
    key!(
        "relay_key",
        relay_key,
        "The relay's own secret key in hex. Unset, it is made at the first start and kept in relay.key in the data folder.",
        "\"<64 hex digits>\""
    ),
    key!(
        "trusted_proxies",
        server.trusted_proxies,
        "Proxies whose X-Forwarded-For is believed: IP addresses or ranges."
    ),
    key!(
        "connections_max",
        server.connections_max,
        "Connections open at the same time."
    ),
    key!(
        "connections_per_address",
        server.connections_per_address_max,
        "Connections open at the same time from one address (IPv6: from one /64)."
    ),
    key!(
        "unlimited_addresses",
        server.unlimited_addresses,
        "Addresses that the limit per address and the rates leave alone."
    ),
    key!(
        "tls.certificate",
        certificate.certificate,
        "A file with the certificate that clients are shown, in PEM, followed by those that vouch for it. With it the listen address speaks TLS, HTTP/2 too. A new one is taken when the file changes, within a minute, or at SIGHUP.",
        "\"/etc/letsencrypt/live/relay.example.com/fullchain.pem\""
    ),
    key!(
        "tls.key",
        certificate.key,
        "A file with the certificate's private key, in PEM.",
        "\"/etc/letsencrypt/live/relay.example.com/privkey.pem\""
    ),
    key!(
        "information.name",
        server.information.name,
        "The relay's name; under 30 characters.",
        "\"Our relay\""
    ),
    key!(
        "information.description",
        server.information.description,
        "What the relay is for.",
        "\"For the members of our club.\""
    ),
    key!(
        "information.pubkey",
        server.information.pubkey,
        "The administrator's public key in hex.",
        "\"<64 hex digits>\""
    ),
    key!(
        "information.contact",
        server.information.contact,
        "Another way to reach the administrator: a URI.",
        "\"mailto:admin@example.com\""
    ),
    key!(
        "information.icon",
        server.information.icon,
        "The address of a square picture.",
        "\"https://example.com/icon.png\""
    ),
    key!(
        "information.banner",
        server.information.banner,
        "The address of a wide picture.",
        "\"https://example.com/banner.png\""
    ),
    key!(
        "information.terms_of_service",
        server.information.terms_of_service,
        "The address of the terms of service.",
        "\"https://example.com/terms\""
    ),
    key!(
        "limits.message_bytes_max",
        server.limits.message_bytes_max,
        "Bytes of one message; a longer one ends the connection."
    ),
    key!(
        "limits.event_bytes_max",
        server.limits.event_bytes_max,
        "Bytes of one event. Real follow lists have 450 kB."
    ),
    key!(
        "limits.tags_max",
        server.limits.tags_max,
        "Tags of one event. Real follow lists have 6,000."
    ),
    key!(
        "limits.content_characters_max",
        server.limits.content_characters_max,
        "Characters of one event's content."
    ),
    key!(
        "limits.subscriptions_max",
        server.limits.subscriptions_max,
        "Subscriptions of one connection."
    ),
    key!(
        "limits.filters_max",
        server.limits.filters_max,
        "Filters of one REQ or COUNT."
    ),
    key!(
        "limits.filter_values_max",
        server.limits.filter_values_max,
        "Ids, authors, kinds and tag values in all filters of one REQ or COUNT."
    ),
    key!(
        "limits.answer_events_default",
        server.limits.query.default,
        "Stored events that a filter without limit returns."
    ),
    key!(
        "limits.answer_events_max",
        server.limits.query.max,
        "Stored events that a filter returns at most."
    ),
    key!(
        "limits.created_at_ahead_seconds_max",
        server.limits.created_at_ahead_seconds_max,
        "How far in the future an event's time may be."
    ),
    key!(
        "limits.created_at_behind_seconds_max",
        server.limits.created_at_behind_seconds_max,
        "How far in the past an event's time may be; unset means any.",
        "94608000"
    ),
    key!(
        "limits.pending_live_max",
        server.limits.pending_live_max,
        "New events that may wait for one subscription's stored answer to end."
    ),
    key!(
        "limits.auth_window_seconds",
        server.limits.auth_window_seconds,
        "How far an AUTH's time may be from our clock."
    ),
    key!(
        "limits.auth_keys_max",
        server.limits.auth_keys_max,
        "Keys that may authenticate on one connection."
    ),
    key!(
        "limits.queued_bytes_max",
        server.queued_bytes_max,
        "Bytes of live events that may wait for one client before it is closed as too slow."
    ),
    key!(
        "limits.publications_in_flight_max",
        server.publications_in_flight_max,
        "Events of one connection that may be on their way to the store before it is read on."
    ),
    key!(
        "timeouts.header_seconds",
        server.header_timeout,
        "How long a client may take to send a request's headers."
    ),
    key!(
        "timeouts.http_seconds",
        server.http_timeout,
        "How long nothing may move on an HTTP connection before it is closed."
    ),
    key!(
        "timeouts.handler_seconds",
        server.handler_timeout,
        "How long a plugin or policy may take for one request or event."
    ),
    key!(
        "timeouts.ping_seconds",
        server.ping_interval,
        "After how long a silence a client is pinged; it has as long again to answer."
    ),
    key!(
        "timeouts.close_seconds",
        server.close_timeout,
        "How long a closing connection may take to say goodbye."
    ),
    key!(
        "timeouts.drain_seconds",
        server.drain_timeout,
        "How long a shutdown waits for writes and goodbyes."
    ),
    key!(
        "store.url",
        store_url,
        "The PostgreSQL database that the store is in; several nodes can share one. Unset, the store is in the data folder.",
        "\"postgres://hikyaku@127.0.0.1/hikyaku\""
    ),
    key!(
        "store.read_url",
        store_read_url,
        "A replica of that database to read from. What it does not have yet is read from store.url, and everything while it is away.",
        "\"postgres://hikyaku@replica.example.com/hikyaku\""
    ),
    key!(
        "store.schema",
        store_schema,
        "The database's schema that everything is in: a relay of its own under each name."
    ),
    key!(
        "store.tag_names",
        store_tag_names,
        "Tags that filters can ask for beside those named by a single letter: [\"title\"] is for filters with \"#title\". With a store in PostgreSQL; what was stored before is indexed in the background."
    ),
    key!(
        "store.connections_per_worker",
        store_connections_per_worker,
        "Connections to the database that one worker may use for reading at the same time. A node has four more."
    ),
    key!(
        "store.statement_seconds",
        store_statement_timeout,
        "How long one of the database's statements may take."
    ),
    key!(
        "store.durability",
        durability,
        "When an OK is sent. \"sync\": after the disk has the event, so that a power cut loses nothing. \"interval\": as soon as the operating system has it; a power cut may lose the last moment."
    ),
    key!(
        "store.sync_interval_ms",
        sync_interval_ms,
        "With durability \"interval\": within how many milliseconds the disk follows."
    ),
    key!(
        "store.purge_seconds_max",
        purge_seconds_max,
        "Within how many seconds events that were vanished (NIP-62) or deleted by the operator are rewritten out of the log."
    ),
    key!(
        "store.sweep_seconds",
        server.sweep_interval,
        "How often expired events (NIP-40) are removed. They are never served, swept or not."
    ),
    key!(
        "rates.events_per_address",
        server.rates.events_per_address.per_minute,
        "Events a minute that one address (IPv6: one /64) may publish on the long run. Addresses of unlimited_addresses have no rate."
    ),
    key!(
        "rates.events_per_address_burst",
        server.rates.events_per_address.burst,
        "Events that one address may publish at once after a pause."
    ),
    key!(
        "rates.events_per_key",
        server.rates.events_per_key.per_minute,
        "Events a minute that one key may publish on the long run."
    ),
    key!(
        "rates.events_per_key_burst",
        server.rates.events_per_key.burst,
        "Events that one key may publish at once after a pause."
    ),
    key!(
        "rates.queries_per_address",
        server.rates.queries_per_address.per_minute,
        "REQs and COUNTs a minute that one address may send on the long run."
    ),
    key!(
        "rates.queries_per_address_burst",
        server.rates.queries_per_address.burst,
        "REQs and COUNTs that one address may send at once after a pause."
    ),
    key!(
        "rates.logins_per_address",
        server.rates.logins_per_address.per_minute,
        "Sessions a minute that browsers of one address may begin on the long run (sessions.enabled)."
    ),
    key!(
        "rates.logins_per_address_burst",
        server.rates.logins_per_address.burst,
        "Sessions that browsers of one address may begin at once after a pause."
    ),
    key!(
        "policy.keys_allowed",
        policies.keys_allowed,
        "Keys that may write; none means all."
    ),
    key!(
        "policy.keys_denied",
        policies.keys_denied,
        "Keys that may not write."
    ),
    key!(
        "policy.kinds_allowed",
        policies.kinds_allowed,
        "Kinds that may be written, and ranges of them; none means all."
    ),
    key!(
        "policy.kinds_denied",
        policies.kinds_denied,
        "Kinds that may not be written."
    ),
    key!(
        "policy.words_denied",
        policies.words_denied,
        "Texts that no event's content may have in it, in whatever case."
    ),
    key!(
        "policy.addresses_allowed",
        policies.addresses_allowed,
        "Addresses and ranges of addresses that may write; none means all."
    ),
    key!(
        "policy.addresses_denied",
        policies.addresses_denied,
        "Addresses that may not write."
    ),
    key!(
        "policy.work",
        policies.work,
        "Bits of work that events must show (NIP-13), by kind, as in [\"1=16\", \"*=8\"]; the first that has an event's kind counts."
    ),
    key!(
        "policy.members",
        policies.members,
        "Keys that are members, and alone may write; none means that there are no members."
    ),
    key!(
        "policy.members_invite",
        policies.members_invite,
        "Whether members may invite others, who then are members too (NIP-43)."
    ),
    key!(
        "policy.invitation_seconds",
        policies.invitation_time,
        "How long an invitation is good, however many use it."
    ),
    key!(
        "policy.members_read",
        policies.members_read,
        "Whether only members may read, too."
    ),
    key!(
        "policy.trust_roots",
        policies.trust_roots,
        "Keys whose follow lists say who may write; none means that it is not asked."
    ),
    key!(
        "policy.trust_depth",
        policies.trust_depth,
        "How many steps from them: 1 is whom they follow, 2 also whom these follow; at most 4."
    ),
    key!(
        "policy.trusted_max",
        policies.trusted_max,
        "How many keys the web of trust has at most: it bounds the memory, at some 200 bytes for each."
    ),
    key!(
        "policy.account_age_seconds",
        policies.account_age,
        "How long ago a key must have tried to write for the first time. Unset, it is not asked.",
        "3600"
    ),
    key!(
        "policy.script",
        policies.script,
        "The command of a write-policy plugin that was made for strfry.",
        "\"/etc/hikyaku/policy.py\""
    ),
    key!(
        "policy.script_seconds",
        policies.script_timeout,
        "How long the plugin may take for one event before it is killed and started again."
    ),
    key!(
        "policy.script_failure",
        policies.script_failure,
        "What becomes of an event that the plugin gives no answer to: \"refuse\" or \"accept\"."
    ),
    key!(
        "members.keep",
        keep_members,
        "Whether it is taken down when each key was last here and how many events of which kind it wrote."
    ),
    key!(
        "members.footprints_max",
        footprints.visitors_max,
        "How many visitors of a member's page are kept, of members who have switched footprints on: 1 to 60."
    ),
    key!(
        "members.footprints_seconds_max",
        footprints.seconds_max,
        "After how many seconds a footprint is gone."
    ),
    key!(
        "sessions.enabled",
        sessions.enabled,
        "Whether browsers can log in, with a request that their key has signed (NIP-98; an extension does that), and have a session then."
    ),
    Key {
        name: "sessions.lifetime_seconds",
        help: "How long after its login a session ends; at most 400 days, as browsers have it.",
        example: "",
        read: |settings, given| {
            let lifetime = Value::read(given)?;
            if lifetime > SessionOptions::LIFETIME_MAX {
                return Err("expected at most 34560000 seconds, 400 days".to_owned());
            }
            settings.sessions.options.lifetime = lifetime;
            Ok(())
        },
        write: |settings| settings.sessions.options.lifetime.write(),
    },
    Key {
        name: "sessions.path",
        help: "The path where browsers log in and out.",
        example: "",
        read: |settings, given| {
            let path: String = Value::read(given)?;
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
            if !path.starts_with('/') || path == "/" || !path.bytes().all(plain) {
                return Err("expected a path like \"/session\"".to_owned());
            }
            settings.sessions.options.path = path;
            Ok(())
        },
        write: |settings| settings.sessions.options.path.write(),
    },
    key!(
        "tables.open",
        tables.open,
        "Tables that are served beside the relay over memcached's and Tokyo Tyrant's protocols: names and tables; the first is the default table. None: none are served."
    ),
    key!(
        "tables.listen",
        tables.listen,
        "Where clients of the tables connect. An address that is not loopback needs a token.",
        "\"127.0.0.1:11211\""
    ),
    key!(
        "tables.unix",
        tables.unix,
        "A Unix socket for clients of the tables, which only the server's own user may open.",
        "\"/run/hikyaku/tables.sock\""
    ),
    key!(
        "tables.token",
        tables.token,
        "What clients of the tables must present first over TCP.",
        "\"<a long random text>\""
    ),
    key!(
        "tables.log",
        tables.logging,
        "Whether updates of the tables are logged: \"none\"; \"async\": nobody waits, and a power cut takes the last moment; \"sync\": answers wait for the disk."
    ),
    key!(
        "tables.server_id",
        tables.server_id,
        "This server's number in update logs, from 1: each server of a pair or chain has its own."
    ),
    key!(
        "tables.log_bytes",
        tables.log_bytes,
        "Bytes of the tables' update log that are kept for followers and restores; what a recovery needs is kept whatever this is."
    ),
    Key {
        name: "tables.log_file_bytes",
        help: "Bytes of each of its files, 65536 to 1073741824; the oldest goes as a whole.",
        example: "",
        read: |settings, given| {
            let bytes = Value::read(given)?;
            if !(LOG_FILE_BYTES_MIN..=LOG_FILE_BYTES_MAX).contains(&bytes) {
                return Err("expected 65536 to 1073741824 bytes".to_owned());
            }
            settings.tables.log_file_bytes = bytes;
            Ok(())
        },
        write: |settings| settings.tables.log_file_bytes.write(),
    },
    key!(
        "tables.follow",
        tables.follow,
        "Another table server whose update log is followed, live, from where it stopped; needs a log here too.",
        "\"10.0.0.2:11211\""
    ),
    key!(
        "tables.follow_token",
        tables.follow_token,
        "What that server wants to be told first.",
        "\"<its tables.token>\""
    ),
    key!(
        "tables.follow_since",
        tables.follow_since_us,
        "Microseconds since 1970 from which on it is followed for the first time; 0: from the beginning of its log."
    ),
    key!(
        "tables.copies",
        tables.copies,
        "A folder that clients of Tokyo Tyrant's protocol may have copies of tables written to.",
        "\"/backup/tables\""
    ),
    key!(
        "tables.restores",
        tables.restores,
        "The folder of the update logs that they may have restored, each in a folder of its own.",
        "\"/backup/logs\""
    ),
    key!(
        "tables.workers",
        tables.workers,
        "Threads that serve tables; unset means one for each core.",
        "2"
    ),
    key!(
        "tables.connections_max",
        tables.connections_max,
        "Connections of the tables' clients open at the same time."
    ),
    key!(
        "tables.value_bytes_max",
        tables.value_bytes_max,
        "Bytes of one value that a client of the tables may send."
    ),
    key!(
        "tables.idle_timeout",
        tables.idle_timeout,
        "Seconds that a connection of theirs may be silent; unset means any time.",
        "3600"
    ),
    key!(
        "metrics.listen",
        server.metrics_listen,
        "Where Prometheus reads the metrics; unset means nowhere. Keep it away from the public.",
        "\"127.0.0.1:9777\""
    ),
    key!(
        "metrics.requests",
        server.measure_requests,
        "Whether it is measured what requests cost, by their shape: what `hikyaku slow` and `hikyaku top` show."
    ),
    key!(
        "log.filter",
        log_filter,
        "Which lines are logged: error, warn, info, debug or trace; or by part, like \"warn,hikyaku_server=debug\"."
    ),
    key!(
        "log.format",
        log_format,
        "\"text\" for people, \"json\" for programs."
    ),
    key!(
        "access_log.path",
        access_log.path,
        "The file that each HTTP request is written to, and each WebSocket's opening and end; \"-\" is standard error. Unset, nothing is written. It is opened again at SIGHUP.",
        "\"/var/log/hikyaku/access.log\""
    ),
    key!(
        "access_log.format",
        access_log.format,
        "\"combined\" as web servers write it, or \"json\"."
    ),
];
