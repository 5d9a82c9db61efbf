//! The machine: files, disk, clock, memory.

use std::{
    fmt::Write as _,
    fs, io,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use hikyaku_vfs::{RealDisk, Vfs};

use super::finding::{Finding, Findings, Level, rising};
use crate::{
    configuration::Settings,
    operations::ConditionReport,
    present::{bytes, short},
};

/// Descriptors that the program needs beside its clients'.
const FILES_BESIDE: u64 = 256;
/// Writes and syncs that are timed.
const SYNCS: usize = 15;

pub(super) fn examine(
    settings: &Settings,
    condition: Option<&ConditionReport>,
    findings: &mut Findings,
) {
    open_files(settings, condition, findings);
    examine_machine(settings, condition, findings);
}

/// Looks at what matters to whatever runs on the folder.
pub(super) fn examine_machine(
    settings: &Settings,
    condition: Option<&ConditionReport>,
    findings: &mut Findings,
) {
    space(&settings.data, findings);
    sync(&settings.data, findings);
    clock(findings);
    memory(settings, condition, findings);
}

/// Returns a process's hard and soft limit of open files.
fn limits(process: &str) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{process}/limits")).ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with("Max open files"))?;
    let mut numbers = line.split_whitespace().skip(3).map(|word| match word {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    });
    let soft = numbers.next()??;
    Some((numbers.next()??, soft))
}

fn open_files(settings: &Settings, condition: Option<&ConditionReport>, findings: &mut Findings) {
    let check = "open files";
    let process = condition.map_or("self".to_owned(), |c| c.process.to_string());
    let Some((hard, soft)) = limits(&process) else {
        return findings.push(Finding::ok(check, "not known on this system"));
    };
    // The server raises its soft limit to the hard one.
    let limit = if condition.is_some() { soft } else { hard };
    let used = condition
        .and_then(|_| fs::read_dir(format!("/proc/{process}/fd")).ok())
        .map(Iterator::count);
    let needed = settings.server.connections_max as u64 + FILES_BESIDE;
    let raise = format!(
        "raise it to {needed} for {} connections: LimitNOFILE={needed} in the systemd unit, or `ulimit \
         -n`",
        settings.server.connections_max
    );
    let (level, seen) = match used {
        Some(used) => (
            rising(used as f64 / limit as f64, 0.7, 0.9),
            format!("{used} of {limit} are open"),
        ),
        None => (Level::Ok, format!("{limit} may be open")),
    };
    let level = if limit < needed {
        level.max(Level::Warn)
    } else {
        level
    };
    findings.push(Finding::new(check, level, seen, raise));
}

fn space(data: &Path, findings: &mut Findings) {
    let check = "disk space";
    let Some(place) = existing(data) else {
        return;
    };
    match rustix::fs::statvfs(place) {
        Ok(disk) => {
            let free = disk.f_bavail * disk.f_frsize;
            let share = disk.f_bavail as f64 / disk.f_blocks.max(1) as f64;
            let inodes = match disk.f_files {
                0 => 1.0,
                all => disk.f_favail as f64 / all as f64,
            };
            let level = room(share.min(inodes), free);
            let seen = format!(
                "{} free ({:.0}%, {:.0}% of the inodes)",
                bytes(free),
                share * 100.0,
                inodes * 100.0
            );
            let advice = "make room, or move the data folder: a full disk refuses events until there is \
                          room again (`hikyaku compact` frees what is deleted)";
            findings.push(Finding::new(check, level, seen, advice));
        }
        Err(error) => findings.push(Finding::warn(
            check,
            format!("can't be asked: {error}"),
            "check that the data folder can be read",
        )),
    }
}

/// Judges how much of a disk is free: the share, and the bytes.
fn room(share: f64, free: u64) -> Level {
    match (share, free) {
        (share, free) if share < 0.02 || free < 256_000_000 => Level::Bad,
        (share, free) if share < 0.1 || free < 2_000_000_000 => Level::Warn,
        _ => Level::Ok,
    }
}

/// Judges the median of a commit's write and sync: every OK waits for one.
fn pace(median: Duration) -> Level {
    rising(median.as_secs_f64(), 0.02, 0.1)
}

/// Returns the folder, or the next above it that there is.
fn existing(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|path| {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        rustix::fs::stat(path).is_ok()
    })
}

/// Writes and syncs a small file in the data folder, some times, as a commit does.
fn sync(data: &Path, findings: &mut Findings) {
    let check = "sync";
    if rustix::fs::stat(data).is_err() {
        return findings.push(Finding::ok(
            check,
            "not measured: there is no data folder yet",
        ));
    }
    match sync_times(data) {
        Ok(mut times) => {
            times.sort_unstable();
            let at = |index: usize| times.get(index).copied().unwrap_or_default();
            let (median, longest) = (at(times.len() / 2), at(times.len() - 1));
            let level = pace(median);
            let nanoseconds = |time: Duration| time.as_nanos() as u64;
            let seen = format!(
                "a commit's write and sync takes {} ({} at most, of {SYNCS})",
                short(nanoseconds(median)),
                short(nanoseconds(longest))
            );
            let advice = "every OK waits for it: use a disk of its own, or one with a write cache that \
                          survives a power cut; store.durability = \"interval\" does not wait (of tables: `--log \
                          async`)";
            findings.push(Finding::new(check, level, seen, advice));
        }
        Err(error) => findings.push(Finding::bad(
            check,
            format!("can't write to {}: {error}", data.display()),
            "the data folder must belong to the user that the server runs as, and have room",
        )),
    }
}

fn sync_times(data: &Path) -> io::Result<Vec<Duration>> {
    let path = data.join(format!(".doctor-{}", std::process::id()));
    let mut file = RealDisk.create_new(&path)?;
    let written = (0..SYNCS).map(|n| {
        let begun = Instant::now();
        file.write_all_at(&[n as u8; 4096], n as u64 * 4096)?;
        file.sync_data()?;
        Ok(begun.elapsed())
    });
    let times = written.collect();
    drop(file);
    RealDisk.remove(&path)?;
    times
}

/// Whether something keeps the clock. What it is compared with, and by how much it is off, the
/// database's part says where there is one.
fn clock(findings: &mut Findings) {
    let check = "clock";
    let advice = "have it kept by NTP (systemd-timesyncd, chrony): events of the future are refused, and \
                  AUTH fails for a clock that is off";
    let output = Command::new("timedatectl")
        .args(["show", "-p", "NTPSynchronized", "--value"])
        .output();
    let answer = output
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    findings.push(match answer.as_deref() {
        Some("yes") => Finding::ok(check, "kept by NTP"),
        Some("no") => Finding::warn(check, "not kept by NTP", advice),
        _ => Finding::ok(
            check,
            "not known whether it is kept (no timedatectl here); in a container the host's counts",
        ),
    });
}

fn memory(settings: &Settings, condition: Option<&ConditionReport>, findings: &mut Findings) {
    let check = "memory";
    let Ok(text) = fs::read_to_string("/proc/meminfo") else {
        return;
    };
    let of = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kilobytes * 1024)
    };
    let (Some(mut total), Some(available)) = (of("MemTotal:"), of("MemAvailable:")) else {
        return;
    };
    // A container may have less.
    if let Ok(max) = fs::read_to_string("/sys/fs/cgroup/memory.max")
        && let Ok(max) = max.trim().parse::<u64>()
    {
        total = total.min(max);
    }
    // What every query walks; the log is read for answers alone.
    let indexes = match settings.postgres_options() {
        None => condition
            .and_then(|condition| condition.metric("store_segment_bytes"))
            .unwrap_or(0.0),
        Some(_) => 0.0,
    };
    let left = available as f64 / total.max(1) as f64;
    let level = match (left, indexes / total.max(1) as f64) {
        (left, _) if left < 0.03 => Level::Bad,
        (left, need) if left < 0.1 || need > 0.7 => Level::Warn,
        _ => Level::Ok,
    };
    let mut seen = format!("{} of {} free for use", bytes(available), bytes(total));
    if indexes > 0.0 {
        let _ = write!(seen, "; the store's indexes take {:.1} MB", indexes / 1e6);
    }
    let advice = "indexes that do not fit into memory are read from the disk for each query: more memory, \
                  fewer other programs, or old events moved elsewhere (`hikyaku delete`)";
    findings.push(Finding::new(check, level, seen, advice));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_room_is_told_by_its_share_and_by_its_bytes() {
        assert_eq!(room(0.5, 500_000_000_000), Level::Ok);
        assert_eq!(room(0.09, 500_000_000_000), Level::Warn);
        assert_eq!(room(0.5, 1_900_000_000), Level::Warn);
        assert_eq!(room(0.01, 500_000_000_000), Level::Bad);
        assert_eq!(room(0.5, 200_000_000), Level::Bad);
    }

    #[test]
    fn a_disk_that_syncs_slowly_is_told() {
        assert_eq!(pace(Duration::from_millis(3)), Level::Ok);
        assert_eq!(pace(Duration::from_millis(20)), Level::Warn);
        assert_eq!(pace(Duration::from_millis(150)), Level::Bad);
    }
}
