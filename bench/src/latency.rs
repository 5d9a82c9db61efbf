//! `latency`: one event at a time, from publishing to its OK and to a live subscriber, with the
//! disk's own pace measured in between: an OK after a sync can't be faster than a sync.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Instant,
};

use crate::{
    error::{BenchError, During, Result},
    fresh::Fresh,
    publish::id_of,
    report::{Cell, Durations, Output, Report},
    socket::{Connection, RelayUrl, frame, ready},
};

/// Where, and how often.
#[derive(Debug, clap::Args)]
pub(crate) struct Latency {
    /// The relay, as ws://host:port.
    relay: RelayUrl,
    /// How many events, with a subscriber and without.
    #[arg(long, default_value_t = 1_000)]
    events: usize,
    /// A folder on the disk that holds the relay's data, where a small file is written and synced.
    #[arg(long, default_value = ".")]
    disk: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// Runs the measurement.
pub(crate) fn latency(options: &Latency) -> Result<()> {
    let mut fresh = Fresh::new();
    let disk = Disk::new(&options.disk)?;
    let mut publisher = Connection::open(&options.relay)?;
    let mut syncs = Durations::default();
    let mut alone = Durations::default();
    let mut answered = Durations::default();
    let mut delivered = Durations::default();
    for _ in 0..options.events {
        let (frames, id) = framed(&fresh.note())?;
        syncs.push(disk.write_and_sync()?);
        let begun = Instant::now();
        publisher.send_frames(&frames)?;
        wait_for(&mut publisher, b"[\"OK\"", &id)?;
        alone.push(begun.elapsed());
    }

    let mut subscriber = Connection::open(&options.relay)?;
    subscriber.send(&format!(
        "[\"REQ\",\"live\",{{\"#t\":[\"{}\"],\"limit\":0}}]",
        fresh.hashtag
    ))?;
    wait_for(&mut subscriber, b"[\"EOSE\"", "")?;
    publisher.set_nonblocking(true)?;
    subscriber.set_nonblocking(true)?;
    for _ in 0..options.events {
        let (frames, id) = framed(&fresh.note())?;
        syncs.push(disk.write_and_sync()?);
        let begun = Instant::now();
        publisher.send_frames(&frames)?;
        let (mut is_answered, mut is_delivered) = (false, false);
        while !(is_answered && is_delivered) {
            ready([(&publisher, false), (&subscriber, false)])?;
            if !is_answered && arrived(&mut publisher, b"[\"OK\"", &id)? {
                is_answered = true;
                answered.push(begun.elapsed());
            }
            if !is_delivered && arrived(&mut subscriber, b"[\"EVENT\"", &id)? {
                is_delivered = true;
                delivered.push(begun.elapsed());
            }
        }
    }

    let mut report = Report::new("latency", &["what", "count", "p50 ms", "p90 ms", "p99 ms"]);
    for (what, durations) in [
        ("write and fdatasync, this disk", &syncs),
        ("publish to OK", &alone),
        ("publish to OK, with a subscriber", &answered),
        ("publish to live subscriber", &delivered),
    ] {
        let quantiles = [500, 900, 990].map(|per_mille| durations.quantile_ms(per_mille));
        let cells: Vec<Cell> = vec![what.into(), durations.count().into()];
        report.row(cells.into_iter().chain(quantiles).collect());
    }
    report.finish(&options.output)
}

fn framed(event: &str) -> Result<(Vec<u8>, String)> {
    let mut frames = Vec::new();
    frame(format!("[\"EVENT\",{event}]").as_bytes(), &mut frames);
    Ok((frames, id_of(event)?.to_owned()))
}

fn is_about(message: &[u8], beginning: &[u8], id: &str) -> Result<bool> {
    if !message.starts_with(beginning) {
        return Ok(false);
    }
    let text = String::from_utf8_lossy(message);
    if beginning == b"[\"OK\"" && text.contains(id) && !text.contains("true") {
        return Err(BenchError::Relay(format!("refused an event: {text}")));
    }
    Ok(text.contains(id))
}

/// Waits for a message that begins so and names the id.
fn wait_for(connection: &mut Connection, beginning: &[u8], id: &str) -> Result<()> {
    while !is_about(connection.receive()?, beginning, id)? {}
    Ok(())
}

fn arrived(connection: &mut Connection, beginning: &[u8], id: &str) -> Result<bool> {
    connection.fill()?;
    while let Some(message) = connection.received()? {
        if is_about(message, beginning, id)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A preallocated file that is overwritten and synced, as a log would be.
struct Disk {
    file: File,
    path: PathBuf,
}

impl Disk {
    fn new(folder: &Path) -> Result<Self> {
        let path = folder.join(format!("hikyaku-bench-{}.tmp", std::process::id()));
        let file = File::create(&path).at(&path)?;
        file.write_all_at(&vec![0; 1 << 16], 0).at(&path)?;
        file.sync_all().at(&path)?;
        Ok(Self { file, path })
    }

    fn write_and_sync(&self) -> Result<std::time::Duration> {
        let begun = Instant::now();
        self.file.write_all_at(&[1; 700], 0).at(&self.path)?;
        self.file.sync_data().at(&self.path)?;
        Ok(begun.elapsed())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
