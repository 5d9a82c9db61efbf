//! The text itself: `presence.fixed?width=16&limit=1g`, `names.hash`, `scores.ordered`, `*`.

use std::{fmt, str::FromStr};

use super::{
    names::{check_file, suggestion},
    size,
};
use crate::{Kind, TableError};

/// The name of a table in memory, as Tokyo Cabinet's abstract database has it.
const IN_MEMORY: &str = "*";

/// The kinds on disk, by the ending of their file.
const ENDINGS: [(&str, Kind); 3] = [
    ("fixed", Kind::Fixed),
    ("hash", Kind::Hash),
    ("ordered", Kind::Ordered),
];

/// Which table, and with which options. It is read from and written as one line of text:
///
/// ```text
/// NAME.fixed?width=16&limit=1g      an array of records of 16 bytes
/// NAME.hash, NAME.ordered           ?limit=16g&value=1m&cache=64m&durability=interval&interval=1
/// *                                 ?limit=64m&value=1m
/// ```
///
/// Sizes are bytes, with `k`, `m`, `g` or `t` for powers of 1024.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSpec {
    /// The file's name in its folder, its kind's ending included; `*` in memory.
    pub file: String,
    /// The kind.
    pub kind: Kind,
    /// What was said about it.
    pub options: TableOptions,
}

/// What the text says about a table; what it does not has the kind's default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// `width`: bytes of a record of a fixed table.
    pub width: Option<usize>,
    /// `limit`: bytes of the whole table.
    pub limit: Option<u64>,
    /// `value`: bytes that a value may have (not fixed: there it is the width).
    pub value: Option<usize>,
    /// `cache`: bytes of memory for what is read and written often (hash and ordered).
    pub cache: Option<usize>,
    /// `durability`: when updates are durable (hash and ordered).
    pub durability: Option<Durability>,
    /// `interval`: seconds between syncs with [`Durability::Interval`].
    pub interval: Option<u64>,
}

/// What is durable when an update has been answered. Whatever it is, an answered update survives
/// the end of the process, `kill -9` included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// It survives a power cut.
    #[default]
    Sync,
    /// A power cut may take what came since the last sync, at most a given time ago.
    Interval,
    /// A power cut may take what came since somebody asked for a sync.
    None,
}

const DURABILITIES: [(&str, Durability); 3] = [
    ("sync", Durability::Sync),
    ("interval", Durability::Interval),
    ("none", Durability::None),
];

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = DURABILITIES
            .iter()
            .find(|(_, durability)| durability == self);
        f.write_str(name.map_or("sync", |(name, _)| name))
    }
}

/// Returns the options that a kind has.
const fn options_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Fixed => &["width", "limit"],
        Kind::Hash | Kind::Ordered => &["limit", "value", "cache", "durability", "interval"],
        Kind::Memory => &["limit", "value"],
    }
}

impl TableSpec {
    /// Returns the spec of a table in memory.
    pub fn in_memory() -> Self {
        Self {
            file: IN_MEMORY.to_owned(),
            kind: Kind::Memory,
            options: TableOptions::default(),
        }
    }
}

impl FromStr for TableSpec {
    type Err = TableError;

    fn from_str(text: &str) -> Result<Self, TableError> {
        let (file, options) = match text.split_once('?') {
            Some((file, options)) => (file, Some(options)),
            None => (text, None),
        };
        let kind = if file == IN_MEMORY {
            Kind::Memory
        } else {
            check_file(file)?;
            kind_of(file)?
        };
        let mut spec = Self {
            file: file.to_owned(),
            kind,
            options: TableOptions::default(),
        };
        for option in options.into_iter().flat_map(|options| options.split('&')) {
            let (name, value) = option.split_once('=').ok_or_else(|| {
                TableError::Syntax(format!("an option is NAME=VALUE, not {option:?}"))
            })?;
            spec.set(name, value)?;
        }
        Ok(spec)
    }
}

fn kind_of(file: &str) -> Result<Kind, TableError> {
    let (name, ending) = file.rsplit_once('.').unwrap_or((file, ""));
    let found = ENDINGS.iter().find(|(known, _)| *known == ending);
    match found {
        Some((_, kind)) if !name.is_empty() => Ok(*kind),
        _ => {
            let known: Vec<_> = ENDINGS.iter().map(|(ending, _)| *ending).collect();
            Err(TableError::Syntax(format!(
                "{file:?} does not say what kind of table it is: a name ends in .fixed, .hash or \
                 .ordered, or is * for a table in memory; {}",
                suggestion(ending, &known)
            )))
        }
    }
}

impl TableSpec {
    fn set(&mut self, name: &str, value: &str) -> Result<(), TableError> {
        let known = options_of(self.kind);
        if !known.contains(&name) {
            return Err(TableError::Syntax(format!(
                "there is no option {name:?} for {}: {}",
                self.file,
                suggestion(name, known)
            )));
        }
        let wrong = |what: &str| TableError::Syntax(format!("{name} is {what}, not {value:?}"));
        let bytes = || {
            let bytes = size::parse(value).filter(|&bytes| bytes > 0);
            bytes.ok_or_else(|| wrong("a number of bytes such as 16, 64m or 1g"))
        };
        let memory = || {
            usize::try_from(bytes()?).map_err(|_| wrong("a number of bytes that memory can have"))
        };
        let options = &mut self.options;
        let is_new = match name {
            "width" => options.width.replace(memory()?).is_none(),
            "limit" => options.limit.replace(bytes()?).is_none(),
            "value" => options.value.replace(memory()?).is_none(),
            "cache" => options.cache.replace(memory()?).is_none(),
            "durability" => {
                let found = DURABILITIES.iter().find(|(known, _)| *known == value);
                let (_, durability) = found.ok_or_else(|| wrong("sync, interval or none"))?;
                options.durability.replace(*durability).is_none()
            }
            _ => {
                let seconds = value.parse().ok().filter(|&seconds: &u64| seconds > 0);
                let seconds = seconds.ok_or_else(|| wrong("a number of seconds"))?;
                options.interval.replace(seconds).is_none()
            }
        };
        if !is_new {
            return Err(TableError::Syntax(format!("{name} is given twice")));
        }
        Ok(())
    }
}

impl fmt::Display for TableSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        let options = &self.options;
        let bytes = |bytes: Option<usize>| bytes.map(|bytes| size::print(bytes as u64));
        let said = [
            ("width", bytes(options.width)),
            ("limit", options.limit.map(size::print)),
            ("value", bytes(options.value)),
            ("cache", bytes(options.cache)),
            ("durability", options.durability.map(|it| it.to_string())),
            ("interval", options.interval.map(|it| it.to_string())),
        ];
        let mut before = '?';
        for (name, value) in said {
            if let Some(value) = value {
                write!(f, "{before}{name}={value}")?;
                before = '&';
            }
        }
        Ok(())
    }
}
