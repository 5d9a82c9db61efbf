//! Single values: how each type is read from TOML and from the environment, and written again.

use std::{
    fmt::Display, net::SocketAddr, num::NonZeroUsize, path::PathBuf, str::FromStr, time::Duration,
};

use hikyaku_event::{PublicKey, TagName, escape};
use hikyaku_policies::{KindRange, ScriptFailure, WorkRule};
use hikyaku_server::{AccessLogFormat, AddressRange};
use hikyaku_tables::{Logging, NamedTable};
use toml::de::DeValue;

use super::settings::{DatabaseUrl, DurabilityKind, LogFormat, SecretKey};
use crate::tables::{Followed, Token};

/// A value as somebody wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Given {
    /// A TOML string.
    Text(String),
    /// A TOML integer from 0 up.
    Number(u64),
    /// A TOML boolean.
    Switch(bool),
    /// A TOML array of strings, or of integers as they stand there.
    List(Vec<String>),
    /// A flag's or variable's text, which may mean any of these.
    Untyped(String),
    /// TOML that no setting takes, named: a table, a date.
    Foreign(&'static str),
}

impl Given {
    pub(super) fn from_toml(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.clone().into_owned()),
            DeValue::Integer(integer) => {
                match u64::from_str_radix(integer.as_str(), integer.radix()) {
                    Ok(number) => Self::Number(number),
                    Err(_) => Self::Foreign("a number out of range"),
                }
            }
            DeValue::Array(elements) => elements
                .iter()
                .map(|element| match element.get_ref() {
                    DeValue::String(text) => Some(text.clone().into_owned()),
                    // As kinds are written.
                    DeValue::Integer(integer) if integer.radix() == 10 => {
                        Some(integer.as_str().to_owned())
                    }
                    _ => None,
                })
                .collect::<Option<_>>()
                .map_or(Self::Foreign("a list of something else"), Self::List),
            DeValue::Float(_) => Self::Foreign("a fraction"),
            DeValue::Boolean(switch) => Self::Switch(*switch),
            DeValue::Datetime(_) => Self::Foreign("a date"),
            DeValue::Table(_) => Self::Foreign("a table"),
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Untyped(text) => Some(text),
            _ => None,
        }
    }
}

/// A type that a setting may have.
pub(super) trait Value: Sized {
    /// Reads it; the error says what was expected.
    fn read(given: &Given) -> Result<Self, String>;
    /// Writes it as TOML; `None` if there is nothing to write.
    fn write(&self) -> Option<String>;
}

fn read_text<T>(
    given: &Given,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, String> {
    given
        .text()
        .and_then(parse)
        .ok_or_else(|| format!("expected {expected}"))
}

/// Writes a TOML basic string, whose escapes are JSON's.
pub(super) fn quoted(text: &str) -> String {
    escape(text).replace('\x7f', "\\u007f")
}

impl Value for String {
    fn read(given: &Given) -> Result<Self, String> {
        read_text(given, "a text", |text| Some(text.to_owned()))
    }
    fn write(&self) -> Option<String> {
        Some(quoted(self))
    }
}

impl Value for bool {
    fn read(given: &Given) -> Result<Self, String> {
        match given {
            Given::Switch(switch) => Some(*switch),
            Given::Untyped(text) => text.parse().ok(),
            _ => None,
        }
        .ok_or_else(|| "expected true or false".to_owned())
    }
    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for PathBuf {
    fn read(given: &Given) -> Result<Self, String> {
        read_text(given, "a path", |text| {
            (!text.is_empty()).then(|| text.into())
        })
    }
    fn write(&self) -> Option<String> {
        Some(quoted(&self.to_string_lossy()))
    }
}

impl Value for SocketAddr {
    fn read(given: &Given) -> Result<Self, String> {
        read_text(
            given,
            "an IP address and a port, like 127.0.0.1:7777",
            |text| text.parse().ok(),
        )
    }
    fn write(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }
}

impl Value for PublicKey {
    fn read(given: &Given) -> Result<Self, String> {
        read_text(given, "a public key of 64 lower-case hex digits", |text| {
            Self::from_hex(text.as_bytes()).ok()
        })
    }
    fn write(&self) -> Option<String> {
        Some(quoted(&self.to_hex()))
    }
}

impl Value for SecretKey {
    fn read(given: &Given) -> Result<Self, String> {
        read_text(given, "a secret key of 64 lower-case hex digits", |text| {
            crate::relay_key::parse(text)
        })
    }
    fn write(&self) -> Option<String> {
        Some(quoted("(not shown)"))
    }
}

impl Value for DatabaseUrl {
    fn read(given: &Given) -> Result<Self, String> {
        read_text(
            given,
            "postgres://[user[:password]@]host[:port][/database]",
            |text| {
                let scheme = ["postgres://", "postgresql://"];
                let is_one = scheme.iter().any(|scheme| text.starts_with(scheme));
                is_one.then(|| Self(text.to_owned()))
            },
        )
    }
    fn write(&self) -> Option<String> {
        Some(quoted(&self.shown()))
    }
}

impl Value for DurabilityKind {
    fn read(given: &Given) -> Result<Self, String> {
        read_text(given, "\"sync\" or \"interval\"", |text| match text {
            "sync" => Some(Self::Sync),
            "interval" => Some(Self::Interval),
            _ => None,
        })
    }
    fn write(&self) -> Option<String> {
        Some(quoted(match self {
            Self::Sync => "sync",
            Self::Interval => "interval",
        }))
    }
}

impl Value for LogFormat {
    fn read(given: &Given) -> Result<Self, String> {
        read_text(given, "\"text\" or \"json\"", |text| match text {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        })
    }
    fn write(&self) -> Option<String> {
        Some(quoted(match self {
            Self::Text => "text",
            Self::Json => "json",
        }))
    }
}

impl Value for AccessLogFormat {
    fn read(given: &Given) -> Result<Self, String> {
        read_text(given, "\"combined\" or \"json\"", |text| match text {
            "combined" => Some(Self::Combined),
            "json" => Some(Self::Json),
            _ => None,
        })
    }
    fn write(&self) -> Option<String> {
        Some(quoted(match self {
            Self::Combined => "combined",
            Self::Json => "json",
        }))
    }
}

/// Reads a number from 0 up that fits `T`.
fn read_number<T: TryFrom<u64>>(given: &Given, expected: &str) -> Result<T, String> {
    let number = match given {
        Given::Number(number) => Some(*number),
        Given::Untyped(text) => text.parse().ok(),
        _ => None,
    };
    number
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("expected {expected}"))
}

macro_rules! whole_numbers {
    ($($type:ty),+) => {
        $(impl Value for $type {
            fn read(given: &Given) -> Result<Self, String> {
                read_number(given, "a whole number from 0 up")
            }
            fn write(&self) -> Option<String> {
                Some(self.to_string())
            }
        })+
    };
}

whole_numbers!(u32, u64, usize);

impl Value for NonZeroUsize {
    fn read(given: &Given) -> Result<Self, String> {
        let expected = "a whole number from 1 up";
        Self::new(read_number(given, expected)?).ok_or_else(|| format!("expected {expected}"))
    }
    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// Durations are written in whole seconds; their keys say so.
impl Value for Duration {
    fn read(given: &Given) -> Result<Self, String> {
        let expected = "a whole number of seconds from 1 up";
        match read_number(given, expected)? {
            0 => Err(format!("expected {expected}")),
            seconds => Ok(Self::from_secs(seconds)),
        }
    }
    fn write(&self) -> Option<String> {
        Some(self.as_secs().to_string())
    }
}

/// What is optional is unset by an empty text.
impl<T: Value> Value for Option<T> {
    fn read(given: &Given) -> Result<Self, String> {
        if given.text() == Some("") {
            return Ok(None);
        }
        T::read(given).map(Some)
    }
    fn write(&self) -> Option<String> {
        self.as_ref().and_then(Value::write)
    }
}

impl Value for Vec<AddressRange> {
    fn read(given: &Given) -> Result<Self, String> {
        read_list(
            given,
            "a list of IP addresses or ranges, like [\"10.0.0.0/8\"]",
        )
    }
    fn write(&self) -> Option<String> {
        Some(list(self))
    }
}

impl Value for Vec<KindRange> {
    fn read(given: &Given) -> Result<Self, String> {
        read_list(
            given,
            "a list of kinds or ranges of kinds, like [\"1\", \"30000-39999\"]",
        )
    }
    fn write(&self) -> Option<String> {
        Some(list(self))
    }
}

impl Value for Vec<WorkRule> {
    fn read(given: &Given) -> Result<Self, String> {
        read_list(
            given,
            "a list of kinds with bits of work, like [\"1=16\", \"*=8\"]",
        )
    }
    fn write(&self) -> Option<String> {
        Some(list(self))
    }
}

impl Value for Vec<TagName> {
    fn read(given: &Given) -> Result<Self, String> {
        read_list(given, "a list of tags' names, like [\"title\"]")
    }
    fn write(&self) -> Option<String> {
        Some(list(self))
    }
}

impl Value for Vec<String> {
    fn read(given: &Given) -> Result<Self, String> {
        read_list(given, "a list of texts")
    }
    fn write(&self) -> Option<String> {
        Some(list(self))
    }
}

impl Value for Vec<PublicKey> {
    fn read(given: &Given) -> Result<Self, String> {
        let texts: Vec<String> = read_list(given, "a list of public keys in hex")?;
        texts
            .iter()
            .map(|text| {
                PublicKey::from_hex(text.as_bytes())
                    .map_err(|error| format!("`{text}` is no public key: {error}"))
            })
            .collect()
    }
    fn write(&self) -> Option<String> {
        Some(list(self))
    }
}

impl Value for ScriptFailure {
    fn read(given: &Given) -> Result<Self, String> {
        read_text(given, "\"refuse\" or \"accept\"", |text| match text {
            "refuse" => Some(Self::Refuse),
            "accept" => Some(Self::Accept),
            _ => None,
        })
    }
    fn write(&self) -> Option<String> {
        Some(quoted(match self {
            Self::Refuse => "refuse",
            Self::Accept => "accept",
        }))
    }
}

impl Value for Vec<NamedTable> {
    fn read(given: &Given) -> Result<Self, String> {
        read_list(
            given,
            "a list of names and tables, like [\"seen=seen.fixed?width=16\"]",
        )
    }
    fn write(&self) -> Option<String> {
        Some(list(self))
    }
}

/// Reads a list: an array of strings in TOML, separated by commas elsewhere.
fn read_list<T>(given: &Given, expected: &str) -> Result<Vec<T>, String>
where
    T: FromStr<Err: Display>,
{
    let parse = |text: &str| text.parse().map_err(|error: T::Err| error.to_string());
    match given {
        Given::List(list) => list.iter().map(|text| parse(text)).collect(),
        Given::Untyped(text) => text
            .split(',')
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .map(parse)
            .collect(),
        _ => Err(format!("expected {expected}")),
    }
}

impl Value for Token {
    fn read(given: &Given) -> Result<Self, String> {
        read_text(given, "a text", |text| Some(Self(text.to_owned())))
    }
    fn write(&self) -> Option<String> {
        Some(quoted("(not shown)"))
    }
}

impl Value for Followed {
    fn read(given: &Given) -> Result<Self, String> {
        read_text(given, "a server to follow, HOST:PORT", |text| {
            text.parse().ok()
        })
    }
    fn write(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }
}

impl Value for Logging {
    fn read(given: &Given) -> Result<Self, String> {
        read_text(
            given,
            "\"none\", \"async\" or \"sync\"",
            |text| match text {
                "none" => Some(Self::None),
                "async" => Some(Self::Async),
                "sync" => Some(Self::Sync),
                _ => None,
            },
        )
    }
    fn write(&self) -> Option<String> {
        Some(quoted(match self {
            Self::None => "none",
            Self::Async => "async",
            Self::Sync => "sync",
        }))
    }
}

fn list(elements: &[impl Display]) -> String {
    let quoted: Vec<_> = elements
        .iter()
        .map(|element| quoted(&element.to_string()))
        .collect();
    format!("[{}]", quoted.join(", "))
}
