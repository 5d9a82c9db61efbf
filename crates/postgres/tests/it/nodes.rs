//! Several stores on one schema, as several nodes have them.

use std::{sync::Arc, thread};

use futures_util::StreamExt;
use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use hikyaku_postgres::{Options, PostgresStore, testing::shared};
use hikyaku_store::{
    EventStore, Outcome, Reader,
    testing::{Blocking, block_on, feed_until},
};

const NOW: u64 = 10_000;

fn nodes(count: usize) -> Vec<PostgresStore> {
    let (url, schema) = shared();
    let options = Options {
        schema,
        ..Options::new(&url)
    };
    // At once, so that they race to make the schema.
    thread::scope(|scope| {
        let open = || PostgresStore::open(&options).unwrap();
        let opening: Vec<_> = (0..count).map(|_| scope.spawn(open)).collect();
        opening
            .into_iter()
            .map(|node| node.join().unwrap())
            .collect()
    })
}

fn versions(author: u64, count: u64) -> Vec<Arc<Event>> {
    let version = |at: u64| {
        let event = EventBuilder::new(30_023)
            .created_at(at / 2)
            .tag(["d", "page"]);
        Arc::new(event.content(&at.to_string()).sign(&Author::new(author)))
    };
    (0..count).map(version).collect()
}

#[test]
fn racing_nodes_leave_the_newest_version_and_nothing_else() {
    let nodes = nodes(3);
    let authors = 4;
    let all: Vec<_> = (0..authors).map(|author| versions(author, 40)).collect();
    thread::scope(|scope| {
        for (shift, node) in nodes.iter().enumerate() {
            for author in &all {
                scope.spawn(move || {
                    for step in 0..author.len() {
                        let event = &author[(step * 7 + shift * 13) % author.len()];
                        Blocking(node).put(event, NOW);
                    }
                });
            }
        }
    });
    let newest: Vec<_> = all
        .iter()
        .map(|versions| {
            let order = |event: &&Arc<Event>| (event.created_at(), std::cmp::Reverse(event.id()));
            versions.iter().max_by_key(order).unwrap().id()
        })
        .collect();
    for node in &nodes {
        // Its own last write has shown it everything before.
        let seen = EventBuilder::new(1).sign(&Author::new(99));
        Blocking(node).put(&Arc::new(seen), NOW);
        let filter = hikyaku_event::Filter {
            kinds: Some(vec![hikyaku_event::Kind(30_023)]),
            ..hikyaku_event::Filter::default()
        };
        let mut left = Blocking(node).all(filter, &Reader::anonymous(), NOW).ids();
        left.sort();
        let mut expected = newest.clone();
        expected.sort();
        assert_eq!(left, expected);
    }
}

#[test]
fn one_event_sent_to_all_nodes_is_stored_once_and_told_once_everywhere() {
    let nodes = nodes(3);
    let mut feeds: Vec<_> = nodes.iter().map(EventStore::committed).collect();
    let events: Vec<_> = (0..50)
        .map(|n| {
            let event = EventBuilder::new(1).created_at(n).content(&n.to_string());
            Arc::new(event.sign(&Author::new(n % 3)))
        })
        .collect();
    let outcomes: Vec<Vec<Outcome>> = thread::scope(|scope| {
        let write = |node| {
            let events = &events;
            let put = move |event| Blocking(node).put(event, NOW);
            scope.spawn(move || events.iter().map(put).collect::<Vec<_>>())
        };
        let writers: Vec<_> = nodes.iter().map(|node| write(node)).collect();
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect()
    });
    for n in 0..events.len() {
        let stored = outcomes
            .iter()
            .filter(|of| matches!(of[n], Outcome::Stored(_)));
        assert_eq!(stored.count(), 1, "event {n}");
    }
    let last = Arc::new(EventBuilder::new(1).content("last").sign(&Author::new(9)));
    Blocking(&nodes[1]).put(&last, NOW);
    for feed in &mut feeds {
        let told = feed_until(feed, |event| event.event.id() == last.id());
        assert!(told.is_sorted_by(|a, b| a.sequence < b.sequence));
        let mut ids: Vec<_> = told.iter().map(|event| event.event.id()).collect();
        ids.sort();
        let mut expected: Vec<_> = events
            .iter()
            .chain([&last])
            .map(|event| event.id())
            .collect();
        expected.sort();
        assert_eq!(ids, expected);
    }
}

#[test]
fn what_one_node_has_told_the_other_shows() {
    let nodes = nodes(2);
    let mut feed = nodes[1].committed();
    for n in 0..20 {
        let event = Arc::new(EventBuilder::new(1).created_at(n).sign(&Author::new(n)));
        Blocking(&nodes[0]).put(&event, NOW);
        feed_until(&mut feed, |told| told.event.id() == event.id());
        let found = Blocking(&nodes[1]).all(
            hikyaku_event::Filter {
                ids: Some(vec![event.id()]),
                ..hikyaku_event::Filter::default()
            },
            &Reader::anonymous(),
            NOW,
        );
        assert_eq!(found.ids(), [event.id()]);
    }
}

#[test]
fn what_nodes_tell_each_other_comes_once_in_order_and_not_to_who_told_it() {
    let nodes = nodes(3);
    let voices: Vec<_> = nodes
        .iter()
        .map(|node| node.neighbours().unwrap())
        .collect();
    let mut ears: Vec<_> = voices.iter().map(|voice| voice.hear()).collect();
    // A node listens, once it has heard of another's event.
    for (number, node) in (0..).zip(&nodes) {
        let mut feeds: Vec<_> = nodes.iter().map(EventStore::committed).collect();
        let event = EventBuilder::new(1)
            .created_at(number)
            .sign(&Author::new(50));
        let event = Arc::new(event);
        Blocking(node).put(&event, NOW);
        for feed in &mut feeds {
            feed_until(feed, |told| told.event.id() == event.id());
        }
    }
    let long = "é".repeat(30_000);
    let texts: Vec<String> = (0..100).map(|number| format!("{number} {long}")).collect();
    for text in &texts {
        for (number, voice) in voices.iter().enumerate() {
            voice.tell(format!("{number} {text}"));
        }
    }
    for (own, ear) in ears.iter_mut().enumerate() {
        let mut heard = vec![Vec::new(); 3];
        while heard.iter().map(Vec::len).sum::<usize>() < 200 {
            let text = block_on(ear.next()).unwrap();
            let (node, text) = text.split_once(' ').unwrap();
            heard[node.parse::<usize>().unwrap()].push(text.to_owned());
        }
        for (node, heard) in heard.into_iter().enumerate() {
            let expected: &[String] = if node == own { &[] } else { &texts };
            assert!(heard == expected, "from {node} at {own}");
        }
    }
}

#[test]
fn a_ban_is_known_to_all_nodes_until_it_is_taken_back() {
    let nodes = nodes(2);
    let mut changes = nodes[1].bans_changed();
    let ban = hikyaku_store::Ban {
        who: "10.0.0.0/8".to_owned(),
        reason: "a \"flood\"".to_owned(),
        since: NOW,
        until: Some(NOW + 60),
    };
    let mut wait_for = |expected: &[hikyaku_store::Ban]| {
        while block_on(nodes[1].bans()).unwrap() != expected {
            block_on(changes.next()).unwrap();
        }
    };
    block_on(nodes[0].ban(&ban)).unwrap();
    wait_for(std::slice::from_ref(&ban));
    let longer = hikyaku_store::Ban { until: None, ..ban };
    block_on(nodes[0].ban(&longer)).unwrap();
    wait_for(std::slice::from_ref(&longer));
    assert!(block_on(nodes[0].unban(&longer.who)).unwrap());
    wait_for(&[]);
    assert!(!block_on(nodes[1].unban(&longer.who)).unwrap());
}
