//! The live index against the loop over all filters.

use std::{collections::BTreeMap, sync::Arc};

use hikyaku_event::{
    Event, EventId, Filter, Kind, PublicKey, TagCondition, TagName,
    testing::{Author, EventBuilder},
};
use hikyaku_relay::{ListenerKey, LiveIndex, SubscriptionKey};
use proptest::{collection::vec, option, prelude::*, sample::subsequence};

use crate::driver::NOW;

const KINDS: [u16; 7] = [1, 3, 6, 7, 16, 1111, 30023];
const NAMES: [&str; 6] = ["e", "p", "t", "T", "title", "titles"];
const VALUES: [&str; 5] = ["", "a", "b", "\"\\\n", "😀"];

fn key(number: u64) -> ListenerKey {
    ListenerKey {
        connection: number / 3,
        subscription: SubscriptionKey(number % 3),
    }
}

fn authors() -> Vec<PublicKey> {
    (0..4).map(|seed| Author::new(seed).pubkey()).collect()
}

fn an_event() -> impl Strategy<Value = Event> {
    let tags = vec((0..NAMES.len(), 0..VALUES.len()), 0..6);
    (0..4u64, 0..KINDS.len(), 0..5u64, tags).prop_map(|(author, kind, second, tags)| {
        tags.into_iter()
            .fold(
                EventBuilder::new(KINDS[kind]).created_at(NOW + second),
                |event, (name, value)| event.tag([NAMES[name], VALUES[value]]),
            )
            .sign(&Author::new(author))
    })
}

/// A filter, sometimes on the id of one of the events.
fn a_filter(ids: &[EventId]) -> impl Strategy<Value = Filter> + use<> {
    let kinds = KINDS.map(Kind).to_vec();
    let values: Vec<String> = VALUES.iter().map(ToString::to_string).collect();
    let tags = vec(
        option::weighted(0.2, subsequence(values, 0..=3)),
        NAMES.len(),
    );
    (
        option::weighted(0.2, subsequence(ids.to_vec(), 0..=ids.len().min(3))),
        option::weighted(0.4, subsequence(authors(), 0..=4)),
        option::weighted(0.5, subsequence(kinds, 0..=6)),
        tags,
        option::weighted(0.2, NOW..NOW + 5),
        option::weighted(0.2, NOW..NOW + 5),
    )
        .prop_map(|(ids, authors, kinds, tags, since, until)| {
            let tags = NAMES.iter().zip(tags).filter_map(|(name, values)| {
                Some(TagCondition {
                    name: TagName::new(name).unwrap(),
                    values: values?,
                })
            });
            Filter {
                ids,
                authors,
                kinds,
                tags: tags.collect(),
                since,
                until,
                limit: None,
            }
            .sorted()
        })
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u64, Vec<Filter>),
    Remove(u64),
    Match(usize),
}

fn steps() -> impl Strategy<Value = (Vec<Event>, Vec<Step>)> {
    vec(an_event(), 1..6).prop_flat_map(|events| {
        let ids: Vec<_> = events.iter().map(Event::id).collect();
        let step = prop_oneof![
            4 => (0..12u64, vec(a_filter(&ids), 1..4)).prop_map(|(key, filters)| Step::Insert(key, filters)),
            1 => (0..12u64).prop_map(Step::Remove),
            4 => (0..events.len()).prop_map(Step::Match),
        ];
        (Just(events), vec(step, 1..60))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_event_finds_exactly_the_subscriptions_it_matches_each_once((events, steps) in steps()) {
        let mut index = LiveIndex::new(42);
        let mut naive: BTreeMap<ListenerKey, Vec<Filter>> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(number, filters) => {
                    index.insert(key(number), filters.clone().into());
                    naive.insert(key(number), filters);
                }
                Step::Remove(number) => {
                    index.remove(key(number));
                    naive.remove(&key(number));
                }
                Step::Match(event) => {
                    let event = &events[event];
                    let mut found = Vec::new();
                    index.for_each_match(event, |key| found.push(key));
                    found.sort_unstable();
                    let expected: Vec<_> = naive
                        .iter()
                        .filter(|(_, filters)| filters.iter().any(|filter| filter.matches(event)))
                        .map(|(key, _)| *key)
                        .collect();
                    prop_assert_eq!(found, expected);
                }
            }
            prop_assert_eq!(index.len(), naive.len());
        }
    }
}

#[test]
fn ten_thousand_home_timelines_of_300_authors_come_and_go() {
    const TIMELINES: u64 = 10_000;
    let hot = Author::new(1);
    let mut index = LiveIndex::new(42);
    for timeline in 0..TIMELINES {
        let mut authors: Vec<_> = (1..300u64)
            .map(|nth| {
                let number = (timeline * 7919 + nth * nth * 31) % 50_000;
                let mut bytes = [0; 32];
                bytes[..8].copy_from_slice(&number.to_be_bytes());
                PublicKey::new(bytes)
            })
            .collect();
        if timeline % 1000 == 0 {
            authors.push(hot.pubkey());
        }
        let filter = Filter {
            authors: Some(authors),
            kinds: Some(vec![Kind(1), Kind(6)]),
            ..Filter::default()
        };
        let filters: Arc<[Filter]> = [filter.sorted()].into();
        index.insert(key(timeline), filters);
    }
    let matches = |index: &mut LiveIndex, kind| {
        let mut count = 0;
        let event = EventBuilder::new(kind).sign(&hot);
        index.for_each_match(&event, |_| count += 1);
        count
    };
    assert_eq!(matches(&mut index, 1), 10);
    assert_eq!(matches(&mut index, 7), 0);
    for timeline in 0..TIMELINES {
        index.remove(key(timeline));
    }
    assert!(index.is_empty());
    assert_eq!(matches(&mut index, 1), 0);
}
