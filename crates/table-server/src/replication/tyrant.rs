//! What a slave of Tokyo Tyrant's hears: its own update log's messages.
//!
//! FORMAT: `C9`, the time (8, microseconds since 1970), the first server's number (4), the length of
//! the message (4), the message: a request of the binary protocol and, behind it, its answer's byte.

use hikyaku_tables::{Effect, Logged};

/// Nothing has happened.
pub(super) const SIGN_OF_LIFE: u8 = 0xca;
const MESSAGE: u8 = 0xc9;

/// Writes an update. Flags and expiries are left out: a slave has no room for them.
pub(super) fn write(output: &mut Vec<u8>, logged: &Logged<'_>) {
    let (command, strings) = match logged.effect {
        Effect::Put { key, value, .. } => (0x10, &[key, value][..]),
        Effect::Remove { key } => (0x20, &[key][..]),
        Effect::Vanish => (0x72, &[][..]),
    };
    let bytes: usize = strings.iter().map(|string| 4 + string.len()).sum();
    output.push(MESSAGE);
    output.extend_from_slice(&logged.stamp.at_us.to_be_bytes());
    output.extend_from_slice(&logged.stamp.origin.to_be_bytes());
    output.extend_from_slice(&(bytes as u32 + 3).to_be_bytes());
    output.extend_from_slice(&[0xc8, command]);
    for string in strings {
        output.extend_from_slice(&(string.len() as u32).to_be_bytes());
    }
    for string in strings {
        output.extend_from_slice(string);
    }
    output.push(0);
}

#[cfg(test)]
mod tests {
    use hikyaku_tables::{Attributes, Stamp};

    use super::*;

    #[test]
    fn an_update_is_the_originals_message() {
        let put = Logged {
            table: "any",
            effect: Effect::Put {
                key: b"k",
                value: b"vv",
                attributes: Attributes::default(),
            },
            stamp: Stamp {
                at_us: 0x0102,
                origin: 7,
            },
        };
        let mut written = Vec::new();
        write(&mut written, &put);
        let message = b"\xc8\x10\0\0\0\x01\0\0\0\x02kvv\0";
        let head = b"\xc9\0\0\0\0\0\0\x01\x02\0\0\0\x07\0\0\0\x0e";
        assert_eq!(written, [&head[..], message].concat());
    }
}
