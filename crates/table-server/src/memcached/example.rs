//! A request to be shown to an operator.

use memchr::memchr;

/// Bytes of a line that are shown.
const SHOWN_MAX: usize = 160;

/// Returns the line that the input begins with: command and key, never a value.
pub(crate) fn example(input: &[u8]) -> Option<String> {
    let end = memchr(b'\n', input).unwrap_or(input.len());
    let line = input.get(..end)?.trim_ascii_end();
    let shown = line.get(..SHOWN_MAX).unwrap_or(line);
    Some(shown.escape_ascii().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_and_no_value() {
        let shown = |input: &[u8]| example(input).unwrap();
        assert_eq!(shown(b"set seen:1 0 0 6\r\nsecret\r\n"), "set seen:1 0 0 6");
        assert_eq!(shown(b"get \xff"), "get \\xff");
        assert_eq!(shown(&[b'k'; 1000]).len(), SHOWN_MAX);
    }
}
