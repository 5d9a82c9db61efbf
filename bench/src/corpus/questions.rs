//! The shapes of questions that clients ask, each drawn from what the corpus holds.
//!
//! Every question is about the corpus alone: one that newer events could answer ends where the
//! corpus ends, so that what is published meanwhile, or was by earlier runs, changes no answer.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::corpus::{
    event::{Bytes32, Fields},
    question::Question,
    random::Random,
    shape::{POPULAR_HASHTAG, RARE_EVENTS},
    stored::Corpus,
};

/// A follow list of ordinary length.
const FOLLOWS: usize = 300;
/// How often an event is drawn before a shape is given up.
const TRIES: usize = 10_000;
/// Rare authors wrote all they wrote among the first events, one in so many.
const EARLY: usize = 4;
/// A client asks for the reactions to what it shows.
const SHOWN_NOTES: usize = 70;
/// What somebody catches up with who was away, in seconds.
const WINDOW_SECONDS: u64 = 600;

/// A shape, and how often it comes among a hundred mixed questions.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) share: i64,
    asks: Asks,
}

#[derive(Debug, Clone, Copy)]
enum Asks {
    Timeline,
    Notifications,
    Thread,
    Engagement,
    Profiles,
    Hashtag,
    Ids,
    AuthorPage,
    Global,
    HashtagWithinFollows,
    TwoTags,
    TimeWindow,
    RareAuthor,
    Nothing,
}

const fn shape(name: &'static str, share: i64, asks: Asks) -> Shape {
    Shape { name, share, asks }
}

/// The shapes, in the order of the report. The shares are a guess at what clients that people have
/// open ask for: timelines, what concerns their owners, and whatever these need to be shown.
pub(crate) const SHAPES: [Shape; 14] = [
    shape("timeline of 300", 20, Asks::Timeline),
    shape("notifications", 15, Asks::Notifications),
    shape("thread", 12, Asks::Thread),
    shape("engagement of 70 notes", 12, Asks::Engagement),
    shape("profiles of 300", 8, Asks::Profiles),
    shape("hashtag", 8, Asks::Hashtag),
    shape("ids (50)", 7, Asks::Ids),
    shape("author page", 8, Asks::AuthorPage),
    shape("global (200)", 3, Asks::Global),
    shape("hashtag within follows", 2, Asks::HashtagWithinFollows),
    shape("two tags", 1, Asks::TwoTags),
    shape("time window", 2, Asks::TimeWindow),
    shape("rare author, popular tag", 1, Asks::RareAuthor),
    shape("nothing", 1, Asks::Nothing),
];

/// Draws questions.
#[derive(Debug)]
pub(crate) struct Questions<'a> {
    corpus: &'a Corpus,
    random: Random,
    rare: Vec<Bytes32>,
    end: u64,
}

impl<'a> Questions<'a> {
    /// The same seed draws the same questions from the same corpus.
    pub(crate) fn new(corpus: &'a Corpus, seed: u64) -> Self {
        Self {
            corpus,
            random: Random::new(seed),
            rare: corpus.rare_authors(POPULAR_HASHTAG, RARE_EVENTS, corpus.len() / EARLY),
            end: corpus.newest(),
        }
    }

    /// Draws a question of a shape; `None` if the corpus has nothing to ask for.
    pub(crate) fn draw(&mut self, shape: &Shape) -> Option<Question> {
        let popular = || ('t', vec![POPULAR_HASHTAG.to_owned()]);
        let whole = Question {
            until: Some(self.end),
            limit: 50,
            ..Question::default()
        };
        let question = match shape.asks {
            Asks::Timeline => Question {
                authors: self.follows(),
                kinds: vec![1],
                ..whole
            },
            Asks::Notifications => Question {
                tags: vec![('p', vec![self.tag_of("p", |event| event.kind == 1)?])],
                kinds: vec![1, 6, 7, 9735],
                limit: 100,
                ..whole
            },
            Asks::Thread => Question {
                tags: vec![('e', vec![self.tag_of("e", |event| event.kind == 1)?])],
                kinds: vec![1, 1111],
                limit: 500,
                ..whole
            },
            Asks::Engagement => Question {
                tags: vec![('e', self.ids(SHOWN_NOTES, |event| event.kind == 1)?)],
                kinds: vec![1, 6, 7, 9735],
                limit: 500,
                ..whole
            },
            Asks::Profiles => Question {
                authors: self.follows(),
                kinds: vec![0],
                limit: FOLLOWS,
                ..whole
            },
            Asks::Hashtag => Question {
                tags: vec![('t', vec![self.hashtag()?])],
                kinds: vec![1],
                ..whole
            },
            Asks::Ids => Question {
                // Private kinds are not for everybody.
                ids: self.ids(50, |event| !matches!(event.kind, 4 | 1059))?,
                until: None,
                ..whole
            },
            Asks::AuthorPage => {
                let event = self.event(|event| event.kind == 1)?;
                Question {
                    authors: vec![event.pubkey.into_owned()],
                    kinds: vec![1, 6],
                    until: Some(event.created_at),
                    ..whole
                }
            }
            Asks::Global => Question {
                kinds: vec![1],
                limit: 200,
                ..whole
            },
            Asks::HashtagWithinFollows => Question {
                tags: vec![popular()],
                authors: self.follows(),
                kinds: vec![1],
                ..whole
            },
            Asks::TwoTags => {
                let person = self.tag_of("p", |event| matches!(event.kind, 1 | 7))?;
                Question {
                    tags: vec![popular(), ('p', vec![person])],
                    kinds: vec![1, 7],
                    ..whole
                }
            }
            Asks::TimeWindow => {
                let since = self.event(|_| true)?.created_at;
                Question {
                    kinds: vec![1, 6, 7],
                    since: Some(since),
                    until: Some((since + WINDOW_SECONDS).min(self.end)),
                    limit: 500,
                    ..whole
                }
            }
            Asks::RareAuthor => Question {
                authors: vec![faster_hex::hex_string(self.random.pick(&self.rare)?)],
                tags: vec![popular()],
                ..whole
            },
            // A key that nobody has: 256 random bits.
            Asks::Nothing => Question {
                authors: vec![faster_hex::hex_string(&self.random.bytes::<32>())],
                kinds: vec![1],
                ..whole
            },
        };
        Some(question)
    }

    /// Draws so many questions of each shape, in turns, with the places of their shapes. A shape of
    /// which none was found once is not looked for again. A set flag ends it with what it has.
    pub(crate) fn draw_all(&mut self, each: usize, stop: &AtomicBool) -> Vec<(usize, Question)> {
        let mut drawn = Vec::new();
        let mut given_up = [false; SHAPES.len()];
        for _ in 0..each {
            for ((place, shape), given_up) in SHAPES.iter().enumerate().zip(&mut given_up) {
                if *given_up || stop.load(Ordering::Relaxed) {
                    continue;
                }
                match self.draw(shape) {
                    Some(question) => drawn.push((place, question)),
                    None => *given_up = true,
                }
            }
        }
        drawn
    }

    /// Draws a stored event that has what is wanted.
    fn event(&mut self, wanted: impl Fn(&Fields<'_>) -> bool) -> Option<Fields<'a>> {
        (0..TRIES).find_map(|_| {
            let (event, stored) = self.corpus.event(self.random.below(self.corpus.len()))?;
            (stored && wanted(&event)).then_some(event)
        })
    }

    fn tag_of(&mut self, name: &str, wanted: impl Fn(&Fields<'_>) -> bool) -> Option<String> {
        let event = self.event(|event| wanted(event) && event.values(name).next().is_some())?;
        let values: Vec<_> = event.values(name).collect();
        self.random.pick(&values).map(ToString::to_string)
    }

    fn hashtag(&mut self) -> Option<String> {
        let other = |value: &&str| *value != POPULAR_HASHTAG;
        let event =
            self.event(|event| event.kind == 1 && event.values("t").any(|it| other(&it)))?;
        event.values("t").find(other).map(ToOwned::to_owned)
    }

    /// People follow the busy, and some of the others: the authors of random events.
    fn follows(&mut self) -> Vec<String> {
        let mut authors = Vec::new();
        for _ in 0..TRIES {
            let place = self.random.below(self.corpus.len());
            if let Some(author) = self.corpus.author(place)
                && !authors.contains(author)
            {
                authors.push(*author);
            }
            if authors.len() == FOLLOWS {
                break;
            }
        }
        authors
            .iter()
            .map(|key| faster_hex::hex_string(key))
            .collect()
    }

    /// Draws ids of different events, so many if there are.
    fn ids(&mut self, count: usize, wanted: impl Fn(&Fields<'_>) -> bool) -> Option<Vec<String>> {
        let drawn = (0..count).map_while(|_| Some(self.event(&wanted)?.id.into_owned()));
        let mut ids: Vec<String> = drawn.collect();
        ids.sort_unstable();
        ids.dedup();
        (!ids.is_empty()).then_some(ids)
    }
}
