//! The body of the fuzz target, which also runs as a property test.

use std::path::Path;

use super::TableSpec;
use crate::Interval;

/// Reads text as a table's and as an interval's: a typed error, or a file of the folder itself that
/// is written as it was read; never a panic.
pub fn fuzz_table_text(text: &[u8]) {
    let _ = Interval::parse(text);
    let Some(spec) = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<TableSpec>().ok())
    else {
        return;
    };
    let path = Path::new("/folder").join(&spec.file);
    assert_eq!(path.parent(), Some(Path::new("/folder")));
    let again = spec.to_string().parse::<TableSpec>();
    assert!(again.is_ok_and(|again| again == spec), "{spec}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_a_table_of_the_folder_or_refused(
            text in "(?s).{0,40}|[a./?=&*0-9-]{0,12}\\.(hash|fixed)[a-z?=&0-9]{0,9}",
        ) {
            fuzz_table_text(text.as_bytes());
        }

        #[test]
        fn any_bytes_are_an_interval_or_refused(text in "[\\[(][a-z0-9,]{0,9}[\\])]") {
            fuzz_table_text(text.as_bytes());
        }
    }
}
