//! JSON strings: finding their ends, reading their escapes, and writing them in canonical form.

use std::borrow::Cow;

/// How a string is spelt in JSON, from the least to the most work it makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Spelling {
    /// Without escapes: the raw bytes are the text.
    Plain,
    /// With the seven escapes of NIP-01 only: the raw bytes are the canonical form.
    Canonical,
    /// With other escapes: must be rewritten to be hashed.
    Other,
}

/// A string as it stands between its quotes in JSON. Its escapes are known to be well-formed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawString<'a> {
    pub(crate) raw: &'a [u8],
    pub(crate) spelling: Spelling,
}

impl<'a> RawString<'a> {
    /// Returns the text as bytes, which are UTF-8.
    #[inline]
    pub(crate) fn bytes(self) -> Cow<'a, [u8]> {
        if self.spelling == Spelling::Plain {
            Cow::Borrowed(self.raw)
        } else {
            Cow::Owned(unescape(self.raw))
        }
    }

    /// Returns the text.
    #[inline]
    pub(crate) fn text(self) -> Cow<'a, str> {
        match self.bytes() {
            Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).unwrap_or_default()),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).unwrap_or_default()),
        }
    }
}

/// How control characters that have no escape of their own in NIP-01 are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controls {
    /// As `\u00xx`, which is JSON, and what `JSON.stringify` and most libraries hash.
    Escaped,
    /// As they are, to the letter of NIP-01; not JSON.
    Verbatim,
}

/// Writes a text as a JSON string, quotes included: the escapes of NIP-01, `\u00xx` for other
/// control characters, everything else as it is.
pub fn escape(text: &str) -> String {
    let mut json = Vec::with_capacity(text.len() + 2);
    escape_into(&mut json, text);
    String::from_utf8(json).unwrap_or_default()
}

/// Appends a text as [`escape`] writes it.
pub fn escape_into(json: &mut Vec<u8>, text: &str) {
    write_string(json, text.as_bytes(), Controls::Escaped);
}

/// Appends UTF-8 bytes as a JSON string, quotes included.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &[u8], controls: Controls) {
    out.push(b'"');
    let mut rest = text;
    while let Some((plain, special, after)) = split_special(rest) {
        out.extend_from_slice(plain);
        match special {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            control if controls == Controls::Verbatim => out.push(control),
            control => out.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Splits at the first special byte, if there is one.
fn split_special(text: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let (plain, rest) = text.split_at_checked(find_special(text, 0))?;
    let (&special, after) = rest.split_first()?;
    Some((plain, special, after))
}

/// Returns the text that a raw string with well-formed escapes stands for.
fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, _, _)) = split_special(rest) {
        text.extend_from_slice(plain);
        let escaped = rest.get(plain.len()..).unwrap_or_default();
        let Ok((length, _)) = escape_length(escaped) else {
            break;
        };
        let (escape, after) = escaped.split_at_checked(length).unwrap_or_default();
        let mut utf8 = [0; 4];
        text.extend_from_slice(escaped_char(escape).encode_utf8(&mut utf8).as_bytes());
        rest = after;
    }
    text.extend_from_slice(rest);
    text
}

/// Returns the character that one well-formed escape stands for.
fn escaped_char(escape: &[u8]) -> char {
    let code = match escape.get(1) {
        Some(b'n') => 0x0a,
        Some(b'r') => 0x0d,
        Some(b't') => 0x09,
        Some(b'b') => 0x08,
        Some(b'f') => 0x0c,
        Some(b'u') => match (code_unit(escape), escape.get(6..).and_then(code_unit)) {
            (Some(high), Some(low)) => 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00),
            (unit, _) => unit.unwrap_or_default(),
        },
        other => u32::from(other.copied().unwrap_or_default()),
    };
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Measures the escape at the start of `rest`, which begins with a backslash.
#[inline]
pub(crate) fn escape_length(rest: &[u8]) -> Result<(usize, Spelling), &'static str> {
    match rest.get(1) {
        Some(b'n' | b'"' | b'\\' | b'r' | b't' | b'b' | b'f') => Ok((2, Spelling::Canonical)),
        Some(b'/') => Ok((2, Spelling::Other)),
        Some(b'u') => unicode_escape_length(rest),
        _ => Err("malformed escape in a string"),
    }
}

fn unicode_escape_length(rest: &[u8]) -> Result<(usize, Spelling), &'static str> {
    match code_unit(rest) {
        Some(0xd800..=0xdbff) => match rest.get(6..).and_then(code_unit) {
            Some(0xdc00..=0xdfff) => Ok((12, Spelling::Other)),
            _ => Err("lone surrogate in a string"),
        },
        Some(0xdc00..=0xdfff) => Err("lone surrogate in a string"),
        Some(_) => Ok((6, Spelling::Other)),
        None => Err("malformed escape in a string"),
    }
}

/// Reads `\uXXXX` at the start of `rest`.
fn code_unit(rest: &[u8]) -> Option<u32> {
    let digits = rest.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, &digit| {
        char::from(digit)
            .to_digit(16)
            .map(|value| unit << 4 | value)
    })
}

/// Returns the offset of the first quote, backslash or control character at or after `at`, or the
/// length if there is none.
#[inline]
pub(crate) fn find_special(bytes: &[u8], at: usize) -> usize {
    let (words, tail) = bytes.get(at..).unwrap_or_default().as_chunks();
    for (index, word) in words.iter().enumerate() {
        let marks = special_marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return at + index * word.len() + marks.trailing_zeros() as usize / 8;
        }
    }
    let special = |&byte: &u8| byte == b'"' || byte == b'\\' || byte < 0x20;
    bytes.len() - tail.len() + tail.iter().position(special).unwrap_or(tail.len())
}

/// Marks the top bit of special bytes, eight at a time. The lowest mark is right; those above it
/// may be false, for the subtractions borrow.
#[inline]
const fn special_marks(block: u64) -> u64 {
    const fn repeat(byte: u8) -> u64 {
        u64::from_le_bytes([byte; 8])
    }
    let quote = (block ^ repeat(b'"')).wrapping_sub(repeat(1)) & !(block ^ repeat(b'"'));
    let backslash = (block ^ repeat(b'\\')).wrapping_sub(repeat(1)) & !(block ^ repeat(b'\\'));
    let control = block.wrapping_sub(repeat(0x20)) & !block;
    (quote | backslash | control) & repeat(0x80)
}
