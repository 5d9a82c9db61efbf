//! Plugins: objects that the application makes, one for each worker, and the handlers that use them.
//!
//! A factory is called once on each worker's thread; what it makes stays there, so it needs no lock
//! and need not be `Send`. Handlers borrow it. [`Has`] lets a handler ask only for what is
//! registered; a [`Caller`] makes each call, watched, timed, and with its panics caught.

mod blocking;
mod book;
mod call;
mod client;
mod command;
mod hooks;
mod list;
mod plugins;
mod setup;
mod tasks;
mod verdict;
mod watchdog;
mod worker;

pub use blocking::blocking;
pub(crate) use book::{HandlerBook, HandlerCells, HandlerId, HandlerName};
pub(crate) use call::{Call, CallFailure, Caller};
pub use client::Client;
pub use command::CommandError;
pub(crate) use command::CommandName;
pub(crate) use hooks::{Bound, Hook, Hooks};
pub(crate) use list::Instances;
pub use list::{Among, Has, Last, NoPlugins, PluginList, With};
pub(crate) use plugins::{Plugins, QueryDecision};
pub(crate) use setup::{Setup, caught, factory, unpanicked};
pub(crate) use verdict::Decision;
pub use verdict::{QueryVerdict, Verdict, work_done};
pub(crate) use watchdog::Watchdog;
pub use worker::{Counter, Level, Worker};

/// Why a plugin can't start.
pub type PluginError = Box<dyn std::error::Error + Send + Sync>;
