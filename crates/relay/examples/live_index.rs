//! Prints what the live index costs: with 10,000 home timelines of 300 authors each, the time to
//! register and remove one, and the time per event by how many subscriptions it matches.
//!
//! `cargo run --release -p hikyaku-relay --example live_index [timelines]`

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a broken assumption shall panic"
)]

use std::{hint::black_box, sync::Arc, time::Instant};

use hikyaku_event::{
    Event, Filter, Kind, PublicKey,
    testing::{Author, EventBuilder},
};
use hikyaku_relay::{ListenerKey, LiveIndex, SubscriptionKey};

const AUTHORS: u64 = 50_000;
const FOLLOWS: usize = 300;
const ROUNDS: u32 = 20_000;

/// A pseudo-random sequence (SplitMix64): the same figures in every run.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A rank with the probabilities of Zipf's law (s = 1).
    fn rank(&mut self) -> u64 {
        let uniform = self.next() as f64 / u64::MAX as f64;
        #[allow(clippy::cast_sign_loss, reason = "a power of a positive number")]
        let rank = (AUTHORS as f64).powf(uniform) as u64;
        rank.min(AUTHORS) - 1
    }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4
}

fn key(timeline: u64) -> ListenerKey {
    ListenerKey {
        connection: timeline,
        subscription: SubscriptionKey(0),
    }
}

fn measure(index: &mut LiveIndex, name: &str, event: &Event) {
    let mut matches = 0u64;
    let start = Instant::now();
    for _ in 0..ROUNDS {
        index.for_each_match(black_box(event), |key| {
            black_box(key);
            matches += 1;
        });
    }
    let nanoseconds = start.elapsed().as_nanos() as u64 / u64::from(ROUNDS);
    let matches = matches / u64::from(ROUNDS);
    println!("{name:<40} {matches:>6} matches {nanoseconds:>9} ns");
}

fn main() {
    let timelines: u64 = std::env::args()
        .nth(1)
        .map_or(10_000, |text| text.parse().unwrap());
    let people: Vec<PublicKey> = (0..AUTHORS)
        .map(|seed| Author::new(seed).pubkey())
        .collect();
    let mut random = Sequence(1);
    let filters: Vec<Arc<[Filter]>> = (0..timelines)
        .map(|_| {
            let follows = (0..FOLLOWS)
                .map(|_| people[random.rank() as usize])
                .collect();
            let filter = Filter {
                authors: Some(follows),
                kinds: Some(vec![Kind(1), Kind(6)]),
                ..Filter::default()
            };
            [filter.sorted()].into()
        })
        .collect();

    let mut index = LiveIndex::new(1);
    let before = resident_kib();
    let start = Instant::now();
    for (timeline, filters) in filters.iter().enumerate() {
        index.insert(key(timeline as u64), Arc::clone(filters));
    }
    let each = start.elapsed().as_micros() as u64 / timelines.max(1);
    println!(
        "{timelines} timelines: {each} us each to register, {} KiB",
        resident_kib() - before
    );

    let note = |author: u64| {
        EventBuilder::new(1)
            .tag(["t", "nostr"])
            .content("x")
            .sign(&Author::new(author))
    };
    measure(
        &mut index,
        "note of somebody nobody follows",
        &note(AUTHORS + 1),
    );
    measure(&mut index, "note of a rare author", &note(AUTHORS - 1));
    measure(&mut index, "note of the 5,000th author", &note(5000));
    measure(&mut index, "note of the 500th author", &note(500));
    measure(&mut index, "note of the 50th author", &note(50));
    let like = EventBuilder::new(7)
        .tag(["e", &"0".repeat(64)])
        .sign(&Author::new(0));
    measure(&mut index, "reaction of the most followed author", &like);

    let start = Instant::now();
    for timeline in 0..timelines {
        index.remove(key(timeline));
    }
    let each = start.elapsed().as_micros() as u64 / timelines.max(1);
    println!("{each} us each to remove");
}
