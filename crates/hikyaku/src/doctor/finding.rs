//! What was found.

use std::fmt::Write;

use serde::Serialize;
use serde_json::json;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    Ok,
    /// It will hurt some day, or hurts a little.
    Warn,
    /// It hurts, or is about to.
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    /// What was looked at.
    check: &'static str,
    level: Level,
    /// What was seen.
    seen: String,
    /// What to do; nothing if all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, seen: impl Into<String>) -> Self {
        Self {
            check,
            level: Level::Ok,
            seen: seen.into(),
            advice: None,
        }
    }

    pub(super) fn warn(
        check: &'static str,
        seen: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(check, Level::Warn, seen, advice)
    }

    pub(super) fn bad(
        check: &'static str,
        seen: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(check, Level::Bad, seen, advice)
    }

    /// Makes a finding of this level; what is well needs no advice.
    pub(super) fn new(
        check: &'static str,
        level: Level,
        seen: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            check,
            level,
            seen: seen.into(),
            advice: (level > Level::Ok).then(|| advice.into()),
        }
    }
}

/// Returns the level of a number of which more is worse.
pub(super) fn rising(value: f64, warn: f64, bad: f64) -> Level {
    match value {
        value if value >= bad => Level::Bad,
        value if value >= warn => Level::Warn,
        _ => Level::Ok,
    }
}

/// All that was looked at.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    pub(super) fn push(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    pub(super) fn worst(&self) -> Level {
        let levels = self.0.iter().map(|finding| finding.level);
        levels.max().unwrap_or(Level::Ok)
    }

    pub(super) fn json(&self) -> String {
        format!("{}\n", json!({"worst": self.worst(), "findings": self.0}))
    }

    /// Writes all findings, the worst last, where they are seen.
    pub(super) fn text(&self) -> String {
        let mut sorted: Vec<_> = self.0.iter().collect();
        sorted.sort_by_key(|finding| finding.level);
        let width = sorted.iter().map(|finding| finding.check.len()).max();
        let width = width.unwrap_or_default();
        let mut text = String::new();
        for finding in sorted {
            let level = match finding.level {
                Level::Ok => "ok  ",
                Level::Warn => "warn",
                Level::Bad => "BAD ",
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{level}  {:width$}  {}", finding.check, finding.seen);
            if let Some(advice) = &finding.advice {
                let _ = writeln!(text, "{:indent$}-> {advice}", "", indent = width + 8);
            }
        }
        let count = |level| self.0.iter().filter(|f| f.level == level).count();
        let _ = writeln!(
            text,
            "\n{} checks, {} to look at, {} bad",
            self.0.len(),
            count(Level::Warn),
            count(Level::Bad)
        );
        text
    }
}
