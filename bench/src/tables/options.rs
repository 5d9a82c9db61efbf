//! What `bench tables` can be told.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::{amount, load::Permission, report::Output, tables::parts::Part};

/// Which server, and how it is loaded.
#[derive(Debug, Clone, Args)]
pub struct Tables {
    /// The server: host:port speaks memcached's protocol, redis://host:port that of Redis
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,
    /// A second server, measured in turns with the first: A B A B
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) vs: Option<String>,
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) parts: Vec<Part>,
    /// Rounds of each part
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) rounds: u16,
    /// Seconds of each part in each round
    #[arg(long, default_value = "1", value_parser = amount::seconds)]
    pub(crate) seconds: Duration,
    /// Operations of each part in each round, at most
    #[arg(long, default_value_t = 5_000_000, value_parser = amount::count)]
    pub(crate) operations: usize,
    /// Seconds that an answer may take
    #[arg(long, default_value = "10", value_parser = amount::seconds)]
    pub(crate) patience: Duration,
    /// Connections of the parts that have several
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// Requests under way on each connection where they are pipelined
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) window: u16,
    /// Operations a second of the open loop [default: half of what the slower server did pipelined]
    #[arg(long, value_parser = amount::rate)]
    pub(crate) rate: Option<f64>,
    /// Different keys: 8 digits each
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) keys: u32,
    /// Which keys are asked for
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    pub(crate) distribution: Distribution,
    /// Bytes of the values: of several sizes, each key keeps to one
    #[arg(
        long,
        value_name = "BYTES",
        value_delimiter = ',',
        default_value = "8,100,1000",
        value_parser = amount::value_bytes
    )]
    pub(crate) value_bytes: Vec<usize>,
    /// What the keys of rotated lists (64 bytes each) begin with: a table of their own, say
    #[arg(long, value_name = "PREFIX", default_value = "list:", value_parser = prefix)]
    pub(crate) lists: String,
    /// What an answered write survives at the first server, for the report
    #[arg(long, value_name = "TEXT")]
    pub(crate) durability: Option<String>,
    /// The same of the second server
    #[arg(long, value_name = "TEXT", requires = "vs")]
    pub(crate) vs_durability: Option<String>,
    /// The same seed draws the same keys
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) permission: Permission,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// How keys are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Distribution {
    /// One after the other, as a program has them that goes through its members
    Sequential,
    /// Each as often as any other
    Uniform,
    /// A few most of the time (Zipf's law)
    Zipf,
}

/// A prefix goes into a line of the protocol as it is.
fn prefix(text: &str) -> Result<String, &'static str> {
    if text.len() <= 100 && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("expected at most 100 visible ASCII characters")
    }
}
