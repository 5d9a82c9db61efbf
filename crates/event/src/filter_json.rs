//! Filters as JSON: reading what clients send, and writing it again.

use std::fmt::{Display, Write};

use crate::{
    EventId, Filter, Kind, PublicKey, TagCondition, TagName,
    escape::escape,
    filter::sort,
    json::{Fault, Scanner},
};

const NOT_IDS: &str = "ids must be an array of 64 lower-case hex digits each";
const NOT_AUTHORS: &str = "authors must be an array of 64 lower-case hex digits each";
const NOT_KINDS: &str = "kinds must be an array of whole numbers from 0 to 65535";
const NOT_SINCE: &str = "since must be a whole number of seconds, written in digits only";
const NOT_UNTIL: &str = "until must be a whole number of seconds, written in digits only";
const NOT_LIMIT: &str = "limit must be a whole number from 0 up, written in digits only";
const NOT_A_NAME: &str = "a tag's name has at most 64 bytes, and no control characters";
const TOO_MANY_NAMES: &str = "a filter asks for at most 128 names of tags";
const NOT_VALUES: &str = "tag values must be an array of strings";

/// Names of tags in one filter: the letters, and as many words as anybody would ask for at once. Each
/// one is compared with those before it.
const NAMES_MAX: usize = 128;

/// Why JSON is not an acceptable filter. The text is fit for a client, after `invalid: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FilterError(pub String);

impl From<Fault> for FilterError {
    fn from(fault: Fault) -> Self {
        Self(fault.to_string())
    }
}

impl Filter {
    /// Parses a filter object. Unknown keys are ignored; malformed values of known keys are errors,
    /// and so is a known key that comes twice. A `limit` above 64 bits is the greatest one there is.
    pub fn parse(json: &[u8]) -> Result<Self, FilterError> {
        let mut scanner = Scanner::new(json)?;
        let filter = scan_filter(&mut scanner)?;
        scanner.end()?;
        Ok(filter)
    }

    /// Writes the filter as JSON.
    pub fn to_json(&self) -> String {
        let mut members = Vec::new();
        if let Some(ids) = &self.ids {
            members.push(list("ids", ids.iter().map(|id| format!("\"{id}\""))));
        }
        if let Some(authors) = &self.authors {
            members.push(list(
                "authors",
                authors.iter().map(|key| format!("\"{key}\"")),
            ));
        }
        if let Some(kinds) = &self.kinds {
            members.push(list("kinds", kinds.iter().map(|kind| kind.0)));
        }
        for condition in &self.tags {
            let key = format!("#{}", condition.name);
            members.push(list(
                &key,
                condition.values.iter().map(|value| escape(value)),
            ));
        }
        let numbers = [
            ("since", self.since),
            ("until", self.until),
            ("limit", self.limit),
        ];
        for (key, number) in numbers {
            members.extend(number.map(|number| format!("\"{key}\":{number}")));
        }
        format!("{{{}}}", members.join(","))
    }
}

fn list(key: &str, values: impl Iterator<Item = impl Display>) -> String {
    let mut member = format!("{}:[", escape(key));
    for (index, value) in values.enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(member, "{comma}{value}");
    }
    member.push(']');
    member
}

/// Takes one filter object.
pub(crate) fn scan_filter(scanner: &mut Scanner<'_>) -> Result<Filter, Fault> {
    let mut filter = Filter::default();
    let mut more = scanner.open_object("expected a filter object")?;
    while more {
        scan_member(scanner, &mut filter)?;
        more = scanner.more_members()?;
    }
    filter.tags.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(filter)
}

fn scan_member(scanner: &mut Scanner<'_>, filter: &mut Filter) -> Result<(), Fault> {
    scanner.peek();
    let key_at = scanner.at();
    let key = scanner.key()?.bytes();
    let known_before = match key.as_ref() {
        b"ids" => filter
            .ids
            .replace(scan_set(scanner, NOT_IDS, scan_id)?)
            .is_some(),
        b"authors" => filter
            .authors
            .replace(scan_set(scanner, NOT_AUTHORS, scan_key)?)
            .is_some(),
        b"kinds" => filter
            .kinds
            .replace(scan_set(scanner, NOT_KINDS, scan_kind)?)
            .is_some(),
        b"since" => filter
            .since
            .replace(scan_time(scanner, NOT_SINCE)?)
            .is_some(),
        b"until" => filter
            .until
            .replace(scan_time(scanner, NOT_UNTIL)?)
            .is_some(),
        b"limit" => {
            let limit = scanner.integer(NOT_LIMIT)?.unwrap_or(u64::MAX);
            filter.limit.replace(limit).is_some()
        }
        [b'#', name @ ..] if !name.is_empty() => {
            let name = str::from_utf8(name).ok().and_then(TagName::new);
            let name = name.ok_or(Fault {
                problem: NOT_A_NAME,
                at: key_at,
            })?;
            if filter.tags.len() == NAMES_MAX {
                return Err(Fault {
                    problem: TOO_MANY_NAMES,
                    at: key_at,
                });
            }
            let values = scan_set(scanner, NOT_VALUES, scan_value)?;
            let before = filter.tags.iter().any(|condition| condition.name == name);
            filter.tags.push(TagCondition { name, values });
            before
        }
        _ => {
            scanner.skip_value()?;
            false
        }
    };
    if known_before {
        return Err(Fault {
            problem: "the same key twice in a filter",
            at: key_at,
        });
    }
    Ok(())
}

/// Takes an array as a sorted list without doubles.
fn scan_set<T: Ord>(
    scanner: &mut Scanner<'_>,
    problem: &'static str,
    element: fn(&mut Scanner<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut list = Vec::new();
    let mut more = scanner.open_array(problem)?;
    while more {
        list.push(element(scanner)?);
        more = scanner.more_elements()?;
    }
    sort(&mut list);
    Ok(list)
}

fn scan_id(scanner: &mut Scanner<'_>) -> Result<EventId, Fault> {
    scanner.hex(NOT_IDS).map(EventId::new)
}

fn scan_key(scanner: &mut Scanner<'_>) -> Result<PublicKey, Fault> {
    scanner.hex(NOT_AUTHORS).map(PublicKey::new)
}

fn scan_kind(scanner: &mut Scanner<'_>) -> Result<Kind, Fault> {
    scanner.narrow_integer(NOT_KINDS).map(Kind)
}

fn scan_time(scanner: &mut Scanner<'_>, problem: &'static str) -> Result<u64, Fault> {
    scanner.narrow_integer(problem)
}

fn scan_value(scanner: &mut Scanner<'_>) -> Result<String, Fault> {
    Ok(scanner.string(NOT_VALUES)?.text().into_owned())
}
