//! What a client would rather have: lists of values with weights (RFC 9110 section 12).

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::Request;

/// The weight of what is wanted most; 0 is what is not wanted at all.
const WEIGHT_MAX: u16 = 1000;

impl Request {
    /// Returns which of the offered media types (`text/html`, `application/json`) the client would
    /// rather have (`Accept`); among equals the one that is offered first. `None` if it wants none of
    /// them (406). A handler that uses it should answer with `Vary: Accept`.
    pub fn preferred<'a>(&self, offered: &[&'a str]) -> Option<&'a str> {
        preferred(self.headers(), offered)
    }
}

fn preferred<'a>(headers: &HeaderMap, offered: &[&'a str]) -> Option<&'a str> {
    if !headers.contains_key(header::ACCEPT) {
        return offered.first().copied();
    }
    let weight_of = |media: &str| {
        let kind = media.split_once('/').map_or(media, |(kind, _)| kind);
        list(headers, &header::ACCEPT)
            .filter_map(|(range, weight)| {
                // The range that says most of a type decides about it.
                let specific = if range.eq_ignore_ascii_case(media) {
                    2
                } else if range == "*/*" {
                    0
                } else {
                    let wanted = range.strip_suffix("/*")?;
                    wanted.eq_ignore_ascii_case(kind).then_some(1)?
                };
                Some((specific, weight))
            })
            .max()
            .map_or(0, |(_, weight)| weight)
    };
    let mut best = None;
    for media in offered {
        let weight = weight_of(media);
        if weight > 0 && best.is_none_or(|(most, _)| weight > most) {
            best = Some((weight, *media));
        }
    }
    best.map(|(_, media)| media)
}

/// Tells whether gzip is welcome to a client that sent these `Accept-Encoding`s, and no less than the
/// answer as it is.
pub(super) fn accepts_gzip(values: &[HeaderValue]) -> bool {
    let (mut gzip, mut any, mut identity) = (None, None, None);
    for (coding, weight) in values.iter().flat_map(entries) {
        match coding.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => gzip = Some(weight),
            "*" => any = Some(weight),
            "identity" => identity = Some(weight),
            _ => {}
        }
    }
    let gzip = gzip.or(any).unwrap_or(0);
    gzip > 0 && gzip >= identity.unwrap_or(0)
}

/// Returns the entries of a header that is a list, without their parameters, and their weights.
pub(super) fn list<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = (&'a str, u16)> + use<'a> {
    headers.get_all(name).into_iter().flat_map(entries)
}

/// Returns the entries of one header's value, without their parameters, and their weights.
fn entries(value: &HeaderValue) -> impl Iterator<Item = (&str, u16)> {
    let text = value.to_str().unwrap_or_default();
    text.split(',').filter_map(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let value = parts.next().filter(|value| !value.is_empty())?;
        let weight = parts
            .find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")))
            .map_or(WEIGHT_MAX, weight);
        Some((value, weight))
    })
}

/// Reads a weight such as 0.8; what is none weighs nothing.
fn weight(text: &str) -> u16 {
    let number: f32 = text.parse().unwrap_or(0.0);
    #[expect(
        clippy::cast_sign_loss,
        reason = "between 0 and 1, and NaN is 0 as a whole number"
    )]
    let weight = (number.clamp(0.0, 1.0) * f32::from(WEIGHT_MAX)) as u16;
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(accept: &str, offered: &[&'static str]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        preferred(&headers, offered)
    }

    #[test]
    fn the_client_has_what_it_would_rather_have() {
        let offered = ["text/html", "application/json"];
        for (accept, expected) in [
            ("application/json", Some("application/json")),
            ("Application/JSON; charset=utf-8", Some("application/json")),
            ("*/*", Some("text/html")),
            (
                "text/html;q=0.5, application/json",
                Some("application/json"),
            ),
            ("text/html;q=0.5, */*;q=0.1", Some("text/html")),
            (
                "text/*;q=0.5, application/*;q=0.6",
                Some("application/json"),
            ),
            // The nearer range counts, also against.
            ("text/html;q=0, */*", Some("application/json")),
            ("text/html;q=0", None),
            ("image/png", None),
            ("text/html;q=x", None),
            (";;,,q=1", None),
        ] {
            assert_eq!(asked(accept, &offered), expected, "{accept}");
        }
        assert_eq!(preferred(&HeaderMap::new(), &offered), Some("text/html"));
        assert_eq!(preferred(&HeaderMap::new(), &[]), None);
    }

    #[test]
    fn gzip_is_sent_to_who_wants_it() {
        for (encodings, expected) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("*", true),
            ("*;q=0", false),
            ("gzip;q=0, *", false),
            ("gzip;q=0.5, identity", false),
            ("identity", false),
            ("br", false),
            ("", false),
            ("gzip;q=nan", false),
        ] {
            let values = [encodings.parse().unwrap()];
            assert_eq!(accepts_gzip(&values), expected, "{encodings}");
        }
        assert!(!accepts_gzip(&[]));
        let two = ["br".parse().unwrap(), "gzip".parse().unwrap()];
        assert!(accepts_gzip(&two));
    }
}
