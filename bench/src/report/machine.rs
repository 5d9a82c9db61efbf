//! The machine and the moment of a measurement: without them a figure says nothing.

use std::{
    fs, thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

/// What a measurement ran on.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_mb: u64,
    pub(crate) system: String,
    /// What else runs here: the mean of the last minute, when the run began.
    pub(crate) load_before: String,
}

impl Machine {
    pub(crate) fn here() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kilobytes = memory
            .split(' ')
            .next()
            .and_then(|count| count.parse::<u64>().ok());
        let system = rustix::system::uname();
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_mb: kilobytes.unwrap_or(0) / 1_024,
            system: format!(
                "{} {}",
                system.sysname().to_string_lossy(),
                system.release().to_string_lossy()
            ),
            load_before: read("/proc/loadavg")
                .split(' ')
                .next()
                .unwrap_or_default()
                .to_owned(),
        }
    }
}

/// Returns the time as a date and a time of day, UTC (RFC 3339).
pub(crate) fn now() -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    date(since_epoch.unwrap_or_default())
}

fn date(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years from March on, in eras of 400 years (Howard Hinnant's civil_from_days).
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!(
        "{}-{month:02}-{day_of_month:02}T{:02}:{:02}:{:02}Z",
        era * 400 + year + next_year,
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, right) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
        ] {
            assert_eq!(date(Duration::from_secs(seconds)), right);
        }
    }
}
