//! Whom a client has told this server to follow, kept for the next start.

use hikyaku_tables::{TableError, Tables};

use super::control::Source;

/// Keeps it durably, or that it is nobody.
pub(super) fn keep(tables: &Tables, source: Option<&Source>) -> Result<(), TableError> {
    tables.keep_followed(source.map(encode).as_deref())
}

/// Returns what was kept.
pub(super) fn kept(tables: &Tables) -> Result<Option<Source>, TableError> {
    let words = tables.followed()?;
    let source = words.map(|words: Vec<u8>| {
        let unknown = || TableError::Syntax("the file `followed` names no server".to_owned());
        decode(&words).ok_or_else(unknown)
    });
    source.transpose()
}

/// FORMAT: lines: host, port, the time to begin at, and the token if there is one.
fn encode(source: &Source) -> Vec<u8> {
    let Source {
        host,
        port,
        token,
        since_us,
    } = source;
    let mut words = format!("{host}\n{port}\n{since_us}");
    if let Some(token) = token {
        words.push('\n');
        words.push_str(token);
    }
    words.into_bytes()
}

fn decode(words: &[u8]) -> Option<Source> {
    let mut lines = std::str::from_utf8(words).ok()?.splitn(4, '\n');
    Some(Source {
        host: lines.next()?.to_owned(),
        port: lines.next()?.parse().ok()?,
        since_us: lines.next()?.parse().ok()?,
        token: lines.next().map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_was_told() {
        for token in [None, Some(""), Some("a b\nc")] {
            let source = Source {
                host: "elsewhere.example".to_owned(),
                port: 1978,
                token: token.map(str::to_owned),
                since_us: u64::MAX,
            };
            assert_eq!(decode(&encode(&source)), Some(source));
        }
        for words in [
            &b""[..],
            b"host",
            b"host\n1",
            b"host\n70000\n0",
            b"\xff\n1\n0",
        ] {
            assert_eq!(decode(words), None);
        }
    }
}
