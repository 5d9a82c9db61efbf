//! The tables and indexes: what they are, and how a schema comes to the newest version.

mod migrate;
mod name;
mod versions;

pub(crate) use migrate::migrate;
pub(crate) use name::SchemaName;
pub use versions::schema_sql;
