//! Load, scoring, comparisons: what `hikyaku bench` does. It speaks to a server as any client does
//! and shares no code with ours, so that it judges ours and its peers alike.

mod amount;
mod command;
mod corpus;
mod disk;
mod error;
mod http;
mod load;
mod relay;
mod report;
mod series;
mod start;
mod tables;

pub use command::{Bench, run};
pub use corpus::Generate;
pub use disk::Disk;
pub use error::BenchError;
pub use http::Http;
pub use relay::Relay;
pub use start::Start;
pub use tables::Tables;
