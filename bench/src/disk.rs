//! `disk`: how much a data folder takes, beside the JSON of the events it holds.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::{
    corpus::Corpus,
    error::{During, Result},
    report::{Cell, Output, Report},
};

/// Which folder, and what is in it.
#[derive(Debug, clap::Args)]
pub(crate) struct Disk {
    /// The relay's data folder.
    data: PathBuf,
    /// The corpus that was published to it.
    corpus: PathBuf,
    /// How many events of the corpus; all by default.
    #[arg(long)]
    events: Option<usize>,
    #[command(flatten)]
    output: Output,
}

/// Runs the measurement.
pub(crate) fn disk(options: &Disk) -> Result<()> {
    let corpus = Corpus::read(&options.corpus, options.events)?;
    let (count, json) = corpus.stored_size();
    let mut files = Vec::new();
    walk(&options.data, &mut files)?;
    let mut report = Report::new(
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
        report.row(vec![
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
    report.finish(&options.output)
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
