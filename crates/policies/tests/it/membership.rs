//! Members, and whom they invite (NIP-43).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hikyaku_event::{Event, testing::Author};
use hikyaku_policies::PolicyConfig;
use hikyaku_store::testing::NaiveStore;
use serde_json::json;

use crate::relay::{Client, PATIENCE, Relay, draft, event, key};

const FOUNDER: u64 = 1;

fn config() -> PolicyConfig {
    PolicyConfig {
        members: vec![Author::new(FOUNDER).pubkey()],
        members_invite: true,
        ..PolicyConfig::default()
    }
}

fn request(author: u64, kind: u16, claim: &str) -> Event {
    let draft = draft(kind, "").tag(["-"]).tag(["claim", claim]);
    draft.sign(&Author::new(author))
}

/// Asks for an invitation.
async fn invitation(client: &mut Client) -> Result<String, String> {
    let events = client.ask(json!({"kinds": [28935]})).await?;
    let [event] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(event.pubkey(), key().public());
    event.verify_id().unwrap();
    assert!(hikyaku_event::Verifier::new().verify(event).is_ok());
    let claim = event.tags().find(|tag| tag.name() == "claim").unwrap();
    Ok(claim.value().unwrap().into_owned())
}

/// Joins by an invitation of the founder's.
async fn join(relay: &Relay, author: u64) {
    let claim = invitation(&mut relay.client_of(&[FOUNDER]).await).await;
    let mut client = relay.client_of(&[author]).await;
    let joined = client
        .publish(&request(author, 28934, &claim.unwrap()))
        .await;
    assert!(joined.0 && joined.1.starts_with("info: "), "{joined:?}");
}

/// Waits until the relay's list names these.
async fn listed(client: &mut Client, authors: &[u64]) {
    let mut expected: Vec<_> = authors
        .iter()
        .map(|n| Author::new(*n).pubkey().to_hex())
        .collect();
    expected.sort();
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let filter = json!({"kinds": [13534], "authors": [key().public().to_hex()]});
        let lists = client.ask(filter).await.unwrap();
        let members = lists.first().map_or_else(Vec::new, |list| {
            let members = list.tags().filter(|tag| tag.name() == "member");
            members
                .map(|tag| tag.value().unwrap().into_owned())
                .collect()
        });
        if members == expected {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the list never named {authors:?}");
}

#[tokio::test]
async fn who_is_invited_may_write_and_invite_until_it_leaves() {
    let mut relay = Relay::with(config()).await;
    let (accepted, reason) = relay.publish(&event(2, 1, "a")).await;
    assert!(!accepted && reason.starts_with("restricted: "), "{reason}");
    assert!(relay.publish(&event(FOUNDER, 1, "a")).await.0);
    join(&relay, 2).await;
    assert!(relay.publish(&event(2, 1, "b")).await.0);
    let mut two = relay.client_of(&[2]).await;
    let again = two.publish(&request(2, 28934, "x")).await;
    assert!(again.0 && again.1.starts_with("duplicate: "), "{again:?}");
    // A member by invitation invites others.
    let claim = invitation(&mut two).await.unwrap();
    let mut three = relay.client_of(&[3]).await;
    assert!(three.publish(&request(3, 28934, &claim)).await.0);
    listed(&mut three, &[FOUNDER, 2, 3]).await;
    assert!(two.publish(&request(2, 28936, "")).await.0);
    assert!(!relay.publish(&event(2, 1, "c")).await.0);
    assert!(relay.publish(&event(3, 1, "c")).await.0);
    listed(&mut three, &[FOUNDER, 3]).await;
    // What it had given away is worth nothing now.
    let mut four = relay.client_of(&[4]).await;
    assert!(!four.publish(&request(4, 28934, &claim)).await.0);
}

#[tokio::test]
async fn lists_of_what_is_allowed_keep_nobody_from_the_door() {
    let mut config = config();
    config.kinds_allowed = vec!["1".parse().unwrap()];
    config.keys_allowed = vec![Author::new(FOUNDER).pubkey()];
    let mut relay = Relay::with(config.clone()).await;
    join(&relay, 2).await;
    let (accepted, reason) = relay.publish(&event(2, 1, "a")).await;
    assert!(
        !accepted && reason.starts_with("restricted: only certain keys"),
        "{reason}"
    );
    let mut client = relay.client_of(&[2]).await;
    let left = client.publish(&request(2, 28936, "")).await;
    assert!(left.0, "{left:?}");
    // What is denied is denied.
    config.kinds_denied = vec!["28934".parse().unwrap()];
    let relay = Relay::with(config).await;
    let mut client = relay.client_of(&[2]).await;
    let (accepted, reason) = client.publish(&request(2, 28934, "x")).await;
    assert!(!accepted && reason.starts_with("blocked: "), "{reason}");
}

#[tokio::test]
async fn the_relay_says_who_came_and_went_and_shows_nobody_how() {
    let relay = Relay::with(config()).await;
    let claim = invitation(&mut relay.client_of(&[FOUNDER]).await)
        .await
        .unwrap();
    let mut client = relay.client_of(&[2, 3]).await;
    // One code is good for many.
    for author in [2, 3] {
        assert!(client.publish(&request(author, 28934, &claim)).await.0);
    }
    assert!(client.publish(&request(2, 28936, "")).await.0);
    for (kind, authors) in [(8000, vec![2, 3]), (8001, vec![2])] {
        let said = client.ask(json!({"kinds": [kind]})).await.unwrap();
        let mut whom: Vec<_> = said
            .iter()
            .map(|event| {
                assert_eq!(event.pubkey(), key().public());
                assert!(event.tags().any(|tag| tag.name() == "-"));
                let of = event.tags().find(|tag| tag.name() == "p").unwrap();
                of.value().unwrap().into_owned()
            })
            .collect();
        whom.sort();
        let mut expected: Vec<_> = authors
            .iter()
            .map(|n| Author::new(*n).pubkey().to_hex())
            .collect();
        expected.sort();
        assert_eq!(whom, expected, "{kind}");
    }
    let requests = client.ask(json!({"kinds": [28934, 28936]})).await.unwrap();
    assert!(requests.is_empty(), "{requests:?}");
}

#[tokio::test]
async fn what_a_banned_member_has_given_away_lets_nobody_in() {
    let relay = Relay::with(config()).await;
    join(&relay, 2).await;
    let claim = invitation(&mut relay.client_of(&[2]).await).await.unwrap();
    relay.ban(&[2]);
    let mut three = relay.client_of(&[3]).await;
    let joined = three.publish(&request(3, 28934, &claim)).await;
    assert!(
        !joined.0 && joined.1.starts_with("restricted: "),
        "{joined:?}"
    );
    // The others' are good, and its own again when the ban is taken back.
    join(&relay, 4).await;
    relay.ban(&[]);
    assert!(three.publish(&request(3, 28934, &claim)).await.0);
}

#[tokio::test]
async fn requests_that_are_none_are_refused() {
    let mut config = config();
    config.invitation_time = Duration::ZERO;
    let relay = Relay::with(config).await;
    let mut founder = relay.client_of(&[FOUNDER]).await;
    let mut stranger = relay.client_of(&[2]).await;
    let claim = invitation(&mut founder).await.unwrap();
    // It was good for this very second only.
    let second = crate::relay::now();
    while crate::relay::now() == second {
        tokio::task::yield_now().await;
    }
    let two = Author::new(2);
    let old = draft(28934, "").created_at(second - 3600).tag(["-"]);
    for (event, reason) in [
        (
            request(2, 28934, &claim),
            "restricted: that invite code is expired",
        ),
        (request(2, 28934, "guess"), "restricted: that is an invalid"),
        (
            draft(28934, "").tag(["-"]).sign(&two),
            "restricted: that is an invalid",
        ),
        (
            draft(28934, "").tag(["claim", &claim]).sign(&two),
            "invalid: ",
        ),
        (old.sign(&two), "invalid: "),
        (request(2, 28935, "x"), "blocked: "),
        (draft(1, "").sign(&two), "restricted: "),
    ] {
        let answer = stranger.publish(&event).await;
        assert!(
            !answer.0 && answer.1.starts_with(reason),
            "{answer:?} {reason}"
        );
    }
    let left = stranger.publish(&request(2, 28936, "")).await;
    assert!(left.0 && left.1.starts_with("duplicate: "), "{left:?}");
    let left = founder.publish(&request(FOUNDER, 28936, "")).await;
    assert!(!left.0 && left.1.starts_with("restricted: "), "{left:?}");
}

#[tokio::test]
async fn only_members_are_given_invitations() {
    let relay = Relay::with(config()).await;
    let refused = invitation(&mut relay.client_of(&[]).await).await;
    assert!(refused.unwrap_err().starts_with("auth-required: "));
    let refused = invitation(&mut relay.client_of(&[2]).await).await;
    assert!(refused.unwrap_err().starts_with("restricted: "));
    let nips = relay.information().await["supported_nips"].clone();
    assert!(nips.as_array().unwrap().contains(&json!(43)), "{nips}");
}

#[tokio::test]
async fn members_outlive_the_relay_and_are_known_at_other_nodes() {
    let store = Arc::new(NaiveStore::new());
    let mut other = Relay::over(store.clone(), config()).await;
    {
        let relay = Relay::over(store.clone(), config()).await;
        join(&relay, 2).await;
    }
    // The other node hears of it by the store's feed.
    let (mut n, begun) = (0, Instant::now());
    while !other.publish(&event(2, 1, &n.to_string())).await.0 {
        n += 1;
        assert!(begun.elapsed() < PATIENCE, "never heard of it");
    }
    let mut next = Relay::over(store, config()).await;
    assert!(next.publish(&event(2, 1, "again")).await.0);
}

#[tokio::test]
async fn members_alone_read_if_that_is_wished() {
    let mut config = config();
    config.members_read = true;
    let relay = Relay::with(config).await;
    let all = json!({"kinds": [1]});
    let mut nobody = relay.client_of(&[]).await;
    let refused = nobody.ask(all.clone()).await.unwrap_err();
    assert!(refused.starts_with("auth-required: "), "{refused}");
    // Anybody may find out who is a member.
    listed(&mut nobody, &[FOUNDER]).await;
    let refused = relay.client_of(&[2]).await.ask(all.clone()).await;
    assert!(refused.unwrap_err().starts_with("restricted: "));
    join(&relay, 2).await;
    let answer = relay.client_of(&[2]).await.ask(all).await;
    assert!(answer.unwrap().is_empty());
    let information = relay.information().await;
    assert_eq!(information["limitation"]["auth_required"], true);
    assert_eq!(information["limitation"]["restricted_writes"], true);
}

#[tokio::test]
async fn without_invitations_members_are_those_of_the_configuration() {
    let mut config = config();
    config.members_invite = false;
    let mut relay = Relay::with(config).await;
    assert!(relay.publish(&event(FOUNDER, 1, "a")).await.0);
    assert!(!relay.publish(&event(2, 1, "a")).await.0);
    let mut two = relay.client_of(&[2]).await;
    assert!(!two.publish(&request(2, 28934, "x")).await.0);
}
