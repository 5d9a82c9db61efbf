//! The effective configuration: each key's value, and who set it. A flag wins over the environment,
//! that over the file, that over the default.

use std::{
    env, fmt, fs, io,
    path::{Path, PathBuf},
};

use toml::de::{DeTable, DeValue};

use super::{
    keys::{KEYS, position},
    settings::Settings,
    value::Given,
};
use crate::failure::Failure;

/// The file that is read if none is named, from the working directory, if it is there.
const FILE_DEFAULT: &str = "hikyaku.toml";
/// Names the file instead of `--config`.
const FILE_VARIABLE: &str = "HIKYAKU_CONFIG";
const PREFIX: &str = "HIKYAKU_";
/// How alike (0 to 1) a known name must be to be suggested.
const ALIKE_MIN: f64 = 0.85;

/// Flags that override keys.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    /// `--config`.
    pub(crate) config: Option<PathBuf>,
    /// `--data`.
    pub(crate) data: Option<PathBuf>,
    /// `--store`.
    pub(crate) store: Option<String>,
    /// `--listen`.
    pub(crate) listen: Option<String>,
    /// `--tls-certificate`.
    pub(crate) tls_certificate: Option<String>,
    /// `--tls-key`.
    pub(crate) tls_key: Option<String>,
}

/// Who set a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody.
    Default,
    /// A line of the file.
    File(PathBuf, usize),
    /// A variable.
    Environment(String),
    /// A flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Environment(variable) => f.write_str(variable),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// The settings and where they are from.
#[derive(Debug)]
pub(crate) struct Effective {
    /// The settings.
    pub(crate) settings: Settings,
    /// One for each key, in the keys' order.
    origins: Vec<Origin>,
    /// Everything that is wrong.
    problems: Vec<String>,
    /// Variables that are no keys but look like one.
    pub(crate) warnings: Vec<String>,
}

/// One key with its value, for display.
pub(crate) struct Entry<'a> {
    /// The key.
    pub(crate) name: &'static str,
    /// Its value as TOML, if it has one.
    pub(crate) value: Option<String>,
    /// Who set it.
    pub(crate) origin: &'a Origin,
}

impl Effective {
    /// Reads all sources. All problems are reported together.
    pub(crate) fn load(flags: &Flags) -> Result<Self, Failure> {
        let variables = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with(PREFIX))
            .collect::<Vec<_>>();
        let named = flags.config.clone().or_else(|| {
            let variable = variables.iter().find(|(name, _)| name == FILE_VARIABLE);
            variable.map(|(_, path)| PathBuf::from(path))
        });
        let path = named.clone().unwrap_or_else(|| PathBuf::from(FILE_DEFAULT));
        let text = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => None,
            Err(error) => {
                let path = path.display();
                return Err(Failure::Usage(format!("{path}: can't be read: {error}")));
            }
        };
        let mut effective = Self::new();
        if let Some(text) = text {
            effective.read_file(&path, &text);
        }
        effective.read_environment(&variables);
        effective.read_flags(flags);
        effective.check();
        if effective.problems.is_empty() {
            Ok(effective)
        } else {
            Err(Failure::Usage(effective.problems.join("\n")))
        }
    }

    pub(super) fn new() -> Self {
        Self {
            settings: Settings::default(),
            origins: vec![Origin::Default; KEYS.len()],
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Returns every key with its value and origin.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        KEYS.iter().zip(&self.origins).map(|(key, origin)| Entry {
            name: key.name,
            value: (key.write)(&self.settings),
            origin,
        })
    }

    pub(super) fn read_file(&mut self, path: &Path, text: &str) {
        let table = match DeTable::parse(text) {
            Ok(table) => table,
            Err(error) => {
                let line = error.span().map_or(1, |span| line_of(text, span.start));
                let path = path.display();
                self.problems
                    .push(format!("{path}:{line}: {}", error.message()));
                return;
            }
        };
        let mut entries: Vec<_> = table.get_ref().iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let line = line_of(text, key.span().start);
            let name = key.get_ref().as_ref();
            match value.get_ref() {
                DeValue::Table(inner) if is_table(name) => {
                    let mut entries: Vec<_> = inner.iter().collect();
                    entries.sort_by_key(|(key, _)| key.span().start);
                    for (key, value) in entries {
                        let line = line_of(text, key.span().start);
                        let name = format!("{name}.{}", key.get_ref());
                        self.read_entry(path, line, &name, value.get_ref());
                    }
                }
                other => self.read_entry(path, line, name, other),
            }
        }
    }

    fn read_entry(&mut self, path: &Path, line: usize, name: &str, value: &DeValue<'_>) {
        let origin = Origin::File(path.to_owned(), line);
        let Some(index) = position(name) else {
            let tables = KEYS.iter().map(|key| key.place().0);
            let known = KEYS.iter().map(|key| key.name).chain(tables);
            let suggestion = nearest(name, known)
                .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            self.problems
                .push(format!("{origin}: unknown key `{name}`{suggestion}"));
            return;
        };
        self.set(index, &Given::from_toml(value), origin);
        // A path in a file means the same from wherever the program is started.
        let settings = &mut self.settings;
        let written = match name {
            "data" => Some(&mut settings.data),
            "tls.certificate" => settings.certificate.certificate.as_mut(),
            "tls.key" => settings.certificate.key.as_mut(),
            "access_log.path" => settings.access_log.file_mut(),
            "tables.unix" => settings.tables.unix.as_mut(),
            "tables.copies" => settings.tables.copies.as_mut(),
            "tables.restores" => settings.tables.restores.as_mut(),
            _ => None,
        };
        if let (Some(written), Some(folder)) = (written, path.parent())
            && written.is_relative()
        {
            *written = folder.join(&written);
        }
    }

    pub(super) fn read_environment(&mut self, variables: &[(String, String)]) {
        let known: Vec<_> = KEYS.iter().map(super::keys::Key::variable).collect();
        for (name, text) in variables {
            if let Some(index) = known.iter().position(|variable| variable == name) {
                let given = Given::Untyped(text.clone());
                self.set(index, &given, Origin::Environment(name.clone()));
            } else if name != FILE_VARIABLE
                && let Some(own) = name.strip_prefix(PREFIX)
                && let Some(near) =
                    nearest(own, known.iter().filter_map(|k| k.strip_prefix(PREFIX)))
            {
                self.warnings.push(format!(
                    "the variable {name} means nothing; did you mean {PREFIX}{near}?"
                ));
            }
        }
    }

    fn read_flags(&mut self, flags: &Flags) {
        let data = flags
            .data
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned());
        for (name, flag, value) in [
            ("data", "--data", data),
            ("store.url", "--store", flags.store.clone()),
            ("listen", "--listen", flags.listen.clone()),
            (
                "tls.certificate",
                "--tls-certificate",
                flags.tls_certificate.clone(),
            ),
            ("tls.key", "--tls-key", flags.tls_key.clone()),
        ] {
            if let (Some(index), Some(text)) = (position(name), value) {
                self.set(index, &Given::Untyped(text), Origin::Flag(flag));
            }
        }
        if let Some(data) = &flags.data {
            // As it was given, not as text: a path need not be Unicode.
            self.settings.data.clone_from(data);
        }
    }

    fn set(&mut self, index: usize, given: &Given, origin: Origin) {
        let (Some(key), Some(place)) = (KEYS.get(index), self.origins.get_mut(index)) else {
            return;
        };
        let given = match given {
            Given::Foreign(what) => Err(format!("is {what}")),
            given => (key.read)(&mut self.settings, given),
        };
        match given {
            Ok(()) => *place = origin,
            Err(problem) => self
                .problems
                .push(format!("{origin}: `{}`: {problem}", key.name)),
        }
    }

    /// Checks what no key shows alone.
    fn check(&mut self) {
        if let Err(error) = self.settings.urls() {
            self.problem_of("public_url", &error.to_string());
        }
        let limits = &self.settings.server.limits;
        if limits.query.default > limits.query.max {
            self.problem_of(
                "limits.answer_events_default",
                "must not be above `limits.answer_events_max`",
            );
        }
        if let Err(problem) = crate::logging::check_filter(&self.settings.log_filter) {
            self.problem_of("log.filter", &problem);
        }
    }

    fn problem_of(&mut self, name: &str, problem: &str) {
        let origin = position(name).and_then(|index| self.origins.get(index));
        let origin = origin.map_or_else(String::new, ToString::to_string);
        self.problems.push(format!("{origin}: `{name}`: {problem}"));
    }
}

fn is_table(name: &str) -> bool {
    KEYS.iter().any(|key| key.place().0 == name)
}

/// Returns the number of the line that holds this byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    before.split(|byte| *byte == b'\n').count()
}

/// Returns the known name that is most like this one, if any is. A key in the wrong table, or in
/// none, is found by its last part.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    known
        .filter(|candidate| !candidate.is_empty())
        .map(|candidate| {
            let whole = strsim::jaro_winkler(name, candidate);
            // Slightly less than the whole, so that the right table wins.
            let part = strsim::jaro_winkler(&last(name), &last(candidate)) * 0.99;
            (candidate, whole.max(part))
        })
        .filter(|(_, alike)| *alike >= ALIKE_MIN)
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(candidate, _)| candidate)
}
