//! The web of trust, and the age of accounts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hikyaku_event::{Event, testing::Author};
use hikyaku_policies::PolicyConfig;
use hikyaku_store::{EventStore, Write, testing::NaiveStore};

use crate::relay::{PATIENCE, Relay, draft, event, now};

/// No two events say the same.
static CONTENTS: AtomicU64 = AtomicU64::new(0);

fn config(depth: u32) -> PolicyConfig {
    PolicyConfig {
        trust_roots: vec![Author::new(1).pubkey()],
        trust_depth: depth,
        ..PolicyConfig::default()
    }
}

/// Makes a follow list; later ones take the place of earlier ones.
fn follows(author: u64, at: u64, keys: &[u64]) -> Event {
    let mut draft = draft(3, "").created_at(at);
    for key in keys {
        draft = draft.tag(["p", &Author::new(*key).pubkey().to_hex()]);
    }
    draft.sign(&Author::new(author))
}

async fn store_of(lists: &[(u64, &[u64])]) -> Arc<NaiveStore> {
    let store = Arc::new(NaiveStore::new());
    let writes = lists.iter().map(|(author, keys)| Write::Event {
        event: Arc::new(follows(*author, now() - 100, keys)),
        vanish: false,
    });
    store.write(writes.collect(), now()).await.unwrap();
    store
}

/// Publishes notes until one is taken, or is not any more.
async fn becomes(relay: &mut Relay, author: u64, trusted: bool) {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        // What is known already is accepted from anybody.
        let content = CONTENTS.fetch_add(1, Ordering::Relaxed).to_string();
        if relay.publish(&event(author, 1, &content)).await.0 == trusted {
            return;
        }
    }
    panic!("{author} never became trusted: {trusted}");
}

async fn trusted(relay: &mut Relay, authors: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    let mut found = Vec::new();
    for author in authors {
        // What is known already is accepted from anybody.
        let content = CONTENTS.fetch_add(1, Ordering::Relaxed).to_string();
        let (accepted, reason) = relay.publish(&event(author, 1, &content)).await;
        if accepted {
            found.push(author);
        } else {
            assert!(reason.starts_with("restricted: "), "{reason}");
        }
    }
    found
}

#[tokio::test]
async fn those_within_some_steps_may_write() {
    let store = store_of(&[(1, &[2, 3]), (2, &[4]), (4, &[5]), (6, &[1])]).await;
    for (depth, expected) in [(0, vec![1]), (1, vec![1, 2, 3]), (2, vec![1, 2, 3, 4])] {
        let mut relay = Relay::over(store.clone(), config(depth)).await;
        assert_eq!(trusted(&mut relay, 1..=7).await, expected, "{depth}");
    }
}

#[tokio::test]
async fn the_web_follows_what_is_published() {
    let store = store_of(&[(1, &[2]), (2, &[3])]).await;
    let mut relay = Relay::over(store, config(2)).await;
    assert_eq!(trusted(&mut relay, 1..=5).await, [1, 2, 3]);
    // Whom the root follows, and whom those follow whose lists were not known before.
    assert!(relay.publish(&follows(2, now() - 50, &[4])).await.0);
    becomes(&mut relay, 4, true).await;
    becomes(&mut relay, 3, false).await;
    assert!(relay.publish(&follows(1, now() - 50, &[5])).await.0);
    becomes(&mut relay, 5, true).await;
    becomes(&mut relay, 4, false).await;
    assert_eq!(trusted(&mut relay, 1..=4).await, [1]);
    // A list that is deleted trusts nobody.
    let address = format!("3:{}:", Author::new(1).pubkey().to_hex());
    let deletion = draft(5, "").tag(["a", &address]).sign(&Author::new(1));
    assert!(relay.publish(&deletion).await.0);
    becomes(&mut relay, 5, false).await;
}

#[tokio::test]
async fn whom_a_banned_key_follows_is_not_trusted_for_it() {
    let store = store_of(&[(1, &[2, 3]), (2, &[4, 5]), (3, &[5])]).await;
    let mut relay = Relay::over(store, config(2)).await;
    assert_eq!(trusted(&mut relay, 1..=6).await, [1, 2, 3, 4, 5]);
    relay.ban(&[2]);
    becomes(&mut relay, 4, false).await;
    assert_eq!(trusted(&mut relay, 3..=6).await, [3, 5]);
    // Nor by a list that is published or heard of again meanwhile.
    assert!(relay.publish(&follows(1, now() - 50, &[2])).await.0);
    becomes(&mut relay, 3, false).await;
    assert_eq!(trusted(&mut relay, 3..=6).await, [0; 0]);
    relay.ban(&[]);
    becomes(&mut relay, 4, true).await;
}

#[tokio::test]
async fn one_list_brings_in_five_thousand_at_most() {
    let store = store_of(&[]).await;
    let mut list = draft(3, "").tag(["p", &Author::new(2).pubkey().to_hex()]);
    for n in 1..5_000 {
        list = list.tag(["p", &format!("{n:064x}")]);
    }
    let list = list.tag(["p", &Author::new(3).pubkey().to_hex()]);
    let write = Write::Event {
        event: Arc::new(list.sign(&Author::new(1))),
        vanish: false,
    };
    store.write(vec![write], now()).await.unwrap();
    let mut relay = Relay::over(store, config(2)).await;
    assert_eq!(trusted(&mut relay, 1..=3).await, [1, 2]);
}

#[tokio::test]
async fn no_more_are_trusted_than_there_may_be() {
    let store = store_of(&[(1, &[2]), (2, &[3, 4, 5])]).await;
    let mut config = config(2);
    config.trusted_max = 3;
    let mut relay = Relay::over(store, config).await;
    let found = trusted(&mut relay, 1..=5).await;
    assert_eq!((found.len(), &found[..2]), (3, &[1, 2][..]));
}

#[tokio::test]
async fn a_new_account_waits() {
    let mut config = PolicyConfig {
        account_age: Some(Duration::from_hours(1)),
        ..PolicyConfig::default()
    };
    let mut relay = Relay::with(config.clone()).await;
    for n in 0..2 {
        let (accepted, reason) = relay.publish(&event(1, 1, &n.to_string())).await;
        assert!(!accepted);
        assert!(
            reason.starts_with("restricted: this key is new here"),
            "{reason}"
        );
    }
    config.account_age = Some(Duration::from_secs(1));
    let mut relay = Relay::with(config).await;
    let mut tries = 0;
    while !relay.publish(&event(1, 1, &tries.to_string())).await.0 {
        tries += 1;
    }
    assert!(tries > 0, "the first try is not old enough");
}
