//! Many rows at once, by COPY: the server takes them as they come, without making arrays of them first.

use std::pin::pin;

use tokio_postgres::{
    binary_copy::BinaryCopyInWriter,
    types::{ToSql, Type},
};

use crate::{PostgresError, connection::Session};

/// From so many rows on, COPY costs less than a statement with arrays.
pub(super) const ROWS_MIN: usize = 256;

/// Puts rows into a table. `sql` says which columns, `types` what they are.
///
/// What is sent meanwhile on the same connection comes behind it: the driver keeps the order in which
/// statements were begun.
pub(super) async fn copy<Row>(
    session: &Session,
    sql: &str,
    types: &[Type],
    rows: impl Iterator<Item = Row>,
    columns: impl for<'a> Fn(&'a Row) -> Vec<&'a (dyn ToSql + Sync)>,
) -> Result<u64, PostgresError> {
    let statement = session.prepared(sql).await?;
    let sink = session.client.copy_in(&statement).await?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, types));
    for row in rows {
        writer.as_mut().write(&columns(&row)).await?;
    }
    Ok(writer.finish().await?)
}
