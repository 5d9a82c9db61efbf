//! How a command reaches a store (or tables) that a server has open: a Unix socket in the data folder.
//!
//! The client sends one line, the [`Operation`](crate::operations::Operation) as JSON, and for an
//! import its input after it, to the end of its side. The server answers in lines, each with a letter
//! before it: `e` an event, `p` progress, and at last `r` a report or `f` a failure. Who may open the
//! socket may do everything: it belongs to the data folder's owner alone (mode 0600).

mod client;
mod server;

pub(crate) use client::call;
pub(crate) use server::{Carrier, ControlServer};

use std::path::{Path, PathBuf};

const EVENT: u8 = b'e';
const PROGRESS: u8 = b'p';
const REPORT: u8 = b'r';
const FAILURE: u8 = b'f';

/// Returns the socket's path.
pub(crate) fn socket(data: &Path) -> PathBuf {
    data.join("control.sock")
}
