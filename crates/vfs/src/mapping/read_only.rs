//! Read-only mappings of files that never change again.
#![expect(
    unsafe_code,
    reason = "a file mapping is unsafe to make: what is read can change under the reader"
)]

use std::{fs, io};

use bytes::Bytes;
use memmap2::Mmap;

/// Maps the whole file. The caller owns the promise of [`crate::Vfs::map`].
pub(crate) fn map_read_only(file: &fs::File) -> io::Result<Bytes> {
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: a mapping is sound as long as nobody changes or truncates the file. By the contract of
    // `Vfs::map` only finished files are mapped, and a finished file is only ever removed, which
    // leaves the mapping's pages alone. The files are readable and writable by their owner alone
    // (mode 0600, directories 0700) and the store's folder is locked, so no other program has a
    // reason to touch them. What is read is never trusted without a checksum.
    let mapping = unsafe { Mmap::map(file)? };
    Ok(Bytes::from_owner(mapping))
}
