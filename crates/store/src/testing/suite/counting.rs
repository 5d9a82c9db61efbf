//! COUNT (NIP-45): everything that matches, each event once, without any limit.

use super::{
    filters::{Narrow, any},
    subject::{Subject, query},
};
use crate::{
    EventStore, LimitPolicy, Query, Reader,
    testing::{draft, key},
};

/// Limits play no part in a count, 0 neither.
pub fn counts_ignore_limits(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let events: Vec<_> = (100..150).map(|at| draft(1, 1, at).build()).collect();
    store.store_all(&events);
    for filter in [any(), any().kinds([1]), any().authors([1])] {
        for limit in [0, 1, 49, u64::MAX] {
            assert_eq!(store.count(&[filter.clone().limit(limit)]), 50);
        }
        let limits = LimitPolicy { default: 3, max: 5 };
        let query = Query {
            limits,
            ..query(&[filter], &Reader::anonymous())
        };
        assert_eq!(store.blocking().count(query), 50);
    }
}

/// What several filters match counts once.
pub fn an_event_of_several_filters_counts_once(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let events: Vec<_> = (0..20)
        .map(|n| {
            draft(n % 4, (n % 3) as u16 + 6, 100 + u64::from(n))
                .tag(&["t", "x"])
                .build()
        })
        .collect();
    store.store_all(&events);
    assert_eq!(store.count(&[any(), any()]), 20);
    assert_eq!(
        store.count(&[any().authors([0]), any().authors([0, 1])]),
        10
    );
    assert_eq!(
        store.count(&[any().kinds([6]), any().authors([0])]),
        7 + 5 - 2
    );
    assert_eq!(store.count(&[any().tag('t', ["x"]), any().kinds([6])]), 20);
    assert_eq!(store.count(&[any().kinds([9]), any().ids([&events[0]])]), 1);
    assert_eq!(
        store.count(&[any().since(105).until(109), any().since(109).until(110)]),
        6
    );
}

/// A count follows what is removed, replaced, hidden and readable.
pub fn counts_follow_every_change(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let count = |filter: &hikyaku_event::Filter, reader: &Reader| {
        store
            .blocking()
            .count(query(std::slice::from_ref(filter), reader))
    };
    let anybody = Reader::anonymous();
    let notes: Vec<_> = (100..110).map(|at| draft(1, 1, at).build()).collect();
    let to = key(2).to_hex();
    let wraps: Vec<_> = (100..104)
        .map(|at| draft(1, 1059, at).tag(&["p", &to]).build())
        .collect();
    store.store_all(&notes);
    store.store_all(&wraps);
    store.store(&draft(1, 0, 100).build());
    let by_author = any().authors([1]);
    assert_eq!(count(&by_author, &anybody), 11);
    assert_eq!(count(&by_author, &Reader::authenticated([key(2)])), 15);
    assert_eq!(count(&any().kinds([1059]), &anybody), 0);
    assert_eq!(count(&any().tag('p', [&*to]), &anybody), 0);
    assert_eq!(count(&any().tag('p', [&*to]), &Reader::operator()), 4);
    store.store(&draft(1, 0, 101).build());
    assert_eq!(count(&by_author, &anybody), 11);
    store.hide(&notes[0], 1);
    assert_eq!(count(&by_author, &anybody), 10);
    assert_eq!(count(&by_author, &Reader::operator()), 14);
    store.remove(&notes[1]);
    store.store(
        &draft(1, 5, 200)
            .tag(&["e", &notes[2].id().to_hex()])
            .build(),
    );
    assert_eq!(count(&any().kinds([1]), &anybody), 7);
    store.unhide(&notes[0], 1);
    assert_eq!(count(&any().kinds([1]), &anybody), 8);
    store.store(&draft(1, 62, 105).build());
    assert_eq!(count(&any().kinds([1]), &anybody), 4);
    assert_eq!(count(&by_author, &Reader::operator()), 4 + 1 + 1);
}
