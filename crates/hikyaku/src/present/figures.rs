//! Numbers as people read them.

use std::time::Duration;

/// Writes a number with commas: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a number of bytes: `512 bytes`, `1.5 MB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if count < 1000 {
        return format!("{count} bytes");
    }
    let mut value = count as f64 / 1000.0;
    let mut units = UNITS.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for larger in units {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    format!("{value:.1} {unit}")
}

/// Writes a time: `3.2 s`, `2 min 5 s`, `1 h 10 min`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Writes a short time with three digits at most: `850ns`, `12us`, `1.2ms`, `3.4s`.
pub(crate) fn short(ns: u64) -> String {
    let mut value = ns as f64;
    for unit in ["ns", "us", "ms"] {
        if value < 999.5 {
            return match value {
                ..9.95 if unit != "ns" => format!("{value:.1}{unit}"),
                _ => format!("{value:.0}{unit}"),
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1}s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn short_times_have_few_digits() {
        for (ns, text) in [
            (0, "0ns"),
            (850, "850ns"),
            (1_234, "1.2us"),
            (12_345, "12us"),
            (999_400, "999us"),
            (999_700, "1.0ms"),
            (3_400_000_000, "3.4s"),
        ] {
            assert_eq!(short(ns), text);
        }
    }

    #[test]
    fn sizes_and_times_have_the_unit_that_fits() {
        assert_eq!(bytes(999), "999 bytes");
        assert_eq!(bytes(1500), "1.5 kB");
        assert_eq!(bytes(2_000_000_000), "2.0 GB");
        assert_eq!(duration(Duration::from_millis(3200)), "3.2 s");
        assert_eq!(duration(Duration::from_secs(125)), "2 min 5 s");
        assert_eq!(duration(Duration::from_mins(70)), "1 h 10 min");
    }
}
