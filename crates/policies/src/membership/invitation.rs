//! Invitations: codes that say who invites and until when, and that only the relay can make. So none
//! is kept, and each node of a relay knows the others'.

use data_encoding::HEXLOWER;
use hikyaku_event::{PublicKey, Timestamp};
use hmac::Mac;

use crate::RelayKey;

/// What the code is for, so that it is none for anything else.
const PURPOSE: &[u8] = b"hikyaku invitation 1";
/// Bytes of an inviter, of a time, and of a code cut to 128 bits.
const LENGTHS: (usize, usize, usize) = (32, 8, 16);

/// A member's invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Invitation {
    pub(super) inviter: PublicKey,
    /// Until when it is good.
    pub(super) until: Timestamp,
}

impl Invitation {
    /// Writes it as the text of a `claim` tag.
    pub(super) fn claim(&self, key: &RelayKey) -> Option<String> {
        let mut bytes = self.said();
        let code = key.code(PURPOSE)?.chain_update(&bytes).finalize();
        bytes.extend(code.into_bytes().iter().take(LENGTHS.2));
        Some(HEXLOWER.encode(&bytes))
    }

    /// Reads the text of a `claim` tag; none if this relay has not made it.
    pub(super) fn read(claim: &str, key: &RelayKey) -> Option<Self> {
        if claim.len() != 2 * (LENGTHS.0 + LENGTHS.1 + LENGTHS.2) {
            return None;
        }
        let bytes = HEXLOWER.decode(claim.as_bytes()).ok()?;
        let (inviter, rest) = bytes.split_at_checked(LENGTHS.0)?;
        let (until, code) = rest.split_at_checked(LENGTHS.1)?;
        let invitation = Self {
            inviter: PublicKey::new(inviter.try_into().ok()?),
            until: u64::from_be_bytes(until.try_into().ok()?),
        };
        let made = key.code(PURPOSE)?.chain_update(invitation.said());
        made.verify_truncated_left(code).ok()?;
        Some(invitation)
    }

    fn said(&self) -> Vec<u8> {
        [
            self.inviter.as_bytes().as_slice(),
            &self.until.to_be_bytes(),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_relay_that_made_it_takes_it() {
        let key = RelayKey::new([7; 32]).unwrap();
        let invitation = Invitation {
            inviter: PublicKey::new([1; 32]),
            until: 1_700_000_000,
        };
        let claim = invitation.claim(&key).unwrap();
        assert_eq!(Invitation::read(&claim, &key), Some(invitation));
        let other = RelayKey::new([8; 32]).unwrap();
        assert_eq!(Invitation::read(&claim, &other), None);
        for at in 0..claim.len() {
            let mut changed = claim.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(Invitation::read(&changed, &key), None, "{changed}");
        }
        for claim in ["", "secret", &claim[1..], &format!("{claim}00")] {
            assert_eq!(Invitation::read(claim, &key), None, "{claim}");
        }
        let strange = "é".repeat(claim.len() / 2);
        assert_eq!(Invitation::read(&strange, &key), None);
    }
}
