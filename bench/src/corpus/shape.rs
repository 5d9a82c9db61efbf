//! What the corpus looks like: kinds, tags, sizes, who writes, who is answered.
//!
//! Kinds, sizes, tags and the share of the busiest author are near what was measured on recordings
//! of public relays; `generate` has the test that says how near. Two things are put in on
//! purpose, because relays fail on them: a hashtag that 40 % of all events carry, and authors who
//! wrote only a handful of events, long ago, with that hashtag.

use std::collections::VecDeque;

use crate::corpus::{
    event::Bytes32,
    random::{Random, Zipf},
    sign::{Draft, Identified, Identities},
    tags::Tags,
};

/// The hashtag that [`POPULAR_SHARE`] of all events carry.
pub(crate) const POPULAR_HASHTAG: &str = "nostr";
/// The share of all events with [`POPULAR_HASHTAG`].
const POPULAR_SHARE: f64 = 0.4;
/// Kinds that carry hashtags make up this share of the events; see [`KINDS`].
const TAGGED_SHARE: f64 = 0.756;
/// How many other hashtags there are, by Zipf.
const HASHTAGS: usize = 5_000;
/// How many authors write rarely, and how many events each.
pub(crate) const RARE_AUTHORS: usize = 100;
pub(crate) const RARE_EVENTS: usize = 5;
/// People answer what is recent: one of so many latest notes, mostly.
const RECENT_NOTES: usize = 4_096;
/// A few notes draw most answers, as threads do.
const HOT_NOTES: usize = 128;
/// Events that may have been made in the same second, late ones included.
const LATEST: usize = 256;
/// The time of the first event (2025-06-15): in the past, whenever this runs.
const EPOCH: u64 = 1_750_000_000;

/// Flattens Zipf's law at its top, so that the busiest of many wrote 3 % of all.
const AUTHORS_SHIFT: f64 = 2.5;

/// Kinds and how many in a thousand.
const KINDS: [(u16, u32); 19] = [
    (1, 290),
    (7, 195),
    (5, 70),
    (1059, 50),
    (3, 48),
    (31234, 48),
    (9041, 48),
    (10002, 43),
    (9735, 35),
    (9734, 35),
    (5300, 29),
    (6300, 29),
    (6, 22),
    (0, 17),
    (4, 16),
    (1111, 10),
    (30023, 8),
    (30078, 4),
    (1311, 3),
];

const WORDS: [&str; 48] = [
    "the",
    "relay",
    "a",
    "note",
    "and",
    "people",
    "to",
    "of",
    "in",
    "good",
    "morning",
    "is",
    "we",
    "that",
    "for",
    "zap",
    "with",
    "key",
    "client",
    "open",
    "on",
    "it",
    "this",
    "my",
    "at",
    "from",
    "today",
    "build",
    "why",
    "when",
    "free",
    "speech",
    "coffee",
    "garden",
    "music",
    "photo",
    "river",
    "mountain",
    "thanks",
    "everyone",
    "\\\"quoted\\\"",
    "line\\nbreak",
    "日本語",
    "🌊",
    "café",
    "https://example.com/image.jpg",
    "nostr",
    "bitcoin",
];

#[derive(Debug, Clone)]
struct Note {
    id: String,
    author: usize,
}

/// Draws one event after another.
#[derive(Debug)]
pub(crate) struct Shape<'a> {
    identities: &'a Identities,
    random: Random,
    authors: Zipf,
    hashtags: Zipf,
    author_count: usize,
    recent: Vec<Note>,
    hot: Vec<Note>,
    /// Which rare author writes at which place in the sequence.
    rare: Vec<(u64, usize)>,
    position: u64,
    /// The ids of the latest events.
    latest: VecDeque<Bytes32>,
    clock: u64,
    /// Every event is a second newer than the one before it, and all can be stored in that order.
    in_order: bool,
    last: u64,
    without: Vec<u16>,
}

impl<'a> Shape<'a> {
    /// How many identities a corpus needs: its authors, and the rare ones after them.
    pub(crate) fn identity_count(authors: usize) -> usize {
        authors + RARE_AUTHORS
    }

    /// Prepares a corpus. A shorter corpus of a seed is the beginning of a longer one, as long as
    /// both have at least 100,000 events.
    pub(crate) fn new(seed: u64, events: u64, authors: usize, identities: &'a Identities) -> Self {
        let mut random = Random::new(seed);
        // Early, so that the way from the newest event to them is long.
        let early = events.clamp(1, 20_000);
        let writers = RARE_AUTHORS.min(events as usize / 1_000);
        let mut rare: Vec<_> = (0..writers * RARE_EVENTS)
            .map(|n| (random.next() % early, authors + n % writers.max(1)))
            .collect();
        rare.sort_unstable();
        rare.dedup_by_key(|(position, _)| *position);
        rare.reverse();
        Self {
            identities,
            random,
            authors: Zipf::shifted(authors, AUTHORS_SHIFT),
            hashtags: Zipf::new(HASHTAGS),
            author_count: authors,
            recent: Vec::with_capacity(RECENT_NOTES),
            hot: Vec::with_capacity(HOT_NOTES),
            rare,
            position: 0,
            latest: VecDeque::with_capacity(LATEST),
            clock: EPOCH,
            in_order: false,
            last: 0,
            without: Vec::new(),
        }
    }

    /// Lets the events begin at a time of their own, each newer than the one before it, and without
    /// some kinds: a relay that gets each author's in this order has no reason to refuse one.
    pub(crate) fn in_order_from(mut self, clock: u64, without: &[u16]) -> Self {
        (self.clock, self.in_order, self.without) = (clock, true, without.to_vec());
        self.rare.clear();
        self
    }

    /// Returns the next event, identified but not signed.
    pub(crate) fn next(&mut self) -> Identified {
        // One event a second, several in some seconds; a few arrive late.
        self.clock += self.random.below(3) as u64;
        let mut late = 0;
        if self.random.chance(0.05) {
            late = self.random.below(60) as u64;
        }
        if self.in_order {
            (self.clock, late) = (self.clock.max(self.last + 1), 0);
            self.last = self.clock;
        }
        let rare = self.rare.last().filter(|(at, _)| *at == self.position);
        let draft = if let Some((_, author)) = rare.copied() {
            self.rare.pop();
            self.note(author, true)
        } else {
            let author = self.authors.draw(&mut self.random);
            let mut draft = self.draw(author);
            while self.without.contains(&draft.kind) {
                draft = self.draw(author);
            }
            draft
        };
        self.position += 1;
        let mut identified = Draft {
            created_at: self.clock - late,
            ..draft
        }
        .identify(self.identities);
        // Somebody who deletes a note twice in a second would write the same event twice.
        while self.latest.contains(&identified.id) {
            let created_at = identified.draft.created_at + 1;
            identified = Draft {
                created_at,
                ..identified.draft
            }
            .identify(self.identities);
        }
        if self.latest.len() == LATEST {
            self.latest.pop_front();
        }
        self.latest.push_back(identified.id);
        if identified.draft.kind == 1 {
            self.remember(&identified);
        }
        identified
    }

    fn remember(&mut self, event: &Identified) {
        let note = Note {
            id: faster_hex::hex_string(&event.id),
            author: event.draft.author,
        };
        if self.random.chance(0.01) {
            replace_random(&mut self.hot, HOT_NOTES, note.clone(), &mut self.random);
        }
        replace_random(&mut self.recent, RECENT_NOTES, note, &mut self.random);
    }

    fn draw(&mut self, author: usize) -> Draft {
        let mut point = self.random.below(1000) as u32;
        let kind = KINDS
            .iter()
            .find(|(_, share)| {
                let found = point < *share;
                point = point.saturating_sub(*share);
                found
            })
            .map_or(1, |(kind, _)| *kind);
        match kind {
            1 => self.note(author, false),
            5 => self.deletion(author),
            0 => self.profile(author),
            3 => self.follows(author),
            10002 => self.relays(author),
            4 | 1059 => self.private(author, kind),
            9734 => self.zap_request(author),
            9735 => self.zap(author),
            30023 | 30078 | 31234 => self.document(author, kind),
            _ => self.answer(author, kind),
        }
    }

    fn target(&mut self) -> Option<Note> {
        let from = if self.random.chance(0.4) {
            &self.hot
        } else {
            &self.recent
        };
        let note = self.random.pick(from).cloned();
        note.or_else(|| self.random.pick(&self.recent).cloned())
    }

    fn key(&mut self) -> String {
        let author = self.authors.draw(&mut self.random);
        self.identities.get(author).public_hex().to_owned()
    }

    fn note(&mut self, author: usize, rare: bool) -> Draft {
        let mut tags = Tags::default();
        let answered = if !rare && self.random.chance(0.6) {
            self.target()
        } else {
            None
        };
        if let Some(root) = answered {
            tags.push(&["e", &root.id, "", "root"]);
            if self.random.chance(0.4)
                && let Some(parent) = self.random.pick(&self.recent).cloned()
            {
                tags.push(&["e", &parent.id, "", "reply"]);
                tags.push(&["p", self.identities.get(parent.author).public_hex()]);
            }
            tags.push(&["p", self.identities.get(root.author).public_hex()]);
        }
        if self.random.chance(0.1) {
            for _ in 0..self.random.heavy(1, 60, 0.7) {
                let key = self.key();
                tags.push(&["p", &key]);
            }
        }
        if rare {
            tags.push(&["t", POPULAR_HASHTAG]);
        } else {
            self.hashtags_into(&mut tags);
        }
        if self.random.chance(0.3) {
            tags.push(&["client", "hikyaku-bench"]);
        }
        let words = self.random.heavy(10, 3_000, 0.5);
        self.draft(author, 1, tags, words)
    }

    /// Reactions, reposts, comments, goals, jobs: one note, its author, perhaps hashtags.
    fn answer(&mut self, author: usize, kind: u16) -> Draft {
        let mut tags = Tags::default();
        if let Some(note) = self.target() {
            tags.push(&["e", &note.id]);
            tags.push(&["p", self.identities.get(note.author).public_hex()]);
            if self.random.chance(0.5) {
                tags.push(&["k", "1"]);
            }
        }
        if kind == 9041 {
            tags.push(&["amount", "21000000"]);
            self.relays_into(&mut tags, 3);
        }
        self.hashtags_into(&mut tags);
        let words = match kind {
            6 | 7 | 6300 => 0,
            _ => self.random.heavy(10, 500, 0.4),
        };
        let mut draft = self.draft(author, kind, tags, words);
        match kind {
            7 => {
                let sign = if self.random.chance(0.7) { "+" } else { "🤙" };
                draft.content = format!("\"{sign}\"");
            }
            // The event that is reposted; what the job came to.
            6 => draft.content = self.sealed(500, 4_000, 0.4),
            6300 => draft.content = self.sealed(150, 20_000, 0.8),
            _ => {}
        }
        draft
    }

    fn zap(&mut self, author: usize) -> Draft {
        let mut tags = Tags::default();
        let sender = self.key();
        if let Some(note) = self.target() {
            let receiver = self.identities.get(note.author).public_hex().to_owned();
            tags.push(&["p", &receiver]);
            tags.push(&["e", &note.id]);
            // The whole request, as the wallet got it.
            let (id, signature) = (self.opaque(64), self.opaque(128));
            let request = format!(
                "{{\\\"id\\\":\\\"{id}\\\",\\\"pubkey\\\":\\\"{sender}\\\",\\\"created_at\\\":{},\
                 \\\"kind\\\":9734,\\\"tags\\\":[[\\\"amount\\\",\\\"21000\\\"],[\\\"p\\\",\\\"{receiver}\\\"],\
                 [\\\"e\\\",\\\"{}\\\"]],\\\"content\\\":\\\"\\\",\\\"sig\\\":\\\"{signature}\\\"}}",
                self.clock, note.id
            );
            tags.push(&["description", &request]);
        }
        tags.push(&["P", &sender]);
        let invoice = self.opaque(300);
        tags.push(&["bolt11", &format!("lnbc{invoice}")]);
        self.hashtags_into(&mut tags);
        self.draft(author, 9735, tags, 0)
    }

    fn private(&mut self, author: usize, kind: u16) -> Draft {
        let mut tags = Tags::default();
        let receiver = self.key();
        tags.push(&["p", &receiver]);
        let mut draft = self.draft(author, kind, tags, 0);
        draft.content = match kind {
            // A message in a seal in a wrap.
            1059 => self.sealed(900, 10_000, 0.45),
            _ => self.sealed(150, 3_000, 0.4),
        };
        draft
    }

    fn follows(&mut self, author: usize) -> Draft {
        let mut tags = Tags::default();
        let count = if self.random.chance(0.01) {
            self.random.heavy(700, 3_000, 0.5)
        } else {
            self.random.heavy(40, 800, 1.1)
        };
        for _ in 0..count {
            let key = self.key();
            if self.random.chance(0.25) {
                let relay = format!("wss://relay{}.example.com/", self.random.below(300));
                tags.push(&["p", &key, &relay]);
            } else {
                tags.push(&["p", &key]);
            }
        }
        self.draft(author, 3, tags, 0)
    }

    fn relays(&mut self, author: usize) -> Draft {
        let mut tags = Tags::default();
        for _ in 0..self.random.between(2, 8) {
            let relay = format!("wss://relay{}.example.com/", self.random.below(300));
            tags.push(&["r", &relay]);
        }
        self.draft(author, 10002, tags, 0)
    }

    fn relays_into(&mut self, tags: &mut Tags, count: usize) {
        let mut names = vec!["relays".to_owned()];
        names.extend((0..count).map(|_| {
            let number = self.random.below(300);
            format!("wss://relay{number}.example.com/")
        }));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        tags.push(&names);
    }

    fn zap_request(&mut self, author: usize) -> Draft {
        let mut tags = Tags::default();
        self.relays_into(&mut tags, 4);
        tags.push(&["amount", "21000"]);
        if let Some(note) = self.target() {
            tags.push(&["p", self.identities.get(note.author).public_hex()]);
            tags.push(&["e", &note.id]);
        }
        self.hashtags_into(&mut tags);
        let words = self.random.heavy(2, 100, 0.5);
        self.draft(author, 9734, tags, words)
    }

    fn profile(&mut self, author: usize) -> Draft {
        let mut draft = self.draft(author, 0, Tags::default(), 0);
        let about = self.text(12);
        draft.content = format!(
            "\"{{\\\"name\\\":\\\"user{author}\\\",\\\"picture\\\":\\\"https://example.com/{author}.png\\\",\
             \\\"lud16\\\":\\\"user{author}@example.com\\\"}} {about}\""
        );
        draft
    }

    fn document(&mut self, author: usize, kind: u16) -> Draft {
        let mut tags = Tags::default();
        let name = format!("document-{author}-{}", self.random.below(40));
        tags.push(&["d", &name]);
        self.hashtags_into(&mut tags);
        if kind == 30023 {
            let words = self.random.heavy(200, 8_000, 0.7);
            return self.draft(author, kind, tags, words);
        }
        // A draft is encrypted; what programs keep is nobody's business.
        let mut draft = self.draft(author, kind, tags, 0);
        draft.content = match kind {
            31234 => self.sealed(500, 60_000, 0.9),
            _ => self.sealed(200, 8_000, 0.7),
        };
        draft
    }

    /// A deletion by the author of some recent note; without one, a note is written instead.
    fn deletion(&mut self, author: usize) -> Draft {
        let Some(target) = self.random.pick(&self.recent).cloned() else {
            return self.note(author, false);
        };
        if target.author >= self.author_count {
            return self.note(author, false);
        }
        let mut tags = Tags::default();
        tags.push(&["e", &target.id]);
        tags.push(&["k", "1"]);
        self.draft(target.author, 5, tags, 1)
    }

    fn hashtags_into(&mut self, tags: &mut Tags) {
        if self.random.chance(POPULAR_SHARE / TAGGED_SHARE) {
            tags.push(&["t", POPULAR_HASHTAG]);
        }
        if self.random.chance(0.25) {
            for _ in 0..self.random.between(1, 4) {
                let hashtag = format!("topic{}", self.hashtags.draw(&mut self.random));
                tags.push(&["t", &hashtag]);
            }
        }
    }

    fn draft(&mut self, author: usize, kind: u16, tags: Tags, words: usize) -> Draft {
        Draft {
            author,
            created_at: 0,
            kind,
            tags: tags.into_json(),
            content: format!("\"{}\"", self.text(words)),
        }
    }

    fn text(&mut self, words: usize) -> String {
        let mut text = String::new();
        for _ in 0..words {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(self.random.pick(&WORDS).copied().unwrap_or_default());
        }
        text
    }

    /// Returns content that nobody can read, of a length drawn so.
    fn sealed(&mut self, low: usize, high: usize, tail: f64) -> String {
        let bytes = self.random.heavy(low, high, tail);
        format!("\"{}\"", self.opaque(bytes))
    }

    fn opaque(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes * 2);
        while text.len() < bytes {
            text.push_str(&faster_hex::hex_string(&self.random.bytes::<16>()));
        }
        text
    }
}

/// Puts an item in a free place, or in the place of a random other.
fn replace_random<T>(items: &mut Vec<T>, capacity: usize, item: T, random: &mut Random) {
    if items.len() < capacity {
        items.push(item);
    } else {
        let place = random.below(items.len());
        if let Some(slot) = items.get_mut(place) {
            *slot = item;
        }
    }
}
