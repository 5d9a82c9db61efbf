//! `generate`: a corpus of validly signed events on standard output, the same for the same seed.
//!
//! One thread draws events and gives them their ids (they name each other), all cores sign, and the
//! lines come out in the order drawn. What waits is bounded, whatever the size of the corpus.

use std::{
    io::Write,
    sync::atomic::{AtomicBool, Ordering},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use crate::{
    amount,
    corpus::{
        shape::Shape,
        sign::{Identified, Identities},
    },
    error::{BenchError, During, Result},
};

/// Events signed at a time by one thread.
const BATCH: usize = 512;
/// Batches that may wait for one thread.
const WAITING: usize = 4;

/// What to generate.
#[derive(Debug, Clone, clap::Args)]
pub struct Generate {
    /// How many events.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) events: u64,
    /// The same seed gives the same events.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many authors, drawn by Zipf's law.
    #[arg(long, default_value_t = 50_000, value_parser = amount::count)]
    pub(crate) authors: usize,
}

struct Signer {
    drafts: SyncSender<Vec<Identified>>,
    lines: Receiver<String>,
}

/// Writes the corpus, one event a line; a set flag ends it behind a whole line.
pub(crate) fn generate(options: &Generate, out: &mut impl Write, stop: &AtomicBool) -> Result<()> {
    let identities = Identities::new(options.seed, Shape::identity_count(options.authors));
    let mut shape = Shape::new(options.seed, options.events, options.authors, &identities);
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let signers: Vec<_> = (0..cores).map(|_| signer(scope, &identities)).collect();
        let mut left = options.events;
        // One round gives each signer a batch, then takes the batches of an earlier round.
        let mut rounds_waiting = 0;
        while left > 0 || rounds_waiting > 0 {
            if stop.load(Ordering::Relaxed) {
                out.flush().during("standard output")?;
                return Err(BenchError::Interrupted);
            }
            for signer in &signers {
                let count = left.min(BATCH as u64);
                left -= count;
                let batch = (0..count).map(|_| shape.next()).collect();
                // A signer ends only when its channel closes.
                let _ = signer.drafts.send(batch);
            }
            rounds_waiting += 1;
            while rounds_waiting > if left > 0 { WAITING - 1 } else { 0 } {
                for signer in &signers {
                    let lines = signer.lines.recv().unwrap_or_default();
                    out.write_all(lines.as_bytes()).during("standard output")?;
                }
                rounds_waiting -= 1;
            }
        }
        out.flush().during("standard output")
    })
}

fn signer<'scope, 'env>(
    scope: &'scope thread::Scope<'scope, 'env>,
    identities: &'env Identities,
) -> Signer {
    let (drafts, batches) = sync_channel::<Vec<Identified>>(WAITING);
    let (signed, lines) = sync_channel(WAITING + 1);
    scope.spawn(move || {
        for batch in batches {
            let mut text = String::new();
            for event in &batch {
                text.push_str(&event.sign(identities));
                text.push('\n');
            }
            if signed.send(text).is_err() {
                return;
            }
        }
    });
    Signer { drafts, lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(events: u64) -> String {
        let options = Generate {
            events,
            seed: 7,
            authors: 500,
        };
        let mut out = Vec::new();
        generate(&options, &mut out, &AtomicBool::new(false)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_same_seed_gives_the_same_corpus_of_the_asked_length() {
        let first = lines(1_300);
        assert_eq!(first, lines(1_300));
        assert_eq!(first.lines().count(), 1_300);
    }

    #[test]
    fn a_stopped_corpus_is_no_corpus() {
        let options = Generate {
            events: u64::MAX,
            seed: 7,
            authors: 10,
        };
        let end = generate(&options, &mut std::io::sink(), &AtomicBool::new(true));
        assert!(matches!(end, Err(BenchError::Interrupted)), "{end:?}");
    }

    #[test]
    fn two_events_in_five_carry_the_popular_hashtag() {
        let corpus = lines(3_000);
        let tag = format!("[\"t\",\"{}\"]", crate::corpus::shape::POPULAR_HASHTAG);
        let tagged = corpus.lines().filter(|line| line.contains(&tag)).count();
        assert!((1_080..1_320).contains(&tagged), "{tagged}");
    }

    /// The value that so many of a hundred do not exceed.
    fn quantile(values: &mut [usize], of_hundred: usize) -> usize {
        values.sort_unstable();
        values[values.len() * of_hundred / 100]
    }

    #[test]
    fn kinds_sizes_tags_and_authors_are_those_of_the_real_network() {
        // Measured on recordings: kinds in a thousand.
        let measured = [
            (1, 300),
            (7, 200),
            (5, 70),
            (3, 50),
            (31234, 50),
            (9041, 50),
            (10002, 45),
            (9735, 36),
            (9734, 36),
            (6, 22),
            (0, 17),
            (4, 17),
        ];
        let options = Generate {
            events: 20_000,
            seed: 3,
            authors: 50_000,
        };
        let mut out = Vec::new();
        generate(&options, &mut out, &AtomicBool::new(false)).unwrap();
        let corpus = String::from_utf8(out).unwrap();
        let (mut bytes, mut tags) = (Vec::new(), Vec::new());
        let mut kinds = std::collections::HashMap::<u64, usize>::new();
        let mut authors = std::collections::HashMap::<String, usize>::new();
        for line in corpus.lines() {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            bytes.push(line.len());
            tags.push(event["tags"].as_array().unwrap().len());
            *kinds.entry(event["kind"].as_u64().unwrap()).or_default() += 1;
            let author = event["pubkey"].as_str().unwrap().to_owned();
            *authors.entry(author).or_default() += 1;
        }
        for (kind, share) in measured {
            let ours = kinds[&kind] * 1_000 / bytes.len();
            let band = share * 85 / 100 - 2..=share * 115 / 100 + 2;
            assert!(band.contains(&ours), "kind {kind}: {ours} in a thousand");
        }
        let mean = bytes.iter().sum::<usize>() / bytes.len();
        let found = [
            (quantile(&mut bytes, 50), 500..=680),
            (quantile(&mut bytes, 90), 1_550..=2_350),
            (quantile(&mut bytes, 99), 18_000..=30_000),
            (mean, 1_150..=1_650),
            (quantile(&mut tags, 50), 2..=3),
            (quantile(&mut tags, 90), 5..=8),
            (quantile(&mut tags, 99), 200..=340),
            (
                authors.values().max().unwrap() * 1_000 / bytes.len(),
                20..=40,
            ),
        ];
        for (found, band) in &found {
            assert!(band.contains(found), "{found} is not in {band:?}");
        }
    }

    #[test]
    fn ids_differ_and_events_name_each_other() {
        let corpus = lines(2_000);
        let mut ids = std::collections::HashSet::new();
        let mut answers = 0;
        for line in corpus.lines() {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            let tags = event["tags"].as_array().unwrap();
            answers += usize::from(
                tags.iter()
                    .any(|tag| tag[0] == "e" && ids.contains(tag[1].as_str().unwrap())),
            );
            assert!(ids.insert(event["id"].as_str().unwrap().to_owned()));
        }
        assert!(answers > 800, "{answers}");
    }
}
