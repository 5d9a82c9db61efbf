//! `bench http`: loads one route of an HTTP server, and checks that it answers the same each time.

mod answer;
mod lane;
mod run;

pub use run::Http;
pub(crate) use run::http;
