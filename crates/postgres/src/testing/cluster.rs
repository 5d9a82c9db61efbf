//! A temporary PostgreSQL server, made from the installed binaries.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// Keeps a cluster until its input ends, which it does however its parent ends; so nothing is left
/// behind, not even by `kill -9`. Says the folder first. Commands come as lines.
const KEEPER: &str = r#"
bin=$1; port=$2; source=$3; shift 3
folder=$(mktemp -d /tmp/hikyaku-postgres.XXXXXX) || exit 1
end() { "$bin/pg_ctl" -D "$folder/data" -m immediate -w stop >/dev/null 2>&1; rm -rf "$folder"; }
trap end EXIT
trap '' INT TERM HUP
if [ "$source" = 0 ]; then
  "$bin/initdb" -D "$folder/data" -A trust -U postgres -E UTF8 --locale=C --no-sync
else
  "$bin/pg_basebackup" -h 127.0.0.1 -p "$source" -U postgres -D "$folder/data" -R -c fast --no-sync
fi >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
if [ -n "$SERVER_KEY" ]; then
  printf '%s' "$SERVER_KEY" >"$folder/data/server.key"; chmod 600 "$folder/data/server.key"
  printf '%s' "$SERVER_CERTIFICATE" >"$folder/data/server.crt"
fi
printf '%s\n' "listen_addresses = '127.0.0.1'" "port = $port" \
  "unix_socket_directories = '$folder'" "fsync = off" "full_page_writes = off" \
  "max_connections = 200" "log_min_messages = warning" "$@" >>"$folder/data/postgresql.conf"
start() { "$bin/pg_ctl" -D "$folder/data" -l "$folder/log" -w -t 60 start >/dev/null 2>&1; }
start || { cat "$folder/log" >&2; exit 1; }
echo "$folder"
while read -r command argument; do
  case $command in
    revive) "$bin/pg_ctl" -D "$folder/data" -m immediate -w stop >/dev/null 2>&1; start ;;
    log_on) mv "$folder/data/pg_wal" "$argument/pg_wal" && ln -s "$argument/pg_wal" "$folder/data/pg_wal" ;;
    kill) "$bin/pg_ctl" -D "$folder/data" -m immediate -w stop >/dev/null 2>&1 ;;
    stop) "$bin/pg_ctl" -D "$folder/data" -m fast -w stop >/dev/null 2>&1 ;;
    start) start ;;
    promote) "$bin/pg_ctl" -D "$folder/data" -w promote >/dev/null 2>&1 ;;
  esac
  echo "done $?"
done
"#;

/// A temporary server on a free port of 127.0.0.1. It ends with the process at the latest.
pub struct Cluster {
    keeper: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<std::process::ChildStdout>,
    port: u16,
    folder: String,
}

impl Cluster {
    /// Starts a server with these lines in its configuration beside the usual.
    ///
    /// # Panics
    /// Without PostgreSQL's binaries, and if the server does not start.
    pub fn start(settings: &[&str]) -> Self {
        Self::keep(settings, 0, &[])
    }

    /// Starts a server that speaks TLS with a certificate and its key, both as PEM.
    ///
    /// # Panics
    /// As [`Cluster::start`] does.
    pub fn start_with_certificate(certificate: &str, key: &str) -> Self {
        let files = [("SERVER_CERTIFICATE", certificate), ("SERVER_KEY", key)];
        Self::keep(&["ssl = on"], 0, &files)
    }

    /// Starts a server that follows another one, beginning with a copy of it.
    ///
    /// # Panics
    /// As [`Cluster::start`] does.
    #[must_use]
    pub fn replica(&self, settings: &[&str]) -> Self {
        Self::keep(settings, self.port, &[])
    }

    fn keep(settings: &[&str], source: u16, environment: &[(&str, &str)]) -> Self {
        let bin = binaries();
        let port = free_port();
        let mut command = if is_root() {
            // PostgreSQL refuses to run as root.
            let mut command = Command::new("setpriv");
            let user = unprivileged();
            command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "sh"]);
            command
        } else {
            Command::new("sh")
        };
        command
            .args(["-c", KEEPER, "keeper", &bin, &port.to_string()])
            .arg(source.to_string())
            .args(settings)
            .envs(environment.iter().copied())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut keeper = command.spawn().expect("a shell starts");
        let commands = keeper.stdin.take();
        let mut answers = BufReader::new(keeper.stdout.take().unwrap());
        let mut folder = String::new();
        answers.read_line(&mut folder).unwrap();
        assert!(
            !folder.trim().is_empty(),
            "PostgreSQL did not start; see above"
        );
        Self {
            keeper,
            commands,
            answers,
            port,
            folder: folder.trim().to_owned(),
        }
    }

    /// Returns the address of the server's database.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns the port that it listens on, at 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Makes a replica a server that is written to.
    pub fn promote(&mut self) {
        self.command("promote");
    }

    /// Ends the server at once, as a crash would.
    pub fn kill(&mut self) {
        self.command("kill");
    }

    /// Starts the server again.
    pub fn restart(&mut self) {
        self.command("start");
    }

    /// Ends the server in order.
    pub fn stop(&mut self) {
        self.command("stop");
    }

    /// Starts the server again, whether it is still there or has given up.
    pub fn revive(&mut self) {
        self.command("revive");
    }

    /// Moves the write-ahead log of a server that is not running to another folder.
    pub fn log_on(&mut self, folder: &str) {
        self.command(&format!("log_on {folder}"));
    }

    /// Replaces a file in the server's data folder.
    pub fn file(&self, name: &str, text: &str) {
        let text = text.trim_end().replace('\'', "''");
        self.sql(&format!(
            "DO $do$ BEGIN EXECUTE format('COPY (SELECT unnest(string_to_array(%L, E''\\n''))) TO %L', \
             '{text}', current_setting('data_directory') || '/{name}'); END $do$"
        ));
    }

    /// Returns the server's log.
    pub fn log(&self) -> String {
        output("cat", &[&format!("{}/log", self.folder)])
    }

    /// Runs a statement as the administrator; returns what psql prints.
    pub fn sql(&self, sql: &str) -> String {
        let psql = format!("{}/psql", binaries());
        output(
            &psql,
            &["-XqAt", "-v", "ON_ERROR_STOP=1", "-c", sql, &self.url()],
        )
    }

    /// Runs a statement in a transaction that stays open until what is returned is dropped.
    pub fn hold(&self, sql: &str) -> Held {
        use std::io::Write;
        let mut psql = Command::new(format!("{}/psql", binaries()))
            .args(["-XqAt", &self.url()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut commands = psql.stdin.take().unwrap();
        writeln!(commands, "BEGIN; {sql}; SELECT 'held';").unwrap();
        let mut answers = BufReader::new(psql.stdout.take().unwrap());
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim(), "held");
        Held(psql, Some(commands))
    }

    fn command(&mut self, command: &str) {
        use std::io::Write;
        let commands = self.commands.as_mut().unwrap();
        writeln!(commands, "{command}").unwrap();
        commands.flush().unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim(), "done 0", "{command}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.keeper.wait();
    }
}

/// A transaction that is kept open.
pub struct Held(Child, Option<ChildStdin>);

impl Drop for Held {
    fn drop(&mut self) {
        // psql ends with its input, and the transaction with it.
        drop(self.1.take());
        let _ = self.0.wait();
    }
}

/// Returns the address of a server that all tests of this process share, and a schema's name that no
/// other test has.
pub fn shared() -> (String, String) {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);
    // A static is never dropped; the keeper ends with the process.
    let cluster = SHARED.get_or_init(|| Cluster::start(&["shared_buffers = 64MB"]));
    let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
    (cluster.url(), format!("test_{number}"))
}

/// Returns the folder of the newest installed binaries.
fn binaries() -> String {
    let find = "for pg in $(ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -rV) \
                $(command -v initdb); do dirname \"$pg\"; done | head -n 1";
    let folder = output("sh", &["-c", find]);
    assert!(
        !folder.is_empty(),
        "no PostgreSQL is installed: these tests start a server of their own from its binaries; on \
         Debian, `apt-get install postgresql` or `make prerequisites`"
    );
    folder
}

pub(super) fn is_root() -> bool {
    output("id", &["-u"]) == "0"
}

pub(super) fn unprivileged() -> String {
    let postgres = output("id", &["-u", "postgres"]);
    if postgres.is_empty() {
        output("id", &["-u", "nobody"])
    } else {
        postgres
    }
}

pub(super) fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Returns a port of 127.0.0.1 that nobody has, below those that the system hands out by itself:
/// nobody who asks for any port, or connects, is given it before the server starts, or while it
/// restarts.
///
/// # Panics
/// If every port is taken.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Processes that run side by side begin far from one another.
    let first = std::process::id().wrapping_mul(97);
    (0..20_000)
        .map(|_| first.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)))
        .map(|number| u16::try_from(10_000 + number % 20_000).unwrap())
        .find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        .expect("a port is free")
}
