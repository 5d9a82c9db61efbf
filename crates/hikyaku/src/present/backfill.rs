//! A backfill's status as text.

use std::fmt::Write;

use hikyaku_postgres::{BackfillState, BackfillStatus};
use serde_json::json;

use super::figures::{duration, grouped};

/// Writes names: the letters in a row, longer ones apart.
fn together(names: &[String]) -> String {
    let (letters, words): (Vec<&str>, Vec<&str>) =
        (names.iter().map(String::as_str)).partition(|name| name.len() == 1);
    let letters = letters.concat();
    let parts = [&*letters].into_iter().filter(|part| !part.is_empty());
    parts.chain(words).collect::<Vec<_>>().join(" ")
}

/// Writes how far a backfill is. Ends with a line's end.
pub(crate) fn backfill(status: &BackfillStatus, as_json: bool) -> String {
    if as_json {
        let object = json!({
            "state": match status.state {
                BackfillState::Idle => "idle",
                BackfillState::Running => "running",
                BackfillState::Paused => "paused",
            },
            "filling": status.filling,
            "dropping": status.dropping,
            "indexed": status.indexed,
            "done": status.done,
            "total": status.total,
            "rate": status.rate(),
            "seconds_left": status.left().map(|left| left.as_secs_f64()),
            "share": status.pace.share,
            "rate_max": status.pace.rate,
        });
        return format!("{object}\n");
    }
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "indexed: {}", together(&status.indexed));
    if !status.dropping.is_empty() {
        let _ = writeln!(text, "being taken out: {}", together(&status.dropping));
    }
    if !status.filling.is_empty() {
        #[expect(
            clippy::cast_sign_loss,
            reason = "events divided by a time are no less than 0"
        )]
        let rate = grouped(status.rate() as u64);
        let _ = write!(
            text,
            "being indexed: {}; {} of {} events, {rate}/s",
            together(&status.filling),
            grouped(status.done),
            grouped(status.total.max(status.done)),
        );
        if let Some(left) = status.left() {
            let _ = write!(text, ", {} left", duration(left));
        }
        text.push('\n');
    }
    if status.state != BackfillState::Idle {
        let rate = status.pace.rate.map_or(String::new(), |rate| {
            format!(", at most {} events/s", grouped(rate.into()))
        });
        let paused = match status.state {
            BackfillState::Paused => "paused; ",
            _ => "",
        };
        let _ = writeln!(
            text,
            "{paused}pace: {} % of the time{rate}",
            status.pace.share
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hikyaku_postgres::Pace;

    use super::*;

    #[test]
    fn a_status_tells_done_total_rate_and_time_left() {
        let mut status = BackfillStatus {
            state: BackfillState::Paused,
            pace: Pace {
                share: 25,
                rate: Some(5000),
            },
            filling: vec!["t".to_owned()],
            dropping: vec![],
            indexed: vec!["e".to_owned(), "p".to_owned()],
            done: 10_000,
            total: 40_000,
            elapsed: Duration::from_secs(5),
        };
        assert_eq!(
            backfill(&status, false),
            "indexed: ep\n\
             being indexed: t; 10,000 of 40,000 events, 2,000/s, 15.0 s left\n\
             paused; pace: 25 % of the time, at most 5,000 events/s\n"
        );
        status.filling.clear();
        status.state = BackfillState::Idle;
        assert_eq!(backfill(&status, false), "indexed: ep\n");
    }
}
