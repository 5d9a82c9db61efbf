//! What the operating system says about the server's process: processor time and memory.

use std::{fs, path::Path};

use crate::error::{BenchError, During, Result};

/// A process that is watched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    id: u32,
}

impl Process {
    /// Finds the process that listens on a port of this machine.
    pub(crate) fn listening(port: u16) -> Result<Self> {
        let inode = ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .filter_map(|table| fs::read_to_string(table).ok())
            .find_map(|table| listening_inode(&table, port));
        inode
            .and_then(|inode| owner(&format!("socket:[{inode}]")))
            .map(|id| Self { id })
            .ok_or_else(|| {
                BenchError::Input(format!(
                    "no process that we may look into listens on port {port}"
                ))
            })
    }

    /// Returns the name of its program.
    pub(crate) fn name(self) -> Option<String> {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.id)).ok()?;
        Some(name.trim_end().to_owned())
    }

    /// Returns the processor time used so far by all its threads, in seconds.
    pub(crate) fn cpu_seconds(self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.id);
        let stat = fs::read_to_string(&path).during(&path)?;
        // The name may hold spaces: what follows its closing parenthesis has fixed places.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks: u64 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<u64>().ok())
            .sum();
        Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Returns the memory it occupies, in bytes, without the file pages it has mapped.
    pub(crate) fn memory_bytes(self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.id);
        let status = fs::read_to_string(&path).during(&path)?;
        let kibibytes = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"))
            .and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kibibytes
            .map(|count| count * 1024)
            .ok_or_else(|| BenchError::Input(format!("{path} has no RssAnon")))
    }
}

fn listening_inode(table: &str, port: u16) -> Option<String> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (_, hex) = fields.get(1)?.rsplit_once(':')?;
        // 0A is the state of a listening socket.
        let listens = *fields.get(3)? == "0A" && u16::from_str_radix(hex, 16).ok()? == port;
        listens.then(|| fields.get(9).map(ToString::to_string))?
    })
}

fn owner(socket: &str) -> Option<u32> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        let mut open = fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        let owns = |link: &Path| fs::read_link(link).is_ok_and(|to| to == Path::new(socket));
        open.any(|descriptor| owns(&descriptor.path()))
            .then_some(id)
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_process_behind_a_port_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let process = Process::listening(listener.local_addr().unwrap().port()).unwrap();
        assert_eq!(process.id, std::process::id());
        assert!(process.memory_bytes().unwrap() > 0);
        assert!(process.cpu_seconds().is_ok());
    }
}
