//! A run, with everything a reader needs to believe it.

use std::{
    fs::{self, File},
    path::PathBuf,
};

use serde::Serialize;

use crate::{
    error::{BenchError, During, Result},
    load::{Address, Measured, Process},
    report::{
        comparison::{Comparison, compare},
        json, machine,
        machine::Machine,
        page,
        score::Score,
        table::Table,
        terminal,
    },
};

/// Where a report goes, besides the tables on standard output.
#[derive(Debug, Default, Clone, clap::Args)]
pub(crate) struct Output {
    /// Also write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Also write the report as one HTML page with charts to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

impl Output {
    /// Fails if a file can't be written, before a run is made whose report nobody gets. What is in it
    /// stays until the report is there.
    pub(crate) fn prepare(&self) -> Result<()> {
        for path in self.json.iter().chain(&self.html) {
            File::options()
                .append(true)
                .create(true)
                .open(path)
                .at(path)?;
        }
        Ok(())
    }

    /// Writes all files; one that can't be written keeps none of the others from it.
    fn write(&self, report: &Report) -> Result<()> {
        let json = self.json.as_ref().map_or(Ok(()), |path| {
            fs::write(path, format!("{:#}\n", json::value(report))).at(path)
        });
        let html = self
            .html
            .as_ref()
            .map_or(Ok(()), |path| fs::write(path, page::html(report)).at(path));
        json.and(html)
    }
}

/// A server under load.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// `A`, or `B` of a comparison.
    pub(crate) name: &'static str,
    pub(crate) address: Address,
    /// Of a server on this machine that we may look into.
    pub(crate) process: Option<Process>,
    /// What its operator says an answered write survives.
    pub(crate) durability: Option<String>,
}

impl Target {
    pub(crate) fn new(name: &'static str, address: Address, durability: Option<&str>) -> Self {
        let local = address
            .is_local()
            .then(|| Process::listening(address.socket()).ok());
        Self {
            name,
            process: local.flatten(),
            address,
            durability: durability.map(str::to_owned),
        }
    }
}

/// One part of a run on one server, in one round.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) part: String,
    /// The place of the server.
    pub(crate) target: usize,
    pub(crate) round: usize,
    pub(crate) connections: usize,
    pub(crate) measured: Measured,
}

/// What the figures of processor and memory are of.
const PROCESSES: &str = "cpu and memory are of the processes that listen at the address and of their \
                         children, sampled five times a second; a database behind them is not in it";

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", content = "reason", rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// Every answer was right.
    Passed,
    /// Something was wrong: there is no score.
    Failed(String),
    /// The operator stopped it; what it has is right.
    Interrupted,
}

/// A whole run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) measurement: &'static str,
    pub(crate) command: String,
    pub(crate) begun: String,
    pub(crate) machine: Machine,
    pub(crate) targets: Vec<Target>,
    pub(crate) outcome: Outcome,
    /// What a reader must know to read the figures.
    pub(crate) notes: Vec<String>,
    pub(crate) records: Vec<Record>,
    pub(crate) comparisons: Vec<Comparison>,
    pub(crate) scores: Vec<Score>,
    /// Figures that are no load: memory of idle connections, say.
    pub(crate) tables: Vec<Table>,
}

impl Report {
    pub(crate) fn new(measurement: &'static str, targets: Vec<Target>) -> Self {
        let mut notes = Vec::new();
        if let [first, second] = targets.as_slice() {
            notes.push(match (&first.durability, &second.durability) {
                (Some(first), Some(second)) if first == second => {
                    format!("both answer a write when it is: {first}")
                }
                (Some(first), Some(second)) => format!(
                    "the writes of A and B are not of a kind: A answers a write when it is: {first}; \
                     B when it is: {second}"
                ),
                _ => "nobody said what an answered write survives at each server (--durability, \
                      --vs-durability): one that syncs and one that does not can't be compared by \
                      their writes"
                    .to_owned(),
            });
        }
        Self {
            measurement,
            command: std::env::args().collect::<Vec<_>>().join(" "),
            begun: machine::now(),
            machine: Machine::here(),
            targets,
            outcome: Outcome::Passed,
            notes,
            records: Vec::new(),
            comparisons: Vec::new(),
            scores: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// Writes the report of a run that ended like this, and hands its end on.
    pub(crate) fn finish(mut self, end: Result<()>, output: &Output) -> Result<()> {
        let end = end.and_then(|()| self.has_measured());
        self.outcome = match &end {
            Ok(()) => Outcome::Passed,
            Err(BenchError::Interrupted) => Outcome::Interrupted,
            Err(error) => Outcome::Failed(error.to_string()),
        };
        // What an interrupted run has, it has.
        if matches!(self.outcome, Outcome::Failed(_)) {
            self.scores.clear();
        }
        if self.targets.iter().any(|it| it.process.is_some()) {
            self.notes.push(PROCESSES.to_owned());
        }
        if self.targets.len() == 2 {
            self.comparisons = compare(&self.records, &self.scores);
        }
        print!("{}", terminal::text(&self));
        // In this order: the report is written whatever the end was.
        let written = output.write(&self);
        end.and(written)
    }

    /// Fails if nothing was measured: of nothing, every answer is right.
    fn has_measured(&self) -> Result<()> {
        let loaded = self.records.iter().any(|it| it.measured.offered > 0);
        if loaded || self.tables.iter().any(|table| !table.is_empty()) {
            return Ok(());
        }
        let why = self.notes.join("; ");
        Err(BenchError::Input(format!("nothing was measured: {why}")))
    }

    /// Returns the parts in the order they were first run.
    pub(crate) fn parts(&self) -> Vec<&str> {
        let mut parts: Vec<&str> = Vec::new();
        for record in &self.records {
            if !parts.contains(&record.part.as_str()) {
                parts.push(&record.part);
            }
        }
        parts
    }

    /// Returns the rounds of a part at a server.
    pub(crate) fn rounds<'a>(
        &'a self,
        part: &'a str,
        target: usize,
    ) -> impl Iterator<Item = &'a Measured> {
        let of = move |record: &&Record| record.part == part && record.target == target;
        self.records
            .iter()
            .filter(of)
            .map(|record| &record.measured)
    }
}
