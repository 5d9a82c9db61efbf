//! Tokyo Cabinet's fixed-length database files (`.tcf`): old data moves in, and its tools can check
//! ours.

mod header;
mod reader;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod transfer;
mod writer;

pub use header::{ByteOrder, TcfHeader};
pub use reader::TcfReader;
pub use transfer::{check_tcf, export_tcf, import_tcf};
pub use writer::TcfWriter;
