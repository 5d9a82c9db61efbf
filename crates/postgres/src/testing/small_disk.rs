//! A file system that can be full.

use std::process::Command;

use super::cluster::{is_root, output, unprivileged};

/// A small file system in memory, for files of the test's server.
pub struct SmallDisk {
    folder: String,
}

impl SmallDisk {
    /// Mounts one of so many MiB; only root may, and not in every container. Says so otherwise.
    pub fn mount(mib: u32) -> Option<Self> {
        if !is_root() {
            eprintln!("SKIPPED: only root can mount a small disk");
            return None;
        }
        let folder = output("mktemp", &["-d", "/tmp/hikyaku-small-disk.XXXXXX"]);
        let user = unprivileged();
        let options = format!("size={mib}m,mode=0700,uid={user},gid={user}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs", &folder]);
        // Made first, so that the folder goes in any case.
        let disk = Self { folder };
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(disk);
        }
        eprintln!("SKIPPED: this system lets nobody mount a small disk");
        None
    }

    /// Returns where it is.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Gives it room.
    pub fn grow(&self, mib: u32) {
        let options = format!("remount,size={mib}m");
        output("mount", &["-o", &options, &self.folder]);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The server may still have files open there.
        output("umount", &["-l", &self.folder]);
        let _ = Command::new("rmdir").arg(&self.folder).status();
    }
}
