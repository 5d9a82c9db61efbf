//! What the operating system says about the server's processes: processor time and memory.

use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

use crate::error::{BenchError, Result};

/// The processes that are watched: all that hold a listening socket, and their children.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    /// Those that hold the socket, the oldest first.
    ids: Vec<u32>,
}

impl Process {
    /// Finds the processes that listen at an address of this machine.
    pub(crate) fn listening(address: SocketAddr) -> Result<Self> {
        let sockets = listening_sockets(address);
        let ids: Vec<u32> = processes()
            .filter(|id| holds(*id, &sockets))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        if ids.is_empty() {
            return Err(BenchError::Input(format!(
                "no process that we may look into listens at {address}"
            )));
        }
        Ok(Self { ids })
    }

    /// Returns the name of their program.
    pub(crate) fn name(&self) -> Option<String> {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.ids.first()?)).ok()?;
        Some(name.trim_end().to_owned())
    }

    /// Returns the processor time used so far, in seconds, by all threads of all processes that live,
    /// and by the children that they have outlived.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        let ticks = self.sum("stat", |stat| {
            // The name may hold spaces: what follows its closing parenthesis has fixed places.
            let (_, fields) = stat.rsplit_once(')')?;
            let times = fields.split_whitespace().skip(11).take(4);
            Some(times.filter_map(|field| field.parse::<u64>().ok()).sum())
        })?;
        Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Returns the memory they occupy, in bytes, without the file pages they have mapped.
    pub(crate) fn memory_bytes(&self) -> Result<u64> {
        let kibibytes = self.sum("status", |status| {
            let mut lines = status.lines();
            let line = lines.find_map(|line| line.strip_prefix("RssAnon:"))?;
            line.trim().trim_end_matches(" kB").parse().ok()
        })?;
        Ok(kibibytes * 1024)
    }

    /// Adds up a figure of a file of each process; one that has ended meanwhile has none.
    fn sum(&self, file: &str, figure: impl Fn(&str) -> Option<u64>) -> Result<u64> {
        let mut found = None;
        for id in self.family() {
            let text = fs::read_to_string(format!("/proc/{id}/{file}"));
            if let Some(one) = text.ok().and_then(|text| figure(&text)) {
                found = Some(found.unwrap_or(0) + one);
            }
        }
        found.ok_or_else(|| BenchError::Server("has ended: its processes are gone".to_owned()))
    }

    /// Returns the processes that hold the socket and all that these have started.
    fn family(&self) -> BTreeSet<u32> {
        let mut family = BTreeSet::new();
        let mut met = self.ids.clone();
        while let Some(id) = met.pop() {
            if family.insert(id) {
                met.extend(children(id));
            }
        }
        family
    }
}

/// Returns what the threads of a process have started.
fn children(id: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{id}/task"));
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).ok();
    let texts = threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(of_thread);
    let ids = |text: String| {
        let ids = text.split_whitespace().map(str::parse);
        ids.filter_map(std::result::Result::ok).collect::<Vec<_>>()
    };
    texts.flat_map(ids).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn holds(id: u32, sockets: &[PathBuf]) -> bool {
    let open = fs::read_dir(format!("/proc/{id}/fd"));
    let mut open = open.into_iter().flatten().flatten();
    open.any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|to| sockets.contains(&to)))
}

/// Returns the sockets that listen at an address: those of the address itself, and if there are none
/// those of every address.
fn listening_sockets(address: SocketAddr) -> Vec<PathBuf> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let texts = tables.map(|table| fs::read_to_string(Path::new(table)).unwrap_or_default());
    let listening: Vec<_> = texts.iter().flat_map(|text| listening(text)).collect();
    let of = |wanted: &dyn Fn(IpAddr) -> bool| {
        let found = listening
            .iter()
            .filter(|(at, _)| at.port() == address.port() && wanted(at.ip()));
        found
            .map(|(_, inode)| PathBuf::from(format!("socket:[{inode}]")))
            .collect::<Vec<_>>()
    };
    let here = address.ip().to_canonical();
    let exactly = of(&|ip| ip.to_canonical() == here);
    if exactly.is_empty() {
        return of(&|ip| ip.is_unspecified());
    }
    exactly
}

/// Reads the addresses and inodes of listening sockets from a table of the kernel.
fn listening(table: &str) -> impl Iterator<Item = (SocketAddr, &str)> {
    table.lines().skip(1).filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        // 0A is the state of a listening socket.
        if *fields.get(3)? != "0A" {
            return None;
        }
        Some((socket_address(fields.get(1)?)?, *fields.get(9)?))
    })
}

/// Reads an address as the kernel prints it: words of four bytes, each in the machine's order.
fn socket_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::new();
    for at in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(four) => IpAddr::from(Ipv4Addr::from(four)),
        Err(_) => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?)),
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use std::{
        net::TcpListener,
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn the_process_behind_an_address_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let process = Process::listening(listener.local_addr().unwrap()).unwrap();
        assert_eq!(process.ids, [std::process::id()]);
        assert!(process.memory_bytes().unwrap() > 0);
        assert!(process.cpu_seconds().is_ok());
        let port = listener.local_addr().unwrap().port();
        assert!(Process::listening(SocketAddr::from(([127, 0, 0, 2], port))).is_err());
    }

    #[test]
    fn a_socket_of_every_address_is_one_of_this_address_too() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let process = Process::listening(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        assert_eq!(process.ids, [std::process::id()]);
    }

    #[test]
    fn children_are_of_the_family() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let here = Process {
            ids: vec![std::process::id()],
        };
        assert!(here.family().contains(&child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!here.family().contains(&child.id()));
        let gone = Process {
            ids: vec![child.id()],
        };
        assert!(gone.cpu_seconds().is_err());
    }

    #[test]
    fn addresses_are_read_as_the_kernel_prints_them() {
        let four = socket_address("0100007F:1F90");
        let six = socket_address("00000000000000000000000001000000:1F90");
        if cfg!(target_endian = "little") {
            assert_eq!(four, Some(SocketAddr::from(([127, 0, 0, 1], 8080))));
            assert_eq!(six, Some("[::1]:8080".parse().unwrap()));
        }
        assert_eq!(socket_address("0100:1"), None);
    }
}
