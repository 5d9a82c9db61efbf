//! The parts of a database's address that are about TLS. libpq has them, the driver does not.

use crate::AddressError;

/// What a URL begins with. In the other form any of the values may look like one.
const URL_SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// What the address says about TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TlsParameters {
    /// `sslmode`, as written.
    pub(super) mode: Option<String>,
    /// `sslrootcert`: a file of certificates, or `system`.
    pub(super) root_certificates: Option<String>,
    /// `sslcert`: a file with this side's certificate.
    pub(super) certificate: Option<String>,
    /// `sslkey`: the file with its key.
    pub(super) key: Option<String>,
}

impl TlsParameters {
    fn set(&mut self, name: &str, value: String) -> bool {
        let place = match name {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.root_certificates,
            "sslcert" => &mut self.certificate,
            "sslkey" => &mut self.key,
            _ => return false,
        };
        *place = Some(value);
        true
    }
}

/// Takes what is about TLS out of an address, in either of its two forms.
pub(super) fn split(address: &str) -> Result<(String, TlsParameters), AddressError> {
    let mut tls = TlsParameters::default();
    let rest = if URL_SCHEMES.iter().any(|scheme| address.starts_with(scheme)) {
        split_url(address, &mut tls)?
    } else {
        split_pairs(address, &mut tls)?
    };
    Ok((rest, tls))
}

fn split_url(url: &str, tls: &mut TlsParameters) -> Result<String, AddressError> {
    let Some((server, query)) = url.split_once('?') else {
        return Ok(url.to_owned());
    };
    let mut rest = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !tls.set(name, percent_decoded(value)?) {
            rest.push(pair);
        }
    }
    if rest.is_empty() {
        return Ok(server.to_owned());
    }
    Ok(format!("{server}?{}", rest.join("&")))
}

fn percent_decoded(text: &str) -> Result<String, AddressError> {
    let wrong = || AddressError("the database's address is not one".to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let (high, low) = (digit(), digit());
            let (high, low) = high.zip(low).ok_or_else(wrong)?;
            u8::try_from(high * 16 + low).map_err(|_| wrong())?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// `key=value` pairs between spaces; a value may stand in quotes, and a backslash takes what follows
/// as it is.
fn split_pairs(pairs: &str, tls: &mut TlsParameters) -> Result<String, AddressError> {
    let wrong = || AddressError("the database's address is not one".to_owned());
    let mut rest = String::new();
    let mut left = pairs.trim_start();
    while !left.is_empty() {
        let start = left;
        let (name, after) = left.split_once('=').ok_or_else(wrong)?;
        let after = after.trim_start();
        let (value, end) = value(after).ok_or_else(wrong)?;
        left = after.get(end..).unwrap_or_default();
        let pair = start.len() - left.len();
        if !tls.set(name.trim(), value) {
            rest.push_str(start.get(..pair).unwrap_or_default());
            rest.push(' ');
        }
        left = left.trim_start();
    }
    Ok(rest)
}

/// Returns a value and where it ends; nothing if its quote does not.
fn value(text: &str) -> Option<(String, usize)> {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut characters = text.char_indices().skip(usize::from(quoted));
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.push(characters.next()?.1),
            '\'' if quoted => return Some((value, at + 1)),
            space if !quoted && space.is_whitespace() => return Some((value, at)),
            other => value.push(other),
        }
    }
    (!quoted).then_some((value, text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_tls_is_taken_out_of_both_forms() {
        let cases = [
            ("postgres://u:p@h/db", "postgres://u:p@h/db", [None; 2]),
            (
                "postgres://h/db?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fa%20b.pem",
                "postgres://h/db?connect_timeout=3",
                [Some("verify-full"), Some("/a b.pem")],
            ),
            (
                "postgres://h/db?sslmode=require",
                "postgres://h/db",
                [Some("require"), None],
            ),
            (
                "host=h sslrootcert = '/a b\\'s.pem' dbname='d b' sslmode=require",
                "host=h dbname='d b' ",
                [Some("require"), Some("/a b's.pem")],
            ),
            (
                "host=h password=a://b?sslmode=disable sslmode=require",
                "host=h password=a://b?sslmode=disable ",
                [Some("require"), None],
            ),
            (
                "postgresql://h/db?sslmode=require&options=-c%20a=b://c",
                "postgresql://h/db?options=-c%20a=b://c",
                [Some("require"), None],
            ),
        ];
        for (address, rest, [mode, root]) in cases {
            let (left, tls) = split(address).unwrap();
            assert_eq!(left, rest);
            assert_eq!(tls.mode.as_deref(), mode, "{address}");
            assert_eq!(tls.root_certificates.as_deref(), root, "{address}");
        }
    }

    #[test]
    fn what_is_broken_is_refused() {
        for address in [
            "host='h",
            "nothing",
            "postgres://h/?sslmode=%zz",
            "postgres://h/?a=%4",
        ] {
            assert!(split(address).is_err(), "{address}");
        }
    }
}
