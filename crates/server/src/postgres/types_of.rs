//! Types that a database has of its own: enums, domains, arrays of them, and what is made of them.

use std::pin::Pin;

use tokio_postgres::types::{Field, Kind, Oid, Type};

use super::{
    PostgresError,
    asking::{Question, rows},
    lane::Parameters,
    reply::Answer,
    row::Row,
    session::Session,
};

const TYPE: &str = "select t.typname, t.typtype, t.typelem, r.rngsubtype, t.typbasetype, n.nspname, t.typrelid \
    from pg_catalog.pg_type t left join pg_catalog.pg_range r on r.rngtypid = t.oid \
    join pg_catalog.pg_namespace n on n.oid = t.typnamespace where t.oid = $1";
const LABELS: &str =
    "select enumlabel from pg_catalog.pg_enum where enumtypid = $1 order by enumsortorder";
const FIELDS: &str = "select attname, atttypid from pg_catalog.pg_attribute \
    where attrelid = $1 and not attisdropped and attnum > 0 order by attnum";

/// Types in types: no real one is this deep.
const DEPTH_MAX: usize = 32;

impl Session {
    /// Returns the type of a number; asked once on a connection if the database has made it itself.
    pub(super) async fn type_of(&self, number: Oid) -> Result<Type, PostgresError> {
        self.type_in(number, 0).await
    }

    fn type_in(
        &self,
        number: Oid,
        depth: usize,
    ) -> Pin<Box<dyn Future<Output = Result<Type, PostgresError>> + '_>> {
        Box::pin(async move {
            if let Some(known) = Type::from_oid(number) {
                return Ok(known);
            }
            if let Some(known) = self.types.borrow().get(&number) {
                return Ok(known.clone());
            }
            let found = self.lookup(TYPE, &[&number]).await?;
            let unknown =
                || PostgresError::Lost(format!("the database does not know its type {number}"));
            let row = found
                .first()
                .filter(|_| depth < DEPTH_MAX)
                .ok_or_else(unknown)?;
            let (what, element, range): (i8, Oid, Option<Oid>) =
                (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
            let (base, relation): (Oid, Oid) = (row.try_get(4)?, row.try_get(6)?);
            let inner = |number| self.type_in(number, depth + 1);
            let kind = if what == b'e'.cast_signed() {
                let labels = self.lookup(LABELS, &[&number]).await?;
                Kind::Enum(
                    labels
                        .iter()
                        .map(|row| row.try_get(0))
                        .collect::<Result<_, _>>()?,
                )
            } else if what == b'p'.cast_signed() {
                Kind::Pseudo
            } else if base != 0 {
                Kind::Domain(inner(base).await?)
            } else if element != 0 {
                Kind::Array(inner(element).await?)
            } else if relation != 0 {
                let mut fields = Vec::new();
                for row in self.lookup(FIELDS, &[&relation]).await? {
                    let of = inner(row.try_get(1)?).await?;
                    fields.push(Field::new(row.try_get(0)?, of));
                }
                Kind::Composite(fields)
            } else if let Some(range) = range {
                Kind::Range(inner(range).await?)
            } else {
                Kind::Simple
            };
            let made = Type::new(row.try_get(0)?, number, kind, row.try_get(5)?);
            self.types.borrow_mut().insert(number, made.clone());
            Ok(made)
        })
    }

    /// Asks the catalogue.
    pub(super) async fn lookup(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, PostgresError> {
        let cell = self.statements.cell(sql);
        let statement = self.prepared(sql, &cell).await?;
        let question = Question {
            sql,
            parameters,
            wants_rows: true,
        };
        match self.ask(&statement, question)?.await {
            Answer::Failed(error) if error.is_outdated() => {
                let cell = self.statements.another(sql, &statement);
                let statement = self.prepared(sql, &cell).await?;
                rows(self.ask(&statement, question)?.await)
            }
            answer => rows(answer),
        }
    }
}
