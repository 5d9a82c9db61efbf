//! Notes made on the spot, for measurements that need events nobody has seen.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{
    random::Random,
    sign::{Draft, Identities},
};

/// Different authors of fresh notes.
const AUTHORS: usize = 64;
/// Makes a note about as long as the mean event.
const CONTENT_BYTES: usize = 340;

/// Makes notes.
#[derive(Debug)]
pub(crate) struct Fresh {
    identities: Identities,
    random: Random,
    /// The hashtag that every note of this maker carries, and no other note.
    pub(crate) hashtag: String,
    made: usize,
}

impl Fresh {
    /// Starts a series unlike any before it.
    pub(crate) fn new() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let mut random = Random::new(since_epoch.as_nanos() as u64);
        Self {
            identities: Identities::new(1, AUTHORS),
            hashtag: format!("bench{:016x}", random.next()),
            random,
            made: 0,
        }
    }

    /// Returns the JSON of a signed note of now.
    pub(crate) fn note(&mut self) -> String {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        self.made += 1;
        let mut content = format!("{} ", self.made);
        while content.len() < CONTENT_BYTES {
            content.push_str(&faster_hex::hex_string(&self.random.bytes::<16>()));
        }
        let draft = Draft {
            author: self.random.below(AUTHORS),
            created_at: since_epoch.as_secs(),
            kind: 1,
            tags: format!("[[\"t\",\"{}\"]]", self.hashtag),
            content: format!("\"{content}\""),
        };
        draft.identify(&self.identities).sign(&self.identities)
    }
}
