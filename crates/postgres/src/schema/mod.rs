//! The tables and indexes: what they are, and how a schema comes to the newest version.

mod deferred;
mod indexes;
mod migrate;
mod name;
mod versions;

pub(crate) use deferred::{OPEN, defer, make as make_deferred_indexes};
pub(crate) use indexes::{make_missing as make_missing_indexes, wanted as wanted_indexes};
pub(crate) use migrate::migrate;
pub(crate) use name::SchemaName;
pub(crate) use versions::VERSIONS;
pub use versions::schema_sql;
