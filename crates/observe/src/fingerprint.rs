//! A statement without its values: what makes two statements the same.

/// Characters of a statement that are kept to be shown.
const SHOWN_MAX: usize = 300;

/// Returns the statement with literals as `?`, lists of them as one, and white space as one space.
/// Not a parser of SQL: what it takes for the same is the same to a person.
pub(crate) fn fingerprint(sql: &str) -> Box<str> {
    let mut text = String::with_capacity(sql.len().min(SHOWN_MAX));
    let mut rest = sql.chars().peekable();
    while let Some(c) = rest.next() {
        let before = text.chars().next_back();
        let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '"');
        match c {
            '\'' => {
                while let Some(c) = rest.next() {
                    // A doubled quote is one of the literal's own.
                    if c == '\'' && rest.next_if_eq(&'\'').is_none() {
                        break;
                    }
                }
                place(&mut text);
            }
            '$' if rest.peek().is_some_and(char::is_ascii_digit) => {
                while rest.next_if(char::is_ascii_digit).is_some() {}
                place(&mut text);
            }
            c if c.is_ascii_digit() && !in_word => {
                while rest
                    .next_if(|c| c.is_ascii_alphanumeric() || *c == '.')
                    .is_some()
                {}
                place(&mut text);
            }
            c if c.is_whitespace() => {
                if before.is_some_and(|c| c != ' ' && c != '(') {
                    text.push(' ');
                }
            }
            c => text.push(c),
        }
        if text.len() > SHOWN_MAX {
            text.push('\u{2026}');
            break;
        }
    }
    text.trim_end().into()
}

/// Puts a `?` for a value; one is enough for a list.
fn place(text: &mut String) {
    let list = ["?, ", "?,"].into_iter().find(|end| text.ends_with(end));
    match list {
        Some(end) => text.truncate(text.len() - end.len() + 1),
        None => text.push('?'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_left_out() {
        for (sql, expected) in [
            (
                "SELECT a1 FROM t2 WHERE x = 17 AND y='it''s'",
                "SELECT a1 FROM t2 WHERE x = ? AND y=?",
            ),
            (
                "SELECT  *\n  FROM t WHERE id IN ($1, $2,$3)",
                "SELECT * FROM t WHERE id IN (?)",
            ),
            ("SELECT 1.5e3, 'unended", "SELECT ?"),
            ("", ""),
        ] {
            assert_eq!(&*fingerprint(sql), expected);
        }
        assert!(fingerprint(&"x".repeat(5000)).chars().count() <= SHOWN_MAX + 2);
    }
}
