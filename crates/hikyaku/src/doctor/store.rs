//! The embedded store.

use super::finding::{Finding, Findings, Level, rising};
use crate::{
    configuration::{DurabilityKind, Settings},
    failure::Failure,
    operations::{Operation, Report},
    present::{bytes, grouped},
    store::{Absent, Store},
};

pub(super) fn examine(settings: &Settings, served: bool, findings: &mut Findings) {
    if settings.postgres_options().is_some() {
        return;
    }
    match settings.durability {
        DurabilityKind::Sync => findings.push(Finding::ok(
            "durability",
            "what is answered OK survives a power cut",
        )),
        DurabilityKind::Interval => findings.push(Finding::warn(
            "durability",
            "a power cut may take the last moments' events, although they were answered OK",
            "if that is not meant, set store.durability = \"sync\"",
        )),
    }
    let report =
        Store::reach(settings, Absent::Refuse).and_then(|store| store.ask(&Operation::Statistics));
    let report = match report {
        Ok(Report::Statistics(report)) => report,
        Ok(_) => return,
        Err(Failure::Failed(text)) if !served && text.starts_with("there is no store") => {
            return findings.push(Finding::ok("store", "there is none yet"));
        }
        Err(error) => {
            return findings.push(Finding::bad(
                "store",
                error.to_string(),
                "`hikyaku verify` says what is wrong, `hikyaku repair` mends it",
            ));
        }
    };
    if let Some(stopped) = &report.stopped {
        findings.push(Finding::bad(
            "store",
            format!("refuses writes: {stopped}"),
            "see to the disk, then start the server again",
        ));
    } else {
        findings.push(Finding::ok(
            "store",
            format!(
                "{} events, {}",
                grouped(report.events),
                bytes(report.segment_bytes + report.log_bytes + report.open_log_bytes)
            ),
        ));
    }
    let waiting = report.waiting_flushes;
    let level = behind(waiting, report.segments);
    findings.push(Finding::new(
        "merges",
        level,
        format!(
            "{} segments, {waiting} closed log files wait for theirs",
            report.segments
        ),
        "the disk does not keep up with what is written: slow the import down, or use a faster disk; \
         `hikyaku compact` merges all",
    ));
}

/// Judges how far merging is behind: log files that wait for their segment, and segments.
fn behind(waiting: u64, segments: u64) -> Level {
    rising(waiting as f64, 3.0, 10.0).max(rising(segments as f64, 200.0, 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_are_behind_by_what_waits_or_by_what_is_not_merged() {
        assert_eq!(behind(2, 199), Level::Ok);
        assert_eq!(behind(3, 0), Level::Warn);
        assert_eq!(behind(0, 200), Level::Warn);
        assert_eq!(behind(10, 200), Level::Bad);
        assert_eq!(behind(0, 1000), Level::Bad);
    }
}
