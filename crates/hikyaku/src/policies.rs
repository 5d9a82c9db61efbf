//! What the policies keep in the data folder: when each key first tried to write.

use std::{path::Path, sync::Arc};

use hikyaku_policies::PolicyConfig;
use hikyaku_tables::Table;
use hikyaku_vfs::{Disk, RealDisk};

use crate::failure::{Failure, chain};

/// The table of first tries, in the data folder.
const FIRST_TRIES: &str = "first-tries.hash";

/// Opens the table of first tries, if a policy asks for it.
pub(crate) fn first_tries(
    data: &Path,
    config: &PolicyConfig,
) -> Result<Option<Arc<dyn Table>>, Failure> {
    if config.account_age.is_none() {
        return Ok(None);
    }
    let disk: Disk = Arc::new(RealDisk);
    hikyaku_tables::open(&disk, data, FIRST_TRIES, None)
        .map(Some)
        .map_err(|error| {
            let path = data.join(FIRST_TRIES);
            Failure::Failed(format!("can't open {}: {}", path.display(), chain(&error)))
        })
}
