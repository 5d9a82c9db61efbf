//! One line of the access log: what it says, and the two forms it can be written in.

use std::{
    fmt::Write as _,
    net::IpAddr,
    time::{Duration, UNIX_EPOCH},
};

use serde_json::json;

/// Bytes of one text that a client has given; the rest is left out.
const TEXT_BYTES_MAX: usize = 1024;

/// How the lines of an access log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessLogFormat {
    /// As web servers do, which many programs read, with the seconds taken and the request's name at
    /// the end.
    #[default]
    Combined,
    /// One object a line.
    Json,
}

/// What is told of a request, or of a WebSocket that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// When it came, in microseconds.
    pub(crate) came_us: u64,
    pub(crate) client: IpAddr,
    pub(crate) method: String,
    /// Without the parameters, in which secrets may be.
    pub(crate) path: String,
    /// `HTTP/1.1`, say; `WebSocket` for the end of one.
    pub(crate) protocol: &'static str,
    pub(crate) status: u16,
    /// Those of the body that have been given to the connection.
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    pub(crate) referer: Option<String>,
    pub(crate) agent: Option<String>,
    /// The request's name.
    pub(crate) id: String,
}

/// Copies what a client has given, as far as it is worth a line.
pub(crate) fn shortened(bytes: &[u8]) -> String {
    let kept = bytes.get(..TEXT_BYTES_MAX).unwrap_or(bytes);
    String::from_utf8_lossy(kept).into_owned()
}

impl Line {
    /// Writes the line with its end.
    pub(super) fn write(&self, format: AccessLogFormat, into: &mut Vec<u8>) {
        let line = match format {
            AccessLogFormat::Combined => self.combined(),
            AccessLogFormat::Json => self.json(),
        };
        into.extend_from_slice(line.as_bytes());
        into.push(b'\n');
    }

    fn combined(&self) -> String {
        let time = Time::of(self.came_us);
        let text = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), escaped);
        format!(
            "{} - - [{}/{}/{}:{} +0000] \"{} {} {}\" {} {} \"{}\" \"{}\" {:.6} {}",
            self.client,
            time.day,
            time.month_name,
            time.year,
            time.clock,
            escaped(&self.method),
            escaped(&self.path),
            self.protocol,
            self.status,
            self.bytes,
            text(&self.referer),
            text(&self.agent),
            self.took.as_secs_f64(),
            escaped(&self.id),
        )
    }

    fn json(&self) -> String {
        let time = Time::of(self.came_us);
        let object = json!({
            "time": format!(
                "{}-{:02}-{}T{}.{:03}Z",
                time.year,
                time.month,
                time.day,
                time.clock,
                self.came_us / 1000 % 1000,
            ),
            "address": self.client.to_string(),
            "method": self.method,
            "path": self.path,
            "protocol": self.protocol,
            "status": self.status,
            "bytes": self.bytes,
            "seconds": self.took.as_secs_f64(),
            "referer": self.referer,
            "agent": self.agent,
            "request_id": self.id,
        });
        // What JSON allows to stand as it is may still be a command to a terminal.
        let mut line = String::new();
        for character in object.to_string().chars() {
            if character.is_control() {
                // Writing to a string can't fail.
                let _ = write!(line, "\\u{:04x}", u32::from(character));
            } else {
                line.push(character);
            }
        }
        line
    }
}

/// Writes a text so that it can neither end its quotes nor its line, nor command a terminal.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => escaped.extend(['\\', char::from(byte)]),
            b' '..=b'~' => escaped.push(char::from(byte)),
            _ => {
                let _ = write!(escaped, "\\x{byte:02x}");
            }
        }
    }
    escaped
}

/// A time in UTC, in parts.
struct Time {
    year: String,
    month_name: String,
    month: usize,
    day: String,
    /// `21:13:20`
    clock: String,
}

impl Time {
    fn of(us: u64) -> Self {
        // `Sun, 06 Nov 1994 08:49:37 GMT`
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_micros(us));
        let mut words = date.split(' ').skip(1).map(str::to_owned);
        let mut word = || words.next().unwrap_or_default();
        let (day, month_name, year, clock) = (word(), word(), word(), word());
        let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
        let month = months.find(&month_name).map_or(0, |place| place / 3 + 1);
        Self {
            year,
            month_name,
            month,
            day,
            clock,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line {
            came_us: 784_111_777_250_000,
            client: "192.0.2.7".parse().unwrap(),
            method: "GET".to_owned(),
            path: "/pages/1".to_owned(),
            protocol: "HTTP/1.1",
            status: 200,
            bytes: 12,
            took: Duration::from_micros(1500),
            referer: None,
            agent: Some("curl/8".to_owned()),
            id: "0123456789abcdef".to_owned(),
        }
    }

    fn written(line: &Line, format: AccessLogFormat) -> String {
        let mut bytes = Vec::new();
        line.write(format, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_line_has_all_in_both_forms() {
        assert_eq!(
            written(&line(), AccessLogFormat::Combined),
            "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /pages/1 HTTP/1.1\" 200 12 \"-\" \
             \"curl/8\" 0.001500 0123456789abcdef\n"
        );
        let object: serde_json::Value =
            serde_json::from_str(&written(&line(), AccessLogFormat::Json)).unwrap();
        assert_eq!(object["time"], "1994-11-06T08:49:37.250Z");
        assert_eq!(object["address"], "192.0.2.7");
        assert_eq!(object["path"], "/pages/1");
        assert_eq!(object["bytes"], 12);
        assert_eq!(object["request_id"], "0123456789abcdef");
        assert_eq!(object["referer"], serde_json::Value::Null);
    }

    #[test]
    fn hostile_bytes_stay_within_their_quotes() {
        let hostile = b"a\" 200 1\r\n\\ \x1b[31m\x00\x7f\xff\xc2\x9b31m";
        let line = Line {
            agent: Some(shortened(hostile)),
            path: shortened(b"/\"\n"),
            ..line()
        };
        let text = written(&line, AccessLogFormat::Combined);
        let expected = r#""a\" 200 1\x0d\x0a\\ \x1b[31m\x00\x7f\xef\xbf\xbd\xc2\x9b31m""#;
        assert!(text.contains(expected), "{text}");
        assert!(text.contains(r#""GET /\"\x0a HTTP/1.1""#), "{text}");
        for format in [AccessLogFormat::Combined, AccessLogFormat::Json] {
            let text = written(&line, format);
            assert_eq!(text.matches(char::is_control).count(), 1, "{text:?}");
        }
        let object: serde_json::Value =
            serde_json::from_str(&written(&line, AccessLogFormat::Json)).unwrap();
        assert_eq!(object["agent"], String::from_utf8_lossy(hostile).as_ref());
        assert_eq!(shortened(&[b'x'; 16 * 1024]).len(), TEXT_BYTES_MAX);
    }
}
