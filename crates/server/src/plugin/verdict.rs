//! What handlers decide about events and queries.

use std::borrow::Cow;

use hikyaku_event::{Event, Filter};

use super::Client;

/// What becomes of an event that is well-formed, signed, and not stored yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing speaks against it.
    Accept,
    /// It is not stored, and its author hears why. A reason that begins with none of NIP-01's words
    /// (`blocked: `, `invalid: `, ...) gets `blocked: `.
    Reject(Cow<'static, str>),
    /// It is not stored, and its author hears that it was.
    ShadowReject,
    /// The handler has dealt with it: it is neither stored nor delivered, and its author hears that it
    /// was accepted, and this.
    Answer(Cow<'static, str>),
    /// It is stored if the client has authenticated some key (NIP-42); otherwise it hears
    /// `auth-required: ` and may try again.
    RequireAuth,
    /// It is stored if its id begins with so many zero bits, and a commitment in its `nonce` tag, if
    /// there is one, is no lower (NIP-13); otherwise its author hears `pow: `.
    RequireWork {
        /// How many bits.
        bits: u8,
    },
}

impl Verdict {
    /// Makes a refusal with this reason.
    pub fn reject(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Reject(reason.into())
    }
}

/// What becomes of a REQ or COUNT that is well-formed and within the limits.
#[derive(Debug, Clone)]
pub enum QueryVerdict {
    /// It is answered.
    Accept,
    /// These filters are answered in its place, stored and live. None: nothing matches.
    Narrow(Vec<Filter>),
    /// These events are the stored answer to a REQ, made by the handler; a COUNT is refused.
    Answer(Vec<Event>),
    /// It is closed, and the client hears why. A reason that begins with none of NIP-01's words gets
    /// `restricted: `.
    Refuse(Cow<'static, str>),
    /// It is answered if the client has authenticated some key (NIP-42); otherwise it is closed with
    /// `auth-required: `.
    RequireAuth,
}

impl QueryVerdict {
    /// Makes a refusal with this reason.
    pub fn refuse(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Refuse(reason.into())
    }
}

/// A decision that needs no more looking at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Accept,
    Reject(Cow<'static, str>),
    ShadowReject,
    Answer(Cow<'static, str>),
}

impl Verdict {
    /// Finds out what a verdict comes to for this event of this client.
    pub(crate) fn settle(self, client: &Client, event: &Event) -> Decision {
        match self {
            Self::ShadowReject => Decision::ShadowReject,
            Self::Answer(text) => Decision::Answer(text),
            Self::Reject(reason) => Decision::Reject(with_word(reason, "blocked")),
            Self::RequireAuth if client.keys().is_empty() => Decision::Reject(
                "auth-required: this relay takes such events from authenticated clients only"
                    .into(),
            ),
            Self::Accept | Self::RequireAuth => Decision::Accept,
            Self::RequireWork { bits } => match work_done(event) {
                done if done >= u32::from(bits) => Decision::Accept,
                done => {
                    Decision::Reject(format!("pow: difficulty {done} is less than {bits}").into())
                }
            },
        }
    }
}

/// NIP-01's words for the machine, and NIP-42's.
const WORDS: [&str; 9] = [
    "duplicate",
    "pow",
    "blocked",
    "rate-limited",
    "invalid",
    "restricted",
    "mute",
    "error",
    "auth-required",
];

/// Puts a word for the machine before a reason that has none.
pub(crate) fn with_word(reason: Cow<'static, str>, word: &str) -> Cow<'static, str> {
    let has_word = reason
        .split_once(": ")
        .is_some_and(|(word, _)| WORDS.contains(&word));
    if has_word {
        reason
    } else {
        format!("{word}: {reason}").into()
    }
}

/// Returns an event's work: the zero bits its id begins with, or fewer where its author has
/// committed to fewer (NIP-13).
pub fn work_done(event: &Event) -> u32 {
    let id = event.id();
    let mut bits = 0;
    for byte in id.as_bytes() {
        bits += byte.leading_zeros();
        if *byte != 0 {
            break;
        }
    }
    let committed = event
        .tags()
        .find(|tag| tag.name() == "nonce")
        .and_then(|tag| tag.get(2)?.parse().ok());
    committed.map_or(bits, |committed: u32| bits.min(committed))
}

#[cfg(test)]
mod tests {
    use hikyaku_event::testing::{Author, EventBuilder};

    use super::*;

    /// Makes an event of at least so much work, with a commitment to so much.
    fn worked(least: u32, committed: Option<&str>) -> Event {
        let event = |n: u32| {
            let n = n.to_string();
            let nonce = [Some("nonce"), Some(&*n), committed];
            let nonce: Vec<_> = nonce.into_iter().flatten().collect();
            EventBuilder::new(1).tag(nonce).sign(&Author::new(1))
        };
        let bits = |event: &Event| {
            let digits = event.id().to_hex();
            let first = u64::from_str_radix(&digits[..16], 16).unwrap();
            first.leading_zeros()
        };
        (0..1_000_000)
            .map(event)
            .find(|event| bits(event) >= least)
            .unwrap()
    }

    #[test]
    fn work_is_what_the_id_begins_with_and_no_more_than_was_meant() {
        for (least, committed, expected) in [
            (9, None, 9..256),
            (9, Some("200"), 9..256),
            (9, Some("9"), 9..10),
            (9, Some("3"), 3..4),
            (3, Some("0"), 0..1),
            (5, Some("many"), 5..256),
        ] {
            let done = work_done(&worked(least, committed));
            assert!(expected.contains(&done), "{least} {committed:?}: {done}");
        }
    }
}
