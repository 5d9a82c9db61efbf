//! Disks: how much a data folder takes, beside the JSON of the events it holds, and how fast the disk
//! itself is: a write that is answered when it is synced can't be faster than a sync.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use crate::{
    corpus::Corpus,
    error::{BenchError, During, Result},
    load::Latencies,
    report::{Cell, Table},
};

/// How often the disk is asked to sync.
const SYNCS: usize = 200;
/// About an event.
const WRITE_BYTES: usize = 700;

/// Which folder, and what is in it.
#[derive(Debug, Clone, clap::Args)]
pub struct Disk {
    /// The relay's data folder
    data: PathBuf,
    /// The corpus that was published to it
    corpus: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the measurement.
pub(crate) fn disk(options: &Disk, stop: &AtomicBool) -> Result<()> {
    let corpus = Corpus::read(&options.corpus, &[], stop)?;
    let (count, json) = corpus.stored_size();
    let mut files = Vec::new();
    walk(&options.data, &mut files)?;
    let mut table = Table::new(
        "disk",
        &[
            "what",
            "MB",
            "MB allocated",
            "bytes/event",
            "times the JSON",
        ],
    );
    let mut row = |what: &str, bytes: u64, allocated: u64| {
        table.row(vec![
            what.into(),
            Cell::Number(bytes as f64 / 1e6, 1),
            Cell::Number(allocated as f64 / 1e6, 1),
            Cell::Number(bytes as f64 / count.max(1) as f64, 0),
            Cell::Number(bytes as f64 / json.max(1) as f64, 3),
        ]);
    };
    row("JSON of the stored events", json, json);
    // By kind of file, so that it is plain what takes the space.
    let mut extensions: Vec<_> = files.iter().map(|file| file.extension.as_str()).collect();
    extensions.sort_unstable();
    extensions.dedup();
    for extension in extensions {
        let of_kind = files.iter().filter(|file| file.extension == extension);
        let (bytes, allocated) = sum(of_kind);
        row(&format!("*.{extension}"), bytes, allocated);
    }
    let (bytes, allocated) = sum(files.iter());
    row("data folder", bytes, allocated);
    if options.json {
        println!("{:#}", serde_json::Value::from(table.objects()));
    } else {
        print!("{table}");
    }
    Ok(())
}

/// Measures a small write and its sync in a folder.
pub(crate) fn pace(folder: &Path, stop: &AtomicBool) -> Result<Table> {
    let path = folder.join(format!("hikyaku-bench-{}.tmp", std::process::id()));
    let syncs = syncs(&path, stop);
    let removed = fs::remove_file(&path);
    let latencies = syncs?;
    removed.at(&path)?;
    let summary = latencies.summary();
    let mut table = Table::new(
        "the disk itself: a write and its sync",
        &["folder", "count", "p50 ms", "p99 ms", "max ms"],
    );
    table.row(vec![
        folder.display().to_string().into(),
        summary.count.into(),
        Cell::Number(summary.p50_ms, 3),
        Cell::Number(summary.p99_ms, 3),
        Cell::Number(summary.max_ms, 3),
    ]);
    Ok(table)
}

/// Overwrites a preallocated file, as a log would.
fn syncs(path: &Path, stop: &AtomicBool) -> Result<Latencies> {
    let file = File::create(path).at(path)?;
    file.write_all_at(&vec![0; 1 << 16], 0).at(path)?;
    file.sync_all().at(path)?;
    let mut latencies = Latencies::default();
    for _ in 0..SYNCS {
        if stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        let begun = Instant::now();
        file.write_all_at(&[1; WRITE_BYTES], 0).at(path)?;
        file.sync_data().at(path)?;
        latencies.record(begun.elapsed());
    }
    Ok(latencies)
}

struct FileSize {
    extension: String,
    bytes: u64,
    allocated: u64,
}

fn sum<'a>(files: impl Iterator<Item = &'a FileSize>) -> (u64, u64) {
    files.fold((0, 0), |(bytes, allocated), file| {
        (bytes + file.bytes, allocated + file.allocated)
    })
}

fn walk(folder: &Path, files: &mut Vec<FileSize>) -> Result<()> {
    for entry in fs::read_dir(folder).at(folder)? {
        let path = entry.at(folder)?.path();
        let metadata = fs::symlink_metadata(&path).at(&path)?;
        if metadata.is_dir() {
            walk(&path, files)?;
        } else if metadata.is_file() {
            let extension = path
                .extension()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            files.push(FileSize {
                extension,
                bytes: metadata.len(),
                allocated: metadata.blocks() * 512,
            });
        }
    }
    Ok(())
}
