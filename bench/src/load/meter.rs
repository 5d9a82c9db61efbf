//! Processor time and memory while a load is on: the client's, and the server's where it is local.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::{
    error::Result,
    load::{measured::Measured, process::Process},
};

/// What was used up before the load.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    process: Option<&'a Process>,
    server_before: f64,
    client_before: Duration,
}

impl<'a> Meter<'a> {
    pub(crate) fn start(process: Option<&'a Process>) -> Result<Self> {
        let server_before = process.map(Process::cpu_seconds).transpose()?;
        Ok(Self {
            process,
            server_before: server_before.unwrap_or_default(),
            client_before: client_cpu(),
        })
    }

    /// Reads the server's memory; the most that was ever seen is kept.
    pub(crate) fn look(&self, measured: &mut Measured) -> Result<()> {
        if let Some(process) = self.process {
            let memory = process.memory_bytes()?;
            let highest = measured.server_memory_max.unwrap_or(0);
            measured.server_memory_max = Some(memory.max(highest));
        }
        Ok(())
    }

    /// Notes what was used up since the start.
    pub(crate) fn finish(&self, measured: &mut Measured) -> Result<()> {
        measured.client_cpu = client_cpu().saturating_sub(self.client_before);
        if let Some(process) = self.process {
            measured.server_cpu = Some(process.cpu_seconds()? - self.server_before);
        }
        self.look(measured)
    }
}

fn client_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
