//! Numbers that may be typed: an option that no run can carry out is refused before the run.

use std::{str::FromStr, time::Duration};

/// The longest that anything may be told to last, in seconds: a day.
const SECONDS_MAX: f64 = 86_400.0;
/// The highest rate of an open loop, in operations a second: no single client carries more.
pub(crate) const RATE_MAX: f64 = 1e6;
/// Operations of one part that are planned ahead, at most; what they take of memory is bounded so.
pub(crate) const PLANNED_MAX: usize = 2_000_000;
/// Connections of one part: each is a socket of ours, and there are no more ports than this.
const CONNECTIONS_MAX: usize = 60_000;

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "expected a number".to_owned())
}

fn between(low: usize, high: usize, text: &str) -> Result<usize, String> {
    let number = number(text)?;
    if (low..=high).contains(&number) {
        Ok(number)
    } else {
        Err(format!("expected {low} to {high}"))
    }
}

fn above_zero(highest: f64, text: &str) -> Result<f64, String> {
    let number: f64 = number(text)?;
    // Nothing that is no number compares.
    if number > 0.0 && number <= highest {
        Ok(number)
    } else {
        Err(format!("expected more than 0, and at most {highest}"))
    }
}

/// Reads operations a second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    above_zero(RATE_MAX, text)
}

/// Reads milliseconds.
pub(crate) fn milliseconds(text: &str) -> Result<f64, String> {
    above_zero(SECONDS_MAX * 1e3, text)
}

/// Reads seconds, with a fraction or without.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = above_zero(SECONDS_MAX, text)?;
    // Less than a nanosecond is nothing.
    Ok(Duration::from_secs_f64(seconds).max(Duration::from_nanos(1)))
}

/// Reads a count of operations that are planned ahead.
pub(crate) fn operations(text: &str) -> Result<usize, String> {
    between(1, PLANNED_MAX, text)
}

/// Reads how many connections do something.
pub(crate) fn connections(text: &str) -> Result<usize, String> {
    between(1, CONNECTIONS_MAX, text)
}

/// Reads how many connections do something, if any.
pub(crate) fn connections_or_none(text: &str) -> Result<usize, String> {
    between(0, CONNECTIONS_MAX, text)
}

/// Reads how many events are under way on a connection.
pub(crate) fn window(text: &str) -> Result<usize, String> {
    between(1, 1_000, text)
}

/// Reads a number of questions, of authors, of repetitions.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    between(1, 10_000_000, text)
}

/// Reads the bytes of a value.
pub(crate) fn value_bytes(text: &str) -> Result<usize, String> {
    between(1, 64 << 20, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_run_can_carry_out_is_refused() {
        for text in ["0", "-5", "nan", "inf", "-inf", "1e300", "", "many"] {
            assert!(rate(text).is_err(), "{text}");
            assert!(seconds(text).is_err(), "{text}");
            assert!(milliseconds(text).is_err(), "{text}");
            assert!(operations(text).is_err(), "{text}");
            assert!(connections(text).is_err(), "{text}");
            assert!(window(text).is_err(), "{text}");
        }
        assert_eq!(rate("0.5"), Ok(0.5));
        assert_eq!(seconds("1e-12"), Ok(Duration::from_nanos(1)));
        assert_eq!(seconds("86400"), Ok(Duration::from_hours(24)));
        assert_eq!(connections_or_none("0"), Ok(0));
        assert!(window("1001").is_err() && operations("2000001").is_err());
    }
}
