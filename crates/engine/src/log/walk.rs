//! Walking a file for an operator: all damage is reported, all intact records are handed over.

use std::path::{Path, PathBuf};

use hikyaku_store::Sequence;
use hikyaku_vfs::Disk;

use super::{
    error::LogError,
    header::{HEADER_LEN, file_path},
    position::LogPosition,
    record::Record,
    recovery::read_whole,
    scan::Scan,
    sealed::SealedLog,
};

/// What a walk comes by.
#[derive(Debug, Clone)]
pub(crate) enum Walked {
    /// An intact record.
    Record(LogPosition, Sequence, Record),
    /// Bytes that are not what was written.
    Damage(Damage),
}

/// A damaged range of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Which file.
    pub(crate) path: PathBuf,
    /// Where it begins.
    pub(crate) offset: u64,
    /// How many bytes it is.
    pub(crate) len: u64,
    /// What should be there.
    pub(crate) expected: String,
    /// What is there.
    pub(crate) found: String,
}

/// Checks every byte of a sealed file.
pub(crate) fn verify(sealed: &SealedLog, mut visit: impl FnMut(Walked)) {
    if let Err(LogError::Corrupt {
        path,
        offset,
        expected,
        found,
    }) = sealed.check_table()
    {
        visit(Walked::Damage(Damage {
            path,
            offset,
            len: sealed.len() - offset,
            expected,
            found,
        }));
    }
    walk(sealed.scan(), sealed.path(), false, &mut visit);
}

/// Finds all that is intact in a file that may be damaged anywhere. The last file of a log may end
/// in allocated zeros. Errors are those of the disk, and a newer format.
pub(crate) fn salvage(
    disk: &Disk,
    dir: &Path,
    file: u32,
    generation: u32,
    is_last: bool,
    mut visit: impl FnMut(Walked),
) -> Result<(), LogError> {
    let path = file_path(dir, file, generation);
    let (_, bytes) = read_whole(disk, &path)?;
    let damage = match SealedLog::from_bytes(path.clone(), bytes.clone(), file, generation) {
        Ok(sealed) if !is_last => {
            verify(&sealed, visit);
            return Ok(());
        }
        Ok(_) => None,
        Err(LogError::Corrupt {
            path,
            offset,
            expected,
            found,
        }) => Some(Damage {
            path,
            offset,
            len: (bytes.len() as u64)
                .saturating_sub(offset)
                .min(HEADER_LEN as u64),
            expected,
            found,
        }),
        Err(error) => return Err(error),
    };
    if let Some(damage) = damage {
        visit(Walked::Damage(damage));
    }
    // Records say themselves all that is needed of them: neither header nor table is missed.
    let scan = Scan::new(bytes, file, generation > 1, HEADER_LEN, Sequence(0));
    walk(scan, &path, is_last, &mut visit);
    Ok(())
}

fn walk(mut scan: Scan, path: &Path, may_end_in_zeros: bool, visit: &mut impl FnMut(Walked)) {
    while !scan.is_at_end() {
        let from = scan.at();
        let (expected, found) = match scan.next_frame() {
            Ok(frame) => match scan.decode(&frame, path) {
                Ok((position, sequence, record)) => {
                    visit(Walked::Record(position, sequence, record));
                    continue;
                }
                Err(LogError::Corrupt {
                    expected, found, ..
                }) => (expected, found),
                Err(_) => continue,
            },
            Err(damage) => {
                if may_end_in_zeros && scan.tail().is_empty() {
                    return;
                }
                let next = scan.following().next();
                scan.move_to(next.map_or(scan.bytes().len(), |frame| frame.start));
                (damage.expected(), damage.to_string())
            }
        };
        visit(Walked::Damage(Damage {
            path: path.to_path_buf(),
            offset: from as u64,
            len: (scan.at() - from) as u64,
            expected,
            found,
        }));
    }
}
