//! Results: a table for the eye, and JSON for whoever compares.

use std::{fs, path::PathBuf, time::Duration};

use serde_json::{Map, Value, json};

use crate::error::{During, Result};

/// Where results go, besides the table on standard output.
#[derive(Debug, Default, Clone, clap::Args)]
pub(crate) struct Output {
    /// Also write the results as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One table. Every row has a cell for every column.
#[derive(Debug)]
pub(crate) struct Report {
    title: &'static str,
    columns: &'static [&'static str],
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Cell {
    Text(String),
    Count(u64),
    /// A number and how many decimals of it mean something.
    Number(f64, usize),
}

impl Report {
    pub(crate) fn new(title: &'static str, columns: &'static [&'static str]) -> Self {
        Self {
            title,
            columns,
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Prints the table and writes the file.
    pub(crate) fn finish(&self, output: &Output) -> Result<()> {
        print!("{}", self.table());
        let Some(path) = &output.json else {
            return Ok(());
        };
        let rows: Vec<Value> = self.rows.iter().map(|row| self.object(row)).collect();
        let report = json!({ "measurement": self.title, "rows": rows });
        fs::write(path, format!("{report:#}\n")).at(path)
    }

    fn object(&self, row: &[Cell]) -> Value {
        let pairs = self.columns.iter().zip(row);
        let object: Map<_, _> = pairs
            .map(|(column, cell)| {
                let value = match cell {
                    Cell::Text(text) => json!(text),
                    Cell::Count(count) => json!(count),
                    Cell::Number(number, _) => json!(number),
                };
                ((*column).to_owned(), value)
            })
            .collect();
        Value::Object(object)
    }

    fn table(&self) -> String {
        let header = self.columns.iter().map(ToString::to_string).collect();
        let body = self
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::text).collect());
        let lines: Vec<Vec<String>> = std::iter::once(header).chain(body).collect();
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.columns.len()).map(width).collect();
        let mut text = format!("\n{}\n", self.title);
        for line in lines {
            for (place, (cell, width)) in line.iter().zip(&widths).enumerate() {
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                text.push_str("  ");
                // Names to the left, figures to the right.
                text.push_str(&if place == 0 {
                    cell.clone() + &padding
                } else {
                    padding + cell
                });
            }
            text.push('\n');
        }
        text
    }
}

impl Cell {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(number, decimals) => format!("{number:.decimals$}"),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

/// Durations of one kind of operation.
#[derive(Debug, Default, Clone)]
pub(crate) struct Durations(Vec<Duration>);

impl Durations {
    pub(crate) fn push(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns a quantile (500 per mille is the median) in milliseconds, ready for a table.
    pub(crate) fn quantile_ms(&self, per_mille: usize) -> Cell {
        Cell::Number(self.quantile(per_mille).as_secs_f64() * 1e3, 3)
    }

    pub(crate) fn quantile(&self, per_mille: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let place = (sorted.len().saturating_sub(1) * per_mille).div_ceil(1_000);
        sorted.get(place).copied().unwrap_or_default()
    }
}

/// Returns the middle value; of an even number the lower of the two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len().saturating_sub(1) / 2;
    sorted.get(middle).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_taken_from_the_sorted_durations() {
        let mut durations = Durations::default();
        for ms in [5, 1, 3, 2, 4] {
            durations.push(Duration::from_millis(ms));
        }
        assert_eq!(durations.quantile_ms(500).text(), "3.000");
        assert_eq!(durations.quantile_ms(1000).text(), "5.000");
    }

    #[test]
    fn columns_line_up() {
        let mut report = Report::new("t", &["name", "ms"]);
        report.row(vec!["a".into(), Cell::Number(1.5, 1)]);
        report.row(vec!["long name".into(), Cell::Number(10.25, 1)]);
        assert_eq!(
            report.table(),
            "\nt\n  name         ms\n  a           1.5\n  long name  10.2\n"
        );
    }
}
