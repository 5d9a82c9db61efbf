//! What kind of request it was: which fields, how many values, which limit; never the values.

use std::fmt;

/// Filters of one request that are told apart; those behind them are only known to be there.
const FILTERS_MAX: usize = 4;
/// Tag names of one filter that are told apart.
const TAGS_MAX: usize = 3;

/// Numbers of values, rounded: the lowest of each class but "absent".
const CLASSES: [&str; 8] = ["", "0", "1", "2-5", "6-20", "21-100", "101-500", ">500"];
/// Limits, rounded: the highest of each class.
const LIMITS: [&str; 8] = [
    "",
    "0",
    "1",
    "\u{2264}20",
    "\u{2264}100",
    "\u{2264}500",
    "\u{2264}5000",
    ">5000",
];

fn class_of(values: usize) -> u64 {
    match values {
        0 => 1,
        1 => 2,
        2..=5 => 3,
        6..=20 => 4,
        21..=100 => 5,
        101..=500 => 6,
        _ => 7,
    }
}

fn class_of_limit(limit: u64) -> u64 {
    match limit {
        0 => 1,
        1 => 2,
        2..=20 => 3,
        21..=100 => 4,
        101..=500 => 5,
        501..=5000 => 6,
        _ => 7,
    }
}

const IDS: u32 = 0;
const AUTHORS: u32 = 3;
const KINDS: u32 = 6;
const LIMIT: u32 = 9;
const SINCE: u32 = 12;
const UNTIL: u32 = 13;
const MORE_TAGS: u32 = 14;
/// Eleven bits each from here on: a letter and a class.
const TAGS: u32 = 16;
const TAG_BITS: u32 = 11;

/// The shape of one filter (NIP-01), packed into a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FilterShape(u64);

impl FilterShape {
    /// Notes that the filter names so many ids.
    #[must_use]
    pub fn ids(self, values: usize) -> Self {
        Self(self.0 | class_of(values) << IDS)
    }

    /// Notes that the filter names so many authors.
    #[must_use]
    pub fn authors(self, values: usize) -> Self {
        Self(self.0 | class_of(values) << AUTHORS)
    }

    /// Notes that the filter names so many kinds.
    #[must_use]
    pub fn kinds(self, values: usize) -> Self {
        Self(self.0 | class_of(values) << KINDS)
    }

    /// Notes the filter's limit.
    #[must_use]
    pub fn limit(self, limit: u64) -> Self {
        Self(self.0 | class_of_limit(limit) << LIMIT)
    }

    /// Notes that the filter has a `since`, an `until`.
    #[must_use]
    pub fn times(self, since: bool, until: bool) -> Self {
        Self(self.0 | u64::from(since) << SINCE | u64::from(until) << UNTIL)
    }

    /// Notes that the filter asks for the `place`th tag name (from 0) with so many values.
    #[must_use]
    pub fn tag(self, place: usize, letter: u8, values: usize) -> Self {
        if place >= TAGS_MAX {
            return Self(self.0 | 1 << MORE_TAGS);
        }
        let tag = u64::from(letter) << 3 | class_of(values);
        Self(self.0 | tag << (TAGS + place as u32 * TAG_BITS))
    }

    fn bits(self, at: u32, count: u32) -> usize {
        (self.0 >> at) as usize & ((1 << count) - 1)
    }
}

impl fmt::Display for FilterShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        let mut word = |f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>| {
            let before = std::mem::replace(&mut space, " ");
            write!(f, "{before}{text}")
        };
        let class = |class: usize| CLASSES.get(class).copied().unwrap_or_default();
        f.write_str("{")?;
        for (name, at) in [("ids", IDS), ("authors", AUTHORS), ("kinds", KINDS)] {
            let values = self.bits(at, 3);
            if values > 0 {
                word(f, format_args!("{name}:{}", class(values)))?;
            }
        }
        for place in 0..TAGS_MAX as u32 {
            let tag = self.bits(TAGS + place * TAG_BITS, TAG_BITS);
            if tag > 0 {
                let letter = char::from((tag >> 3) as u8);
                word(f, format_args!("#{letter}:{}", class(tag & 7)))?;
            }
        }
        for (text, at) in [("more tags", MORE_TAGS), ("since", SINCE), ("until", UNTIL)] {
            if self.bits(at, 1) > 0 {
                word(f, format_args!("{text}"))?;
            }
        }
        let limit = self.bits(LIMIT, 3);
        if limit > 0 {
            let limit = LIMITS.get(limit).copied().unwrap_or_default();
            word(f, format_args!("limit:{limit}"))?;
        }
        f.write_str("}")
    }
}

/// The shapes of a request's filters. Filters of the same shape that follow each other are one, with
/// the number of them rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FilterShapes {
    filters: [FilterShape; FILTERS_MAX],
    /// The class of how many of each; 0 ends the list.
    counts: [u8; FILTERS_MAX],
    /// There are others.
    more: bool,
}

impl FromIterator<FilterShape> for FilterShapes {
    fn from_iter<I: IntoIterator<Item = FilterShape>>(shapes: I) -> Self {
        let mut all = Self::default();
        let mut kept = 0;
        let mut same = 0_usize;
        let mut last = None;
        for shape in shapes {
            if last == Some(shape) {
                same += 1;
            } else {
                kept += usize::from(last.is_some());
                same = 1;
                last = Some(shape);
            }
            let (Some(place), Some(count)) = (all.filters.get_mut(kept), all.counts.get_mut(kept))
            else {
                all.more = true;
                break;
            };
            *place = shape;
            *count = class_of(same) as u8;
        }
        all
    }
}

impl fmt::Display for FilterShapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        for (filter, count) in self.filters.iter().zip(self.counts) {
            match CLASSES.get(usize::from(count)) {
                None | Some(&"") => break,
                Some(&"1") => write!(f, "{space}{filter}")?,
                Some(count) => write!(f, "{space}{count} \u{d7} {filter}")?,
            }
            space = " ";
        }
        f.write_str(if self.more { " \u{2026}" } else { "" })
    }
}

/// The shape of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A REQ.
    Req(FilterShapes),
    /// A COUNT (NIP-45).
    Count(FilterShapes),
    /// An EVENT.
    Event {
        /// What became of it.
        outcome: &'static str,
        /// The class of its kind.
        class: &'static str,
    },
    /// An HTTP request: a route's pattern, never the path that came.
    Http {
        /// The method; `other` for what is none.
        method: &'static str,
        /// The route.
        route: Box<str>,
    },
    /// A command of the tables' clients.
    Table {
        /// The table; empty for what is of none.
        table: Box<str>,
        /// The command, as the protocol names it.
        command: &'static str,
    },
    /// Those that had to give way to others.
    Other,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Req(filters) => write!(f, "REQ {filters}"),
            Self::Count(filters) => write!(f, "COUNT {filters}"),
            Self::Event { outcome, class } => write!(f, "EVENT {class} {outcome}"),
            Self::Http { method, route } => write!(f, "{method} {route}"),
            Self::Table { table, command } if table.is_empty() => write!(f, "TABLE {command}"),
            Self::Table { table, command } => write!(f, "TABLE {table} {command}"),
            Self::Other => f.write_str("other"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(shapes: impl IntoIterator<Item = FilterShape>) -> String {
        Shape::Req(shapes.into_iter().collect()).to_string()
    }

    #[test]
    fn a_shape_says_fields_and_classes() {
        let home = FilterShape::default().authors(300).kinds(3).limit(50);
        assert_eq!(
            shown([home]),
            "REQ {authors:101-500 kinds:2-5 limit:\u{2264}100}"
        );
        let tagged = FilterShape::default()
            .tag(0, b'e', 70)
            .tag(1, b'p', 1)
            .times(true, false);
        assert_eq!(shown([tagged]), "REQ {#e:21-100 #p:1 since}");
        let many = (0..5).fold(FilterShape::default(), |shape, place| {
            shape.tag(place, b'a' + place as u8, 1)
        });
        assert_eq!(shown([many]), "REQ {#a:1 #b:1 #c:1 more tags}");
        assert_eq!(shown([FilterShape::default()]), "REQ {}");
        let extremes = FilterShape::default().ids(0).tag(0, 255, 0).limit(u64::MAX);
        assert_eq!(shown([extremes]), "REQ {ids:0 #\u{ff}:0 limit:>5000}");
    }

    #[test]
    fn filters_of_one_shape_are_one() {
        let [one, two] = [1, 2].map(|kinds| FilterShape::default().kinds(kinds));
        assert_eq!(shown([one, one, one]), "REQ 2-5 \u{d7} {kinds:1}");
        assert_eq!(shown([one, two]), "REQ {kinds:1} {kinds:2-5}");
        let turns = (0..100).map(|n| if n % 2 == 0 { one } else { two });
        assert!(shown(turns).ends_with('\u{2026}'));
    }
}
