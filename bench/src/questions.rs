//! The shapes of questions that clients ask, each drawn from what the corpus holds.

use crate::{
    corpus::{Bytes32, Corpus, Fields, Question},
    random::Random,
    shape::{POPULAR_HASHTAG, RARE_EVENTS},
};

/// A follow list of ordinary length.
const FOLLOWS: usize = 300;
/// How often an event is drawn before a shape is given up.
const TRIES: usize = 10_000;
/// Rare authors wrote all they wrote among the first events, one in so many.
const EARLY: usize = 4;

/// The shapes, in the order of the report.
pub(crate) const SHAPES: [&str; 11] = [
    "timeline of 300",
    "notifications",
    "thread",
    "hashtag",
    "hashtag within follows",
    "ids (50)",
    "author page",
    "global (200)",
    "rare author, popular tag",
    "two tags",
    "profiles of 300",
];

/// Draws questions.
#[derive(Debug)]
pub(crate) struct Questions<'a> {
    corpus: &'a Corpus,
    random: Random,
    rare: Vec<Bytes32>,
}

impl<'a> Questions<'a> {
    pub(crate) fn new(corpus: &'a Corpus, seed: u64) -> Self {
        Self {
            corpus,
            random: Random::new(seed),
            rare: corpus.rare_authors(POPULAR_HASHTAG, RARE_EVENTS, corpus.len() / EARLY),
        }
    }

    /// Draws a question of a shape; `None` if the corpus has nothing to ask for.
    pub(crate) fn draw(&mut self, shape: &str) -> Option<Question> {
        let popular = || ('t', POPULAR_HASHTAG.to_owned());
        let question = match shape {
            "timeline of 300" => Question {
                authors: self.follows(),
                kinds: vec![1],
                limit: 50,
                ..Question::default()
            },
            "notifications" => Question {
                tags: vec![('p', self.tag_of("p", |event| event.kind == 1)?)],
                kinds: vec![1, 6, 7, 9735],
                limit: 100,
                ..Question::default()
            },
            "thread" => Question {
                tags: vec![('e', self.tag_of("e", |event| event.kind == 1)?)],
                kinds: vec![1, 1111],
                limit: 500,
                ..Question::default()
            },
            "hashtag" => Question {
                tags: vec![('t', self.hashtag()?)],
                kinds: vec![1],
                limit: 50,
                ..Question::default()
            },
            "hashtag within follows" => Question {
                tags: vec![popular()],
                authors: self.follows(),
                kinds: vec![1],
                limit: 50,
                ..Question::default()
            },
            "ids (50)" => Question {
                ids: self.ids(50),
                limit: 50,
                ..Question::default()
            },
            "author page" => {
                let event = self.event(|event| event.kind == 1)?;
                Question {
                    authors: vec![event.pubkey.into_owned()],
                    kinds: vec![1, 6],
                    until: Some(event.created_at),
                    limit: 50,
                    ..Question::default()
                }
            }
            "global (200)" => Question {
                kinds: vec![1],
                limit: 200,
                ..Question::default()
            },
            "rare author, popular tag" => Question {
                authors: vec![faster_hex::hex_string(self.random.pick(&self.rare)?)],
                tags: vec![popular()],
                limit: 50,
                ..Question::default()
            },
            "two tags" => Question {
                tags: vec![
                    popular(),
                    ('p', self.tag_of("p", |event| matches!(event.kind, 1 | 7))?),
                ],
                kinds: vec![1, 7],
                limit: 50,
                ..Question::default()
            },
            "profiles of 300" => Question {
                authors: self.follows(),
                kinds: vec![0],
                limit: FOLLOWS,
                ..Question::default()
            },
            _ => return None,
        };
        Some(question)
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
            if let Some((event, _)) = self.corpus.event(place)
                && !authors.iter().any(|known| *known == event.pubkey)
            {
                authors.push(event.pubkey.into_owned());
            }
            if authors.len() == FOLLOWS {
                break;
            }
        }
        authors
    }

    fn ids(&mut self, count: usize) -> Vec<String> {
        let public = |event: &Fields<'_>| !matches!(event.kind, 4 | 1059);
        (0..count)
            .filter_map(|_| Some(self.event(public)?.id.into_owned()))
            .collect()
    }
}
