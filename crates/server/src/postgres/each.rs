//! One statement in the place of many: a query of one value, asked for each value of an array.

use tokio_postgres::types::Type;

/// Returns the query that asks `sql`, whose one parameter has this type, for each value of an array.
/// Its last column is the value's place, from 1.
pub(super) fn for_each(sql: &str, parameter: &Type) -> String {
    let (schema, name) = (parameter.schema(), parameter.name());
    let query = with_parameter(sql.trim_end().trim_end_matches(';'), "hikyaku_given.value");
    format!(
        "select hikyaku_answer.*, hikyaku_given.place \
        from unnest($1::\"{schema}\".\"{name}\"[]) with ordinality as hikyaku_given (value, place) \
        cross join lateral ({query}\n) as hikyaku_answer"
    )
}

/// Puts a name for `$1`, but for what stands in quotes.
fn with_parameter(sql: &str, name: &str) -> String {
    let mut text = String::with_capacity(sql.len() + 64);
    let mut rest = sql.chars().peekable();
    let mut quote = None;
    while let Some(c) = rest.next() {
        if quote.is_some() {
            quote = quote.filter(|quote| *quote != c);
        } else if c == '\'' || c == '"' {
            quote = Some(c);
        } else if c == '$' && rest.peek() == Some(&'1') {
            rest.next();
            text.push_str(name);
            continue;
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_replaced_and_what_stands_in_quotes_is_not() {
        for (sql, expected) in [
            ("select $1, x where y=$1", "select v, x where y=v"),
            ("select '$1', \"$1\", $1", "select '$1', \"$1\", v"),
            ("select 'it''s $1' || $1", "select 'it''s $1' || v"),
            ("select 1", "select 1"),
        ] {
            assert_eq!(with_parameter(sql, "v"), expected);
        }
    }

    #[test]
    fn the_arrays_type_is_the_parameters() {
        let sql = for_each("select a from t where b = $1;", &Type::INT4);
        assert!(
            sql.contains("unnest($1::\"pg_catalog\".\"int4\"[])"),
            "{sql}"
        );
        assert!(sql.contains("where b = hikyaku_given.value\n)"), "{sql}");
    }
}
