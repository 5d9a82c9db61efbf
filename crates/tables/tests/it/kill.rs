//! A process that is killed while it updates tables on the real disk.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use hikyaku_tables::{Change, Stamp, Table, Update, open};
use hikyaku_vfs::{Disk, RealDisk};

const FOLDER: &str = "HIKYAKU_TABLES_KILLED";

fn table(folder: &Path, text: &str) -> Arc<dyn Table> {
    let disk: Disk = Arc::new(RealDisk);
    open(&disk, folder, text, None).unwrap()
}

/// The process that is killed: it puts numbers, and says each when it was answered.
#[test]
fn the_process_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let text = std::env::var("HIKYAKU_TABLES_TEXT").unwrap();
    let first: u64 = std::env::var("HIKYAKU_TABLES_FIRST")
        .unwrap()
        .parse()
        .unwrap();
    let table = table(Path::new(&folder), &text);
    for number in first.. {
        let value = number.to_string();
        let key = format!("key {}", number % 50);
        let update = Update::new(key.as_bytes(), Change::Put(value.as_bytes()));
        let stamp = Stamp {
            at_us: number,
            origin: 0,
        };
        table.update(&update, stamp).unwrap();
        writeln!(std::io::stdout(), "answered {number}").unwrap();
    }
}

#[test]
fn answered_updates_survive_kill_9_whatever_the_durability() {
    let folder = tempfile::tempdir().unwrap();
    for text in [
        "a.hash?durability=none",
        "b.ordered?durability=interval",
        "c.hash?durability=sync",
    ] {
        let mut last = 0_u64;
        for round in 1..4 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["kill::the_process_that_is_killed", "--exact", "--nocapture"])
                .env(FOLDER, folder.path())
                .env("HIKYAKU_TABLES_TEXT", text)
                .env("HIKYAKU_TABLES_FIRST", (last + 1).to_string())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut answered = 0;
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            for line in lines {
                let line = line.unwrap();
                if let Some(number) = line.strip_prefix("answered ") {
                    last = number.parse().unwrap();
                    answered += 1;
                    if answered == 200 * round {
                        // SIGKILL; what it had said until then is still in the pipe.
                        child.kill().unwrap();
                    }
                }
            }
            child.wait().unwrap();
            assert!(answered >= 200 * round, "{text}: {answered}");
            let table = table(folder.path(), text);
            for number in last.saturating_sub(49).max(1)..=last {
                let key = format!("key {}", number % 50);
                let mut value = Vec::new();
                table.get(key.as_bytes(), 0, &mut value).unwrap().unwrap();
                let found: u64 = std::str::from_utf8(&value).unwrap().parse().unwrap();
                // The one after the last may have been done and not said.
                assert!(
                    found == number || found == last + 1,
                    "{text}: {found}, not {number}"
                );
            }
            last += 1;
        }
    }
}
