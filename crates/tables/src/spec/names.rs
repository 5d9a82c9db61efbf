//! Which names a table may have, and which of a list somebody may have meant.

use crate::TableError;

/// Bytes of a table's file name: what file systems allow, less what we put behind it.
const NAME_BYTES_MAX: usize = 200;

/// Checks that a name can only be a file of the folder itself.
pub(super) fn check_file(name: &str) -> Result<(), TableError> {
    let wrong = |why: &str| {
        Err(TableError::Syntax(format!(
            "a table's name {why}: {name:?}"
        )))
    };
    if name.len() > NAME_BYTES_MAX {
        return Err(TableError::Syntax(format!(
            "a table's name has at most {NAME_BYTES_MAX} bytes"
        )));
    }
    if name.starts_with(['.', '-']) {
        return wrong("begins with a letter, a digit or _");
    }
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.chars().all(is_plain) {
        return wrong("has letters, digits, _, - and . only");
    }
    Ok(())
}

/// Says which of the names is likely meant, and which there are.
pub(super) fn suggestion(wrong: &str, known: &[&str]) -> String {
    let likely = known
        .iter()
        .map(|name| (strsim::jaro_winkler(wrong, name), name))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let all = known.join(", ");
    match likely {
        Some((_, name)) => format!("did you mean {name}? There are: {all}"),
        None => format!("there are: {all}"),
    }
}
