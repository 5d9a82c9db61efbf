//! The directions in which the crates depend, and what must be absent from them. Read from the
//! manifests, the lock file and the sources themselves.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

/// Which of our crates each may depend on, from the lowest layer up. A new crate gets a line.
const LAYERS: [(&str, &[&str]); 16] = [
    ("vfs", &[]),
    ("observe", &[]),
    ("schnorr", &[]),
    ("event", &["schnorr"]),
    ("store", &["event"]),
    ("engine", &["event", "store", "vfs"]),
    ("address", &[]),
    ("postgres", &["address", "event", "store", "observe"]),
    ("tables", &["vfs"]),
    ("table-server", &["tables", "vfs", "observe"]),
    ("members", &["event", "tables"]),
    ("relay", &["event", "store"]),
    (
        "server",
        &[
            "address", "event", "store", "tables", "members", "relay", "observe",
        ],
    ),
    ("policies", &["event", "store", "tables", "server"]),
    ("sources", &["address", "event"]),
    (
        "hikyaku",
        // bench/ measures from outside: it shares no code with what it judges.
        &[
            "bench",
            "event",
            "vfs",
            "store",
            "engine",
            "postgres",
            "tables",
            "table-server",
            "members",
            "relay",
            "server",
            "policies",
            "sources",
            "observe",
        ],
    ),
];

/// The crates that take the time, randomness and threads of control from their callers.
const BELOW_SERVER: [&str; 9] = [
    "vfs", "observe", "schnorr", "event", "store", "engine", "tables", "members", "relay",
];

/// Asynchronous runtimes, and what they are made of.
const RUNTIMES: [&str; 9] = [
    "tokio",
    "mio",
    "async-std",
    "async-io",
    "async-executor",
    "smol",
    "compio",
    "monoio",
    "glommio",
];

/// Sources of randomness.
const RANDOM: [&str; 5] = ["rand", "rand_core", "getrandom", "fastrand", "oorandom"];

/// Files of the program itself that open files: its configuration, an import's input, kept
/// figures, what the system tells in files, the modes of sockets, and whether a script can be run.
const OPENING_FILES: [&str; 7] = [
    "policies/src/config.rs",
    "table-server/src/socket.rs",
    "hikyaku/src/configuration/effective.rs",
    "hikyaku/src/origin.rs",
    "hikyaku/src/control/server.rs",
    "hikyaku/src/requests/kept.rs",
    "hikyaku/src/doctor/system.rs",
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn table(path: &Path) -> Table {
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// Returns what a crate needs to be built and to run; tests may use what they like.
fn dependencies(name: &str) -> BTreeSet<String> {
    let manifest = table(&workspace().join("crates").join(name).join("Cargo.toml"));
    ["dependencies", "build-dependencies"]
        .iter()
        .filter_map(|section| manifest.get(*section)?.as_table())
        .flat_map(|section| section.keys().cloned())
        .collect()
}

/// Returns every package that a crate is built with, by the lock file.
fn closure(name: &str) -> BTreeSet<String> {
    let lock = table(&workspace().join("Cargo.lock"));
    let mut needed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in lock["package"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap().to_owned();
        let of = package.get("dependencies").and_then(Value::as_array);
        needed.entry(name).or_default().extend(
            of.into_iter()
                .flatten()
                .filter_map(|text| text.as_str()?.split(' ').next().map(str::to_owned)),
        );
    }
    let mut found = BTreeSet::new();
    let mut open: Vec<_> = dependencies(name).into_iter().collect();
    while let Some(package) = open.pop() {
        if !found.insert(package.clone()) {
            continue;
        }
        // The lock file mixes our crates' tests in; their manifests do not.
        match package.strip_prefix("hikyaku-") {
            Some(ours) => open.extend(dependencies(ours)),
            None => open.extend(needed.get(&package).into_iter().flatten().cloned()),
        }
    }
    found
}

/// Returns the sources of a crate without their tests' modules: path below `crates`, and lines of
/// code without comments.
fn sources(name: &str) -> Vec<(String, Vec<String>)> {
    let crates = workspace().join("crates");
    let mut folders = vec![crates.join(name).join("src")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let below = path.strip_prefix(&crates).unwrap();
                found.push((below.to_str().unwrap().to_owned(), code(&text)));
            }
        }
    }
    assert!(!found.is_empty(), "{name} has no sources");
    found
}

fn code(text: &str) -> Vec<String> {
    let body = text.split("#[cfg(test)]\nmod ").next().unwrap();
    body.lines()
        .map(|line| line.split("//").next().unwrap().trim().to_owned())
        .collect()
}

/// Tells whether a line of code has the word: not as a part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        !is_part(line[..at].chars().next_back()) && !is_part(line[at + word.len()..].chars().next())
    })
}

/// Returns where a crate's sources have one of the words.
fn places(name: &str, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, lines) in sources(name) {
        for (index, line) in lines.iter().enumerate() {
            for word in words.iter().filter(|word| has_word(line, word)) {
                found.push(format!("{path}:{}: {word}", index + 1));
            }
        }
    }
    found
}

#[test]
fn crates_depend_downwards_only() {
    let mut crates: Vec<_> = fs::read_dir(workspace().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    crates.sort();
    let mut placed: Vec<_> = LAYERS.iter().map(|(name, _)| *name).collect();
    placed.sort_unstable();
    assert_eq!(crates, placed, "every crate has its layer");
    for (name, allowed) in LAYERS {
        for dependency in dependencies(name) {
            if let Some(ours) = dependency.strip_prefix("hikyaku-") {
                assert!(allowed.contains(&ours), "{name} depends on {ours}");
            }
        }
    }
}

#[test]
fn files_are_opened_only_through_vfs() {
    let doors = ["fs", "File::open", "File::create", "OpenOptions"];
    for (name, _) in LAYERS {
        // What vfs is for; `fs` there is also a part of rustix.
        if name == "vfs" {
            continue;
        }
        let mut found = places(name, &doors);
        found.retain(|place| !OPENING_FILES.iter().any(|path| place.starts_with(path)));
        assert_eq!(found, [""; 0]);
    }
}

#[test]
fn nothing_below_the_server_reads_a_clock_or_randomness() {
    for name in BELOW_SERVER {
        let mut words = vec!["SystemTime", "UNIX_EPOCH", "clock_gettime"];
        words.extend(RANDOM);
        if name != "engine" {
            // The engine measures the interval of its syncs, which is no time of day.
            words.push("Instant");
        }
        assert_eq!(places(name, &words), [""; 0]);
        let random: Vec<_> = dependencies(name)
            .into_iter()
            .filter(|dependency| RANDOM.contains(&dependency.as_str()))
            .collect();
        assert_eq!(random, [""; 0], "{name}");
    }
}

#[test]
fn nothing_below_the_server_has_an_async_runtime() {
    for name in BELOW_SERVER {
        let runtimes: Vec<_> = closure(name)
            .into_iter()
            .filter(|dependency| RUNTIMES.contains(&dependency.as_str()))
            .collect();
        assert_eq!(runtimes, [""; 0], "{name}");
    }
    assert!(
        closure("server").contains("tokio"),
        "the check sees nothing"
    );
}

#[test]
fn the_two_stores_never_name_each_other() {
    for (one, other) in [("engine", "postgres"), ("postgres", "engine")] {
        if workspace().join("crates").join(one).exists() {
            let names = [other, &format!("hikyaku_{other}")];
            assert_eq!(places(one, &names), [""; 0]);
        }
    }
}

#[test]
fn the_checks_see_words_and_nothing_else() {
    assert!(has_word("use std::fs;", "fs"));
    assert!(has_word("fs::read(path)", "fs"));
    assert!(!has_word("let prefs = vfs::open();", "fs"));
    assert_eq!(
        code("let a = 1; // fs\n#[cfg(test)]\nmod tests {\n fs }").len(),
        1
    );
}
