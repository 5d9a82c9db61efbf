//! A PostgreSQL server of a test's own.

use std::{
    fs, io,
    net::TcpListener,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// A running server in a folder of its own.
pub(crate) struct Cluster {
    folder: TempDir,
    binaries: PathBuf,
    port: u16,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("hikyaku")
            .tempdir_in("/tmp")
            .unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let cluster = Self {
            binaries: newest_binaries(),
            folder,
            port,
        };
        let path = cluster.folder.path().to_str().unwrap().to_owned();
        if let Some((user, group)) = server_user() {
            chown(&path, Some(user), Some(group)).unwrap();
        }
        let data = format!("{path}/data");
        cluster.run(
            "initdb",
            &[
                "-D",
                &data,
                "-U",
                "postgres",
                "-A",
                "trust",
                "--no-sync",
                "-E",
                "UTF8",
                "--locale=C",
            ],
        );
        let options = format!("-p {port} -k {path} -c listen_addresses=127.0.0.1 -c fsync=off");
        cluster.run(
            "pg_ctl",
            &[
                "-D",
                &data,
                "-w",
                "-l",
                &format!("{path}/log"),
                "-o",
                &options,
                "start",
            ],
        );
        cluster
    }

    /// Makes a database, and returns its address.
    pub(crate) fn database(&self, name: &str) -> String {
        let port = self.port.to_string();
        self.run(
            "createdb",
            &["-h", "127.0.0.1", "-p", &port, "-U", "postgres", name],
        );
        format!("postgres://postgres@127.0.0.1:{port}/{name}")
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(self.binaries.join(program));
        command.args(arguments).current_dir(self.folder.path());
        if let Some((user, group)) = server_user() {
            command.uid(user).gid(group);
        }
        let log = self.folder.path().join("commands");
        command
            .stdout(fs::File::create(&log).unwrap())
            .stderr(fs::File::create(&log).unwrap());
        let status = command.status().unwrap();
        assert!(
            status.success(),
            "{program}: {}",
            fs::read_to_string(log).unwrap()
        );
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let data = self.folder.path().join("data");
        self.run(
            "pg_ctl",
            &["-D", data.to_str().unwrap(), "-m", "immediate", "stop"],
        );
    }
}

/// PostgreSQL refuses to run as root.
fn server_user() -> Option<(u32, u32)> {
    let number = |option, name: &[&str]| {
        let output = Command::new("id").arg(option).args(name).output().unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .trim()
            .parse::<u32>()
            .ok()
    };
    if number("-u", &[]) != Some(0) {
        return None;
    }
    Some((number("-u", &["postgres"])?, number("-g", &["postgres"])?))
}

fn newest_binaries() -> PathBuf {
    let versions = fs::read_dir(Path::new("/usr/lib/postgresql"));
    let found = versions.and_then(|versions| {
        versions
            .map(|version| Ok(version?.path().join("bin")))
            .collect::<io::Result<Vec<_>>>()
    });
    let mut found = found.unwrap_or_default();
    found.sort();
    found
        .pop()
        .expect("PostgreSQL is installed: apt-get install postgresql")
}
