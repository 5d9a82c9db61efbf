//! Words of a command line, and the numbers among them.

/// The longest a client may be relative about an expiry: 30 days, in seconds.
const RELATIVE_SECONDS_MAX: i64 = 60 * 60 * 24 * 30;

/// The words of a line, separated by one space or more.
#[derive(Debug, Clone)]
pub(super) struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// Returns what has not been read.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let mut rest = self.rest;
        while let Some((b' ', behind)) = rest.split_first() {
            rest = behind;
        }
        let end = rest
            .iter()
            .position(|&byte| byte == b' ')
            .unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        self.rest = behind;
        (!word.is_empty()).then_some(word)
    }
}

/// Returns a line without its end, a line feed and perhaps a carriage return before it.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Reads an unsigned number in decimal digits; a plus may stand before it.
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"+").unwrap_or(word);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// Reads a number that may be negative.
pub(super) fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(digits) if digits.first() == Some(&b'+') => None,
        Some(digits) => 0_i64.checked_sub_unsigned(unsigned(digits)?),
        None => i64::try_from(unsigned(word)?).ok(),
    }
}

/// Tells when a record expires (0: never) that gets this expiry at this time, both in seconds.
/// Negative: at once. Up to 30 days: from now on. More: a point in time.
pub(super) fn expires_at(expiry: i64, now: u64) -> u64 {
    match expiry {
        0 => 0,
        ..0 => 1,
        1..=RELATIVE_SECONDS_MAX => now.saturating_add(expiry.unsigned_abs()),
        _ => expiry.unsigned_abs(),
    }
}

/// Writes a number in decimal digits.
pub(super) fn write_number(number: impl itoa::Integer, output: &mut Vec<u8>) {
    output.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_separated_by_any_number_of_spaces() {
        let words: Vec<_> = Words::new(b"  get a\tb   c ").collect();
        assert_eq!(words, [&b"get"[..], b"a\tb", b"c"]);
    }

    #[test]
    fn a_number_is_digits_and_nothing_else() {
        assert_eq!(unsigned(b"+007"), Some(7));
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [
            &b"18446744073709551616"[..],
            b"",
            b"+",
            b"-1",
            b"1x",
            b"x1",
            b"1 ",
        ] {
            assert_eq!(unsigned(wrong), None);
        }
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"9223372036854775808"), None);
        assert_eq!(signed(b"-+1"), None);
    }

    #[test]
    fn an_expiry_is_relative_up_to_thirty_days() {
        assert_eq!(expires_at(0, 1_000), 0);
        assert_eq!(expires_at(2_592_000, 1_000), 2_593_000);
        assert_eq!(expires_at(2_592_001, 1_000), 2_592_001);
        assert_eq!(expires_at(-1, 1_000), 1);
    }
}
