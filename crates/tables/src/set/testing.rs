//! The body of the fuzz target, which also runs as a property test.

#![expect(
    clippy::expect_used,
    reason = "a test is to fail where something is not as it should be"
)]

use std::path::Path;

use super::Checkpoint;

/// Reads a checkpoint: what is read is what would be written again.
pub fn fuzz_checkpoint(bytes: &[u8]) {
    let path = Path::new("checkpoint");
    let Ok(checkpoint) = Checkpoint::decode(bytes, path) else {
        return;
    };
    let again = Checkpoint::decode(&checkpoint.encode(), path);
    assert_eq!(again.expect("what was written is read"), checkpoint);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes of checkpoints, with a checksum that is right.
    fn checkpoint() -> impl Strategy<Value = Vec<u8>> {
        let fields = proptest::collection::vec(0_u8..3, 0..80);
        (0_u32..3, fields).prop_map(|(version, fields)| {
            let mut bytes = b"HIKYUCHK".to_vec();
            bytes.extend(version.to_le_bytes());
            bytes.extend(fields);
            let checksum = crc32fast::hash(&bytes);
            bytes.extend(checksum.to_le_bytes());
            bytes
        })
    }

    /// A checkpoint that was written.
    fn written() -> impl Strategy<Value = Checkpoint> {
        use crate::{
            LogPosition,
            log::{Applied, Known},
        };
        let applied = proptest::collection::btree_map(0_u32..9, any::<(u64, u64)>(), 0..5);
        (any::<(u64, u32, bool)>(), applied).prop_map(|((position, file, unlogged), applied)| {
            Checkpoint {
                known: Known {
                    position: LogPosition(position),
                    file,
                    unlogged,
                },
                applied: applied
                    .into_iter()
                    .map(|(source, (position, at_us))| {
                        let applied = Applied {
                            source,
                            position,
                            at_us,
                        };
                        (source, applied)
                    })
                    .collect(),
            }
        })
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_checkpoint_or_damage(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            fuzz_checkpoint(&bytes);
        }

        #[test]
        fn any_fields_are_a_checkpoint_or_damage(bytes in checkpoint()) {
            fuzz_checkpoint(&bytes);
        }

        #[test]
        fn a_checkpoint_is_read_as_it_was_written(checkpoint in written()) {
            let read = Checkpoint::decode(&checkpoint.encode(), Path::new("checkpoint"));
            prop_assert_eq!(read.unwrap(), checkpoint);
        }

        #[test]
        fn a_flipped_bit_is_damage(checkpoint in written(), at in any::<prop::sample::Index>(), bit in 0_u32..8) {
            let mut bytes = checkpoint.encode();
            *at.get_mut(&mut bytes) ^= 1_u8 << bit;
            prop_assert!(Checkpoint::decode(&bytes, Path::new("checkpoint")).is_err());
        }
    }
}
