//! Sizes as people write them: `64m`, `1g`.

const UNITS: [(char, u64); 4] = [
    ('k', 1 << 10),
    ('m', 1 << 20),
    ('g', 1 << 30),
    ('t', 1 << 40),
];

/// Reads bytes: digits, and `k`, `m`, `g` or `t` behind them for powers of 1024.
pub(super) fn parse(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let unit = UNITS.iter().find(|(unit, _)| lower.ends_with(*unit));
    let (digits, factor) = unit.map_or((&*lower, 1), |&(unit, factor)| {
        (lower.trim_end_matches(unit), factor)
    });
    if digits.len() + usize::from(unit.is_some()) != text.len()
        || !digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Writes bytes so that they are read as the same number.
pub(super) fn print(bytes: u64) -> String {
    let unit = UNITS.iter().rev();
    let mut whole = unit.filter(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    match whole.next() {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let sizes = [
            ("0", Some(0)),
            ("16", Some(16)),
            ("1k", Some(1024)),
            ("64M", Some(64 << 20)),
            ("3g", Some(3 << 30)),
            ("1t", Some(1 << 40)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("16777216t", None),
            ("", None),
            ("k", None),
            ("1kk", None),
            ("+1", None),
            ("-1", None),
            ("1 k", None),
            ("1.5g", None),
            ("1kb", None),
            ("１", None),
            ("1K\u{212a}", None),
        ];
        for (text, bytes) in sizes {
            assert_eq!(parse(text), bytes, "{text}");
            if let Some(bytes) = bytes {
                assert_eq!(parse(&print(bytes)), Some(bytes));
            }
        }
        assert_eq!(print(1 << 30), "1g");
        assert_eq!(print(1025), "1025");
    }
}
