//! A workout that shows what segments cost, on synthetic documents.

use std::{hint::black_box, time::Duration};

use bytes::Bytes;
use hikyaku_event::{EventId, Kind, PublicKey};
use hikyaku_store::{Key, Sequence};

use super::{DocId, Document, Flags, MergeInput, Segment, TermHasher, build, merge};

/// Builds, merges and reads `docs` synthetic documents, and tells what each step cost. `clock` tells
/// the time since some moment.
pub fn measure_segments(docs: u32, clock: &dyn Fn() -> Duration, tell: &mut dyn FnMut(String)) {
    let mut watch = Stopwatch { clock, tell };
    let hasher = TermHasher::new([7; 16]);
    let mut random = Random(1);
    let mut documents = Vec::with_capacity(docs as usize);
    watch.time("making a document and its terms", docs, || {
        documents.extend((0..docs).map(|number| document(number, &hasher, &mut random)));
    });

    measure_building(&documents, &hasher, &mut watch);
    measure_small_merging(&documents, &hasher, &mut watch);
    let mut whole = Vec::new();
    watch.time("building one segment, per document", docs, || {
        whole = build(&documents, &hasher).map_or(Vec::new(), |built| built.bytes);
    });
    measure_merging(&documents, &hasher, &mut watch);

    let size = whole.len();
    let Ok(segment) = Segment::open(Bytes::from(whole), "whole") else {
        return;
    };
    watch.time("verifying everything, per document", docs, || {
        black_box(segment.verify_all().is_ok());
    });
    measure_look_ups(&segment, &documents, &hasher, &mut watch);
    measure_lists(&segment, &hasher, &mut watch);

    let per_document = |bytes| bytes as f64 / f64::from(docs.max(1));
    (watch.tell)(format!(
        "{} terms, {} posting words, {:.1} bytes per document:",
        segment.terms_len(),
        segment.summary.posting_words,
        per_document(size)
    ));
    for (section, len) in segment.layout.section_lens() {
        (watch.tell)(format!("  {section:<15} {:>6.1}", per_document(len)));
    }
}

struct Stopwatch<'a> {
    clock: &'a dyn Fn() -> Duration,
    tell: &'a mut dyn FnMut(String),
}

impl Stopwatch<'_> {
    /// Does some work and tells what one of `count` parts of it took.
    fn time(&mut self, what: &str, count: u32, work: impl FnOnce()) {
        let start = (self.clock)();
        work();
        let took = (self.clock)().saturating_sub(start).as_nanos() as f64;
        let each = took / f64::from(count.max(1));
        (self.tell)(format!("{what:<60} {each:>8.1} ns"));
    }
}

/// Builds segments as small as commits make them.
fn measure_building(documents: &[Document], hasher: &TermHasher, watch: &mut Stopwatch<'_>) {
    for size in [1, 10, 100, 1000] {
        let parts: Vec<_> = documents
            .chunks(size)
            .take((100_000 / size).max(100))
            .collect();
        let count = parts.iter().map(|part| part.len() as u32).sum();
        let what = format!("building and opening segments of {size}, per document");
        watch.time(&what, count, || {
            for part in parts {
                let built = build(part, hasher).map(|built| Segment::in_memory(built.bytes));
                black_box(built.is_ok());
            }
        });
    }
}

/// Merges segments as small as those in memory are.
fn measure_small_merging(documents: &[Document], hasher: &TermHasher, watch: &mut Stopwatch<'_>) {
    for size in [1, 16, 256, 4096] {
        let parts = documents.chunks(size).take((100_000 / size).max(8));
        let built = parts.filter_map(|part| build(part, hasher).ok());
        let segments: Vec<_> = built
            .filter_map(|built| Segment::in_memory(built.bytes).ok())
            .collect();
        let count = segments.iter().map(Segment::len).sum();
        let what = format!("merging 4 segments of {size} in memory, per document");
        watch.time(&what, count, || {
            for group in segments.chunks(4) {
                let inputs = group.iter().map(|segment| MergeInput {
                    segment,
                    keep: &|_| true,
                    moved: None,
                });
                let inputs: Vec<_> = inputs.collect();
                let mut bytes = Vec::new();
                black_box(merge(&inputs, &mut bytes).is_ok());
                black_box(Segment::in_memory(bytes).is_ok());
            }
        });
    }
}

fn measure_merging(documents: &[Document], hasher: &TermHasher, watch: &mut Stopwatch<'_>) {
    let segment = |part: Vec<Document>| {
        let built = build(&part, hasher).ok()?;
        Segment::open(Bytes::from(built.bytes), "part").ok()
    };
    let eighth = documents.len().div_ceil(8).max(1);
    let successive = documents.chunks(eighth).map(<[Document]>::to_vec);
    let interleaved = |part| documents.iter().skip(part).step_by(8).cloned().collect();
    let successive: Vec<_> = successive.filter_map(segment).collect();
    let interleaved: Vec<_> = (0..8).map(interleaved).filter_map(segment).collect();
    let all = |_: DocId| true;
    let most = |doc: DocId| !doc.0.is_multiple_of(10);
    let cases: [(_, _, &dyn Fn(DocId) -> bool); 3] = [
        ("merging 8 segments, one after the other", &successive, &all),
        ("merging 8 segments, interleaved", &interleaved, &all),
        ("merging 8 segments, a tenth dropped", &successive, &most),
    ];
    for (what, segments, keep) in cases {
        let inputs: Vec<_> = segments
            .iter()
            .map(|segment| MergeInput {
                segment,
                keep,
                moved: None,
            })
            .collect();
        let mut merged = Vec::new();
        watch.time(
            &format!("{what}, per document"),
            documents.len() as u32,
            || {
                black_box(merge(&inputs, &mut merged).is_ok());
            },
        );
    }
}

/// Measures look-ups in an order that no cache foresees.
fn measure_look_ups(
    segment: &Segment,
    documents: &[Document],
    hasher: &TermHasher,
    watch: &mut Stopwatch<'_>,
) {
    let mut random = Random(2);
    let count = 200_000_u32;
    let some: Vec<_> = (0..count)
        .filter_map(|_| documents.get(random.below(documents.len() as u64) as usize))
        .collect();
    let ids: Vec<_> = some.iter().map(|document| document.key.id).collect();
    let times: Vec<_> = some
        .iter()
        .map(|document| document.key.created_at)
        .collect();
    let terms: Vec<_> = some
        .iter()
        .filter_map(|document| document.terms.get(3).copied())
        .collect();
    let absent_ids: Vec<_> = (0..count).map(|_| EventId::new(random.bytes())).collect();
    let absent_terms: Vec<_> = (0..count)
        .map(|number| hasher.tag(b'x', &number.to_le_bytes()))
        .collect();

    watch.time("finding an id that is there", count, || {
        for id in &ids {
            black_box(segment.find(id).is_ok());
        }
    });
    watch.time("finding an id that is absent", count, || {
        for id in &absent_ids {
            black_box(segment.find(id).is_ok());
        }
    });
    watch.time("finding a term that is there", count, || {
        for term in &terms {
            black_box(segment.term(*term).is_ok());
        }
    });
    watch.time("finding a term that is absent", count, || {
        for term in &absent_terms {
            black_box(segment.term(*term).is_ok());
        }
    });
    watch.time("finding the place of a time", count, || {
        for time in &times {
            black_box(segment.first_not_newer_than(*time).is_ok());
        }
    });
}

/// Measures the walk along a long list.
fn measure_lists(segment: &Segment, hasher: &TermHasher, watch: &mut Stopwatch<'_>) {
    let Ok(Some(list)) = segment.term(hasher.kind(Kind(1))) else {
        return;
    };
    watch.time("the next posting of a list", list.len, || {
        for index in 0..list.len {
            black_box(segment.posting(list, index).is_ok());
        }
    });
    watch.time("a posting, its kind and its author", list.len, || {
        for doc in (0..list.len).filter_map(|index| segment.posting(list, index).ok()) {
            black_box(segment.kind(doc).is_ok());
            black_box(segment.author_ordinal(doc).is_ok());
        }
    });
    watch.time("a posting and its key", list.len, || {
        for doc in (0..list.len).filter_map(|index| segment.posting(list, index).ok()) {
            black_box(segment.key(doc).is_ok());
        }
    });
    watch.time(
        "seeking in a list, 100 postings ahead",
        list.len / 100,
        || {
            let mut index = 0;
            while let Ok(doc) = segment.posting(list, (index + 100).min(list.len)) {
                index = segment.seek(list, index, doc).unwrap_or(list.len);
            }
        },
    );
}

/// A synthetic document with six tags: two references to events, two to people, a hashtag, and one
/// that nobody else has. Authors and hashtags are popular by Zipf's law.
fn document(number: u32, hasher: &TermHasher, random: &mut Random) -> Document {
    let author = PublicKey::new(Random(u64::from(random.zipf(50_000))).bytes());
    let kind = Kind(match random.below(100) {
        0..55 => 1,
        55..80 => 7,
        80..90 => 6,
        90..95 => 1111,
        _ => 30023,
    });
    let author_term = hasher.author(&author);
    let mut terms = vec![
        author_term,
        hasher.kind(kind),
        hasher.author_kind(&author, kind),
    ];
    for _ in 0..2 {
        // Mostly of late: what people answer and like is new.
        let event = number.saturating_sub(random.zipf(number.max(2)));
        terms.push(hasher.tag(
            b'e',
            hex(&Random(u64::from(event) << 32).bytes()).as_bytes(),
        ));
        let person = Random(u64::from(random.zipf(50_000))).bytes();
        terms.push(hasher.tag(b'p', hex(&person).as_bytes()));
    }
    let hashtag = format!("hashtag{}", random.zipf(10_000));
    terms.push(hasher.tag(b't', hashtag.as_bytes()));
    terms.push(hasher.tag(b'r', format!("https://example.com/{number}").as_bytes()));
    terms.sort_unstable();
    terms.dedup();
    Document {
        key: Key {
            created_at: 1_700_000_000 + u64::from(number) * 3 + random.below(600),
            id: EventId::new(Random(u64::from(number) << 32).bytes()),
        },
        sequence: Sequence(u64::from(number) + 1),
        kind,
        flags: Flags::default(),
        position: u64::from(number) * 700,
        expires_at: None,
        author: author_term,
        terms,
    }
}

fn hex(bytes: &[u8; 32]) -> String {
    EventId::new(*bytes).to_hex()
}

/// Numbers that look random and are always the same (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// A number below `end`, with a probability that falls about as its inverse: as many below a
    /// number as from it to its double.
    fn zipf(&mut self, end: u32) -> u32 {
        let octave = self.below(u64::from(u32::BITS - end.leading_zeros()));
        self.below(u64::from(end >> octave)) as u32
    }

    fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for chunk in bytes.as_chunks_mut().0 {
            *chunk = self.next().to_le_bytes();
        }
        bytes
    }
}
