//! What plugins are written against: a change of it is seen in a review, and not by their authors.
//!
//! `public-api.txt` beside each crate lists its public items as its sources have them.
//! `HIKYAKU_UPDATE=1 cargo test -p hikyaku-server --test it public_api` writes it anew.

use std::{fmt::Write, fs, path::Path};

/// Returns a crate's public items, by file: signatures, variants and fields, without their bodies.
fn listing(folder: &Path) -> String {
    let mut files = Vec::new();
    let mut folders = vec![folder.join("src")];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut text = String::new();
    for path in files {
        let source = fs::read_to_string(&path).unwrap();
        let items = items(source.split("#[cfg(test)]\nmod ").next().unwrap());
        if !items.is_empty() {
            let name = path.strip_prefix(folder).unwrap().display();
            writeln!(text, "{name}\n{items}").unwrap();
        }
    }
    text
}

fn items(source: &str) -> String {
    let mut text = String::new();
    let mut lines = source.lines().filter(|line| {
        let line = line.trim_start();
        !line.starts_with("//") && !line.starts_with("#[")
    });
    while let Some(line) = lines.next() {
        let start = line.trim_start();
        if !start.starts_with("pub ") || start.starts_with("pub mod ") {
            continue;
        }
        // An enum's and a trait's bodies are public as they stand.
        let whole = ["pub enum ", "pub trait "]
            .iter()
            .any(|word| start.starts_with(word));
        let indent = &line[..line.len() - start.len()];
        let mut item = start.to_owned();
        let is_field = !indent.is_empty() && start.ends_with(',');
        let ends = |line: &str| {
            if whole {
                line == format!("{indent}}}") || line.ends_with(';') && item_is_short(line, indent)
            } else {
                line.ends_with(['{', ';', '}']) || is_field
            }
        };
        let mut last = line;
        while !ends(last) {
            let Some(next) = lines.next() else { break };
            item += " ";
            item += next.trim();
            last = next;
        }
        writeln!(text, "    {}", item.trim_end_matches(['{', ' '])).unwrap();
    }
    text
}

fn item_is_short(line: &str, indent: &str) -> bool {
    !line.starts_with(&format!("{indent}    "))
}

#[test]
fn the_public_interface_is_the_listed_one() {
    let server = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in [server.to_owned(), server.join("../policies")] {
        let (path, now) = (folder.join("public-api.txt"), listing(&folder));
        if std::env::var_os("HIKYAKU_UPDATE").is_some() {
            fs::write(&path, &now).unwrap();
        }
        let listed = fs::read_to_string(&path).unwrap();
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let (listed, now) = (lines(&listed), lines(&now));
        let changes = (listed
            .iter()
            .filter(|line| !now.contains(line))
            .map(|line| format!("- {line}")))
        .chain(
            now.iter()
                .filter(|line| !listed.contains(line))
                .map(|line| format!("+ {line}")),
        );
        assert_eq!(listed, now, "{:#?}", changes.collect::<Vec<_>>());
    }
}
