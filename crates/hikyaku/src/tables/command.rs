//! The commands and flags about tables.

use std::path::PathBuf;

use clap::Subcommand;

/// The commands about tables.
#[derive(Debug, Subcommand)]
pub(crate) enum TablesCommand {
    /// Put the records of a Tokyo Cabinet file (.tcf) into a table
    ///
    /// Over what is there. Files of both byte orders are read: upstream's, and that of Debian's
    /// build. The counts of a file that was not closed are not believed: all its records are found.
    /// No server may have the table open.
    #[command(after_help = "\
Example:
  hikyaku tables import old/visitors.tcf --into 'visitors.fixed?width=60&limit=1g'")]
    Import {
        /// The folder of the tables
        #[arg(long, value_name = "DIR", default_value = "tables")]
        folder: PathBuf,
        /// The file
        #[arg(value_name = "FILE.tcf")]
        file: PathBuf,
        /// The table, which is made if it is not there
        #[arg(long, value_name = "TABLE")]
        into: String,
    },
    /// Write a table's records to a Tokyo Cabinet file (.tcf)
    ///
    /// Its keys must be numbers from 1, as those of a fixed table are. The file must not exist.
    #[command(after_help = "\
Example:
  hikyaku tables export --from visitors.fixed visitors.tcf && tcfmgr inform visitors.tcf")]
    Export {
        /// The folder of the tables
        #[arg(long, value_name = "DIR", default_value = "tables")]
        folder: PathBuf,
        /// The table
        #[arg(long, value_name = "TABLE")]
        from: String,
        /// The file
        #[arg(value_name = "FILE.tcf")]
        file: PathBuf,
        /// Bytes of each record [default: as the longest needs]
        #[arg(long, value_name = "BYTES")]
        width: Option<u32>,
        /// Write the numbers as Debian's build of Tokyo Cabinet reads them, not upstream's
        #[arg(long)]
        big_endian: bool,
    },
}
