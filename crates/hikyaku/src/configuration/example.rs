//! The example file: every key with what it is for and its default, all commented out.

use super::{effective::Effective, keys::KEYS};

const HEAD: &str = "\
# Hikyaku's configuration. Every key is optional; what is commented out shows the default, or an
# example where the default is to have none. The program reads the file named by --config or
# HIKYAKU_CONFIG, else hikyaku.toml in the working directory. Variables override it: listen is
# HIKYAKU_LISTEN, limits.tags_max is HIKYAKU_LIMITS_TAGS_MAX. Flags override those.
# `hikyaku config` shows what is in force, and where each value is from.
";

/// Characters of one line of a comment.
const WIDTH: usize = 98;

/// Returns the example file.
pub(crate) fn example() -> String {
    let effective = Effective::new();
    let mut text = HEAD.to_owned();
    let mut table = "";
    for (key, entry) in KEYS.iter().zip(effective.entries()) {
        let (of, name) = key.place();
        if of != table {
            table = of;
            text += "\n[";
            text += table;
            text += "]\n";
        }
        text += "\n";
        text += &comment(key.help);
        let value = entry.value.unwrap_or_else(|| key.example.to_owned());
        for part in ["#", name, " = ", &value, "\n"] {
            text += part;
        }
    }
    text
}

/// Breaks a text into lines of a comment.
fn comment(text: &str) -> String {
    let mut lines = vec!["#".to_owned()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("# {word}"));
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}
