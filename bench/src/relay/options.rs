//! What `bench relay` can be told.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum, builder::PossibleValuesParser};

use crate::{
    amount::{self, PLANNED_MAX},
    corpus::SHAPES,
    error::{BenchError, Result},
    load::Permission,
    report::Output,
    series::count_of,
};

/// What a phase does, at most, if nothing else is said.
const OPERATIONS: usize = 50_000;

/// Which relay, and what to do to it.
#[derive(Debug, Clone, Args)]
pub struct Relay {
    /// The relay, as ws://host:port
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// A second relay, measured in turns with the first: A B A B
    #[arg(long, value_name = "URL")]
    pub(crate) vs: Option<String>,
    /// Instead of the phases: a minute of mixed load with a score
    #[arg(long, value_enum)]
    pub(crate) level: Option<Level>,
    /// Only these phases
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "level")]
    pub(crate) phases: Vec<Phase>,
    #[command(flatten)]
    pub(crate) corpus: CorpusOptions,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    #[command(flatten)]
    pub(crate) shape: LoadShape,
    /// What an answered write survives at the first relay ("synced", "in memory"), for the report
    #[arg(long, value_name = "TEXT")]
    pub(crate) durability: Option<String>,
    /// The same of the second relay
    #[arg(long, value_name = "TEXT", requires = "vs")]
    pub(crate) vs_durability: Option<String>,
    /// A folder on the disk of the relay's data: its own pace is measured too
    #[arg(long, value_name = "DIR")]
    pub(crate) disk: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) permission: Permission,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// What the relay holds when it is loaded.
#[derive(Debug, Clone, Args)]
pub(crate) struct CorpusOptions {
    /// The corpus, as `bench generate` writes it; one is made without [default: --events of --seed]
    #[arg(long, value_name = "FILE")]
    pub(crate) corpus: Option<PathBuf>,
    /// The relays hold the corpus already: it is not published, only asked for
    #[arg(long, requires = "corpus")]
    pub(crate) loaded: bool,
    /// What the second relay holds, if not the same: a longer corpus of the same seed, say
    #[arg(long, value_name = "FILE", requires_all = ["vs", "corpus"])]
    pub(crate) vs_corpus: Option<PathBuf>,
    /// Publish the corpus one event at a time: some relays keep two versions of a replaceable event
    /// when both arrive together, and answer wrongly from then on
    #[arg(long)]
    pub(crate) one_by_one: bool,
    /// Events of the corpus that is made
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) events: u64,
    /// Of the corpus that is made, and of the questions
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Events of the same second may come in any order; NIP-01 has the lowest id first, which not
    /// every relay keeps to
    #[arg(long)]
    pub(crate) free_ties: bool,
    /// Publish no events of this kind, in the corpus or behind it; may be given several times
    #[arg(long, value_name = "KIND")]
    pub(crate) without_kind: Vec<u16>,
    /// Ask no questions of this shape, as the report names it, for a relay that answers it wrongly;
    /// may be given several times
    #[arg(long, value_name = "SHAPE", value_parser = PossibleValuesParser::new(SHAPES.map(|it| it.name)))]
    pub(crate) without_shape: Vec<String>,
}

/// How long and how much.
#[derive(Debug, Clone, Args)]
pub(crate) struct Bounds {
    /// Rounds of each phase: the more, the better the noise is known
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) rounds: u16,
    /// Seconds of each phase in each round; of a level [default: 5, of a level 60, of a step of auto 10]
    #[arg(long, value_parser = amount::seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Operations of each phase in each round, at most [default: 50000; of a level all that come due]
    #[arg(long, value_parser = amount::operations)]
    pub(crate) operations: Option<usize>,
    /// Seconds that an answer may take
    #[arg(long, default_value = "10", value_parser = amount::seconds)]
    pub(crate) patience: Duration,
}

/// How the load is put on.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadShape {
    /// Connections that publish and ask
    #[arg(long, default_value_t = 4, value_parser = amount::connections)]
    pub(crate) connections: usize,
    /// Events under way on each connection when publishing in a closed loop
    #[arg(long, default_value_t = 256, value_parser = amount::window)]
    pub(crate) window: usize,
    /// Operations a second of the open loops [default: half of what the slower relay published]
    #[arg(long, value_parser = amount::rate)]
    pub(crate) rate: Option<f64>,
    /// Connections that listen for new events, where there are such
    #[arg(long, default_value_t = 100, value_parser = amount::connections_or_none)]
    pub(crate) subscribers: usize,
    /// Connections that say nothing
    #[arg(long, default_value_t = 1_000, value_parser = amount::connections)]
    pub(crate) idle: usize,
    /// Different questions of each shape
    #[arg(long, default_value_t = 100, value_parser = amount::count)]
    pub(crate) questions: usize,
    /// Where the climb of --level auto ends: the 99th percentile, in milliseconds
    #[arg(long, default_value_t = 50.0, value_parser = amount::milliseconds)]
    pub(crate) target_ms: f64,
}

/// A phase of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    /// One event at a time, then as many as the relay takes, then at a rate
    Publish,
    /// One question at a time, of every shape
    Query,
    /// Events to many listeners, as many as the relay delivers, then at a rate
    Subscribe,
    /// All at once, at a rate: nine questions for each event, while others listen
    Mixed,
    /// Memory of connections that say nothing
    Idle,
}

/// How hard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// 100 operations a second: a small community
    #[value(name = "1")]
    One,
    /// 1,000 operations a second: a busy relay
    #[value(name = "2")]
    Two,
    /// 10,000 operations a second: more than one core of most relays
    #[value(name = "3")]
    Three,
    /// Climbs until the latency target breaks
    Auto,
}

impl Bounds {
    /// Returns how long something lasts that lasts so long by default.
    pub(crate) fn seconds_or(&self, default: Duration) -> Duration {
        self.seconds.unwrap_or(default)
    }

    /// Returns how many operations a phase has, at most.
    pub(crate) fn operations_of_a_phase(&self) -> usize {
        self.operations.unwrap_or(OPERATIONS)
    }

    /// Returns how many operations of a level come due, or that these are more than can be planned.
    pub(crate) fn operations_of_a_level(&self, rate: f64, seconds: Duration) -> Result<usize> {
        let due = count_of(rate, seconds);
        let count = self.operations.map_or(due, |most| due.min(most)).max(1);
        if count > PLANNED_MAX {
            return Err(BenchError::Input(format!(
                "{rate:.0} operations a second for {} s are {due}, and a part has at most {PLANNED_MAX}: \
                 fewer --seconds, or --operations",
                seconds.as_secs_f64()
            )));
        }
        Ok(count)
    }
}
