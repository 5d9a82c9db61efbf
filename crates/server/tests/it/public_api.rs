//! What plugins are written against: a change of it is seen in a review, and not by their authors.
//!
//! `public-api.txt` beside each crate lists its public items as its sources have them, and which traits
//! its public types have.
//! `HIKYAKU_UPDATE=1 cargo test -p hikyaku-server --test it public_api` writes it anew.

use std::{collections::HashSet, fmt::Write, fs, path::Path};

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
    let sources: Vec<_> = files
        .into_iter()
        .map(|path| {
            let source = fs::read_to_string(&path).unwrap();
            let source = source
                .split("#[cfg(test)]\nmod ")
                .next()
                .unwrap()
                .to_owned();
            (path, source)
        })
        .collect();
    let named = |(_, source): &(_, String)| {
        let names = source.lines().filter_map(public_name).map(str::to_owned);
        names.collect::<Vec<_>>()
    };
    let public: HashSet<String> = sources.iter().flat_map(named).collect();
    let mut text = String::new();
    for (path, source) in sources {
        let items = items(&source) + &traits(&source, &public);
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

/// Returns the name of a type or a trait that a line makes public.
fn public_name(line: &str) -> Option<&str> {
    let mut kinds = ["pub struct ", "pub enum ", "pub trait "].iter();
    let rest = kinds.find_map(|kind| line.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric()).next()
}

/// Returns which traits public types have, and which types public traits, derived or written.
fn traits(source: &str, public: &HashSet<String>) -> String {
    let mut text = String::new();
    let mut derived = "";
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if let Some(list) = line.strip_prefix("#[derive(") {
            derived = list.trim_end_matches(")]");
        } else if let Some(name) = public_name(line).filter(|_| !derived.is_empty()) {
            writeln!(text, "    derive {derived} for {name}").unwrap();
        }
        if !line.starts_with("#[") && !line.starts_with("//") {
            if !line.starts_with("impl") {
                derived = "";
                continue;
            }
            let mut head = line.to_owned();
            while !head.ends_with(['{', '}']) {
                head += " ";
                head += lines.next().unwrap().trim();
            }
            let head = head.trim_end_matches(['{', '}', ' ']);
            let words: Vec<_> = head.split(|c: char| !c.is_alphanumeric()).collect();
            if head.contains(" for ") && words.iter().any(|word| public.contains(*word)) {
                writeln!(text, "    {head}").unwrap();
            }
        }
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
