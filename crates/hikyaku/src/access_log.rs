//! The file, or standard error, that the access log is written to.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use hikyaku_server::{AccessLog, AccessLogFormat};
use hikyaku_vfs::{File, RealDisk, Vfs};

use crate::failure::Failure;

/// What the path is that means standard error.
const STANDARD_ERROR: &str = "-";

/// Whether HTTP requests are written down, and how.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccessLogSettings {
    /// The file; unset, nothing is written.
    pub(crate) path: Option<PathBuf>,
    /// How the lines are written.
    pub(crate) format: AccessLogFormat,
}

impl AccessLogSettings {
    /// Returns the path, if it is one of a file.
    pub(crate) fn file_mut(&mut self) -> Option<&mut PathBuf> {
        let is_file = |path: &&mut PathBuf| path.as_os_str() != STANDARD_ERROR;
        self.path.as_mut().filter(is_file)
    }
}

/// Opens the access log, if there is to be one.
pub(crate) fn start(settings: &AccessLogSettings) -> Result<Option<AccessLog>, Failure> {
    let Some(path) = settings.path.clone() else {
        return Ok(None);
    };
    let shown = path.display().to_string();
    let open = move || -> io::Result<Box<dyn Write + Send>> {
        if path.as_os_str() == STANDARD_ERROR {
            return Ok(Box::new(io::stderr()));
        }
        Ok(Box::new(Appended::open(&path)?))
    };
    AccessLog::start(settings.format, open)
        .map(Some)
        .map_err(|error| Failure::io(&format!("can't write the access log to {shown}"), &error))
}

/// A file that only grows here. Its end is asked for at each write: somebody may have cut it.
struct Appended(Box<dyn File>);

impl Appended {
    fn open(path: &Path) -> io::Result<Self> {
        let file = match RealDisk.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => RealDisk.create_new(path)?,
            opened => opened?,
        };
        Ok(Self(file))
    }
}

impl Write for Appended {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.0.len()?;
        self.0.write_all_at(bytes, end)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
