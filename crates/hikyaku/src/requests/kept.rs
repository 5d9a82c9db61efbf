//! Snapshots kept in files, to be compared with later.

use std::{fs, path::Path};

use hikyaku_observe::Snapshot;

use crate::failure::Failure;

/// Writes a snapshot to a file, over what was there.
pub(super) fn save(snapshot: &Snapshot, path: &Path) -> Result<(), Failure> {
    let json = serde_json::to_string(snapshot)
        .map_err(|error| Failure::Failed(format!("can't write the snapshot: {error}")))?;
    fs::write(path, json + "\n")
        .map_err(|error| Failure::io(&format!("can't write {}", path.display()), &error))
}

/// Reads a snapshot from a file.
pub(super) fn load(path: &Path) -> Result<Snapshot, Failure> {
    let json = fs::read(path)
        .map_err(|error| Failure::io(&format!("can't read {}", path.display()), &error))?;
    serde_json::from_slice(&json).map_err(|error| {
        Failure::Usage(format!(
            "{} is not a snapshot of `hikyaku slow --save`: {error}",
            path.display()
        ))
    })
}
