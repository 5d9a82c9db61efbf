//! `bench tables`: loads a server of records by key, by memcached's text protocol, Tokyo Tyrant's or
//! Redis's, and checks every answer.

mod bare;
mod lane;
mod options;
mod parts;
mod record;
mod run;
mod script;
mod speech;

pub use options::Tables;
pub(crate) use run::tables;
