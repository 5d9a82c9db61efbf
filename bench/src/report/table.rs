//! Tables for the eye.

/// One table. Every row has a cell for every column.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    title: String,
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

impl Table {
    pub(crate) fn new(title: impl Into<String>, columns: &'static [&'static str]) -> Self {
        Self {
            title: title.into(),
            columns,
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Returns the texts, the columns' names first.
    pub(crate) fn lines(&self) -> Vec<Vec<String>> {
        let header = self.columns.iter().map(ToString::to_string).collect();
        let row = |row: &Vec<Cell>| row.iter().map(Cell::text).collect();
        std::iter::once(header)
            .chain(self.rows.iter().map(row))
            .collect()
    }

    /// Returns each row as an object.
    pub(crate) fn objects(&self) -> Vec<serde_json::Value> {
        let object = |row: &Vec<Cell>| {
            let pairs = self.columns.iter().zip(row);
            let pairs = pairs.map(|(column, cell)| ((*column).to_owned(), cell.json()));
            serde_json::Value::Object(pairs.collect())
        };
        self.rows.iter().map(object).collect()
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = self.lines();
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.columns.len()).map(width).collect();
        writeln!(out, "\n{}", self.title)?;
        for line in lines {
            for (place, (cell, width)) in line.iter().zip(&widths).enumerate() {
                // Names to the left, figures to the right.
                if place == 0 {
                    write!(out, "  {cell:<width$}")?;
                } else {
                    write!(out, "  {cell:>width$}")?;
                }
            }
            writeln!(out)?;
        }
        Ok(())
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

    fn json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Count(count) => (*count).into(),
            Self::Number(number, _) => (*number).into(),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new("t", &["name", "ms"]);
        table.row(vec!["a".into(), Cell::Number(1.5, 1)]);
        table.row(vec!["long name".into(), Cell::Number(10.25, 1)]);
        assert_eq!(
            table.to_string(),
            "\nt\n  name         ms\n  a           1.5\n  long name  10.2\n"
        );
    }
}
