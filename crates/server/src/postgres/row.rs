//! A query's row, read where it lies.

use std::{error::Error, fmt, io, sync::Arc};

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::DataRowBody;
use tokio_postgres::types::{FromSql, Type, WrongType};

use super::PostgresError;

/// A column of a query's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub(super) name: String,
    pub(super) of: Type,
}

impl Column {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type of its values.
    pub fn type_(&self) -> &Type {
        &self.of
    }
}

/// A query's row. It lies in the piece of up to 64 KiB that was read from the database together with
/// it, which is kept as long as one of its rows: what shall last is read out of the row.
#[derive(Clone)]
pub struct Row {
    columns: Arc<[Column]>,
    fields: DataRowBody,
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row")
            .field("columns", &self.columns())
            .finish_non_exhaustive()
    }
}

/// What names a column: its place, from 0, or its name.
pub trait RowIndex: sealed::Sealed {
    /// Returns its place.
    #[doc(hidden)]
    fn place(&self, columns: &[Column]) -> Option<usize>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for usize {}
    impl Sealed for str {}
    impl<T: Sealed + ?Sized> Sealed for &T {}
}

impl RowIndex for usize {
    fn place(&self, columns: &[Column]) -> Option<usize> {
        Some(*self).filter(|place| *place < columns.len())
    }
}

impl RowIndex for str {
    fn place(&self, columns: &[Column]) -> Option<usize> {
        let exact = columns.iter().position(|column| column.name == self);
        exact.or_else(|| {
            let same = |column: &Column| column.name.eq_ignore_ascii_case(self);
            columns.iter().position(same)
        })
    }
}

impl<T: RowIndex + ?Sized> RowIndex for &T {
    fn place(&self, columns: &[Column]) -> Option<usize> {
        T::place(self, columns)
    }
}

impl Row {
    pub(super) fn new(columns: &Arc<[Column]>, fields: DataRowBody) -> io::Result<Self> {
        if fields.ranges().size_hint().0 != columns.len() {
            let broken = "a row has another number of columns than its statement";
            return Err(io::Error::new(io::ErrorKind::InvalidData, broken));
        }
        let columns = Arc::clone(columns);
        Ok(Self { columns, fields })
    }

    /// Returns its columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Tells whether it has no columns.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Returns how many columns it has.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns a value, by the column's place or name.
    ///
    /// # Panics
    /// If there is no such column, or its value is of another type.
    #[track_caller]
    pub fn get<'a, I: RowIndex + fmt::Display, T: FromSql<'a>>(&'a self, column: I) -> T {
        match self.read(&column) {
            Ok(value) => value,
            Err(error) => panic!("column `{column}` can't be read: {error}"),
        }
    }

    /// Returns a value, by the column's place or name; an error if there is no such column, or its
    /// value is of another type.
    pub fn try_get<'a, I: RowIndex + fmt::Display, T: FromSql<'a>>(
        &'a self,
        column: I,
    ) -> Result<T, PostgresError> {
        self.read(&column)
            .map_err(|error| PostgresError::Column(column.to_string(), error))
    }

    fn read<'a, T: FromSql<'a>>(
        &'a self,
        column: &impl RowIndex,
    ) -> Result<T, Box<dyn Error + Send + Sync>> {
        let place = column.place(&self.columns).ok_or("there is none")?;
        let column = self.columns.get(place).ok_or("there is none")?;
        if !T::accepts(&column.of) {
            return Err(Box::new(WrongType::new::<T>(column.of.clone())));
        }
        // Looked for where it lies: few rows are wide, and places kept for each would be paid for by
        // all.
        let range = self.fields.ranges().nth(place)?.ok_or("it has ended")?;
        let value = match range {
            Some(range) => Some(self.fields.buffer().get(range).ok_or("it has ended")?),
            None => None,
        };
        T::from_sql_nullable(&column.of, value)
    }
}
