//! Where an import's events are from: opened by the command itself, whoever has the store open, so that
//! a server needs neither the right to read another relay's database nor its password.

use std::{env, fs::File, io, path::Path, time::Duration};

use hikyaku_sources::{
    Lines, Source, SourceError, nostr_rs_relay::NostrRsRelay, nostream::Nostream, strfry::Strfry,
};

use crate::{command_line::Origin, failure::Failure, operations::Input, present::Total};

/// Opens an import's input, and says how much there is of it, if that is known.
pub(crate) fn open(
    origin: &Origin,
    seen_within: Option<Duration>,
) -> Result<(Input, Total), Failure> {
    if let Some(address) = &origin.from_nostream {
        let password = env::var("PGPASSWORD").ok();
        let nostream = Nostream::connect(address, password.as_deref(), seen_within)?;
        Ok(source(nostream))
    } else if let Some(folder) = &origin.from_strfry {
        Ok(source(Strfry::open(folder)?))
    } else if let Some(path) = &origin.from_nostr_rs_relay {
        Ok(source(NostrRsRelay::open(path)?))
    } else {
        file(&origin.file)
    }
}

fn source(source: impl Source + 'static) -> (Input, Total) {
    let total = source.total().map_or(Total::Unknown, Total::Events);
    (Box::new(Lines::new(Box::new(source))), total)
}

fn file(path: &Path) -> Result<(Input, Total), Failure> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin()), Total::Unknown));
    }
    let failed = |error| Failure::io(&format!("can't read {}", path.display()), &error);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let total = if metadata.is_file() {
        Total::Bytes(metadata.len())
    } else {
        Total::Unknown
    };
    Ok((Box::new(file), total))
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Unreachable(text) | SourceError::Lost(text) => Self::Failed(text),
            SourceError::Foreign(text) => Self::Usage(text),
        }
    }
}
