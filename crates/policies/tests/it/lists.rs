//! Lists of keys, kinds, words and addresses, and work by kind.

use hikyaku_event::{Event, testing::Author};
use hikyaku_policies::PolicyConfig;
use hikyaku_server::work_done;

use crate::relay::{Relay, event};

fn config(change: impl FnOnce(&mut PolicyConfig)) -> PolicyConfig {
    let mut config = PolicyConfig::default();
    change(&mut config);
    config
}

#[tokio::test]
async fn a_list_decides() {
    let key = Author::new(1).pubkey();
    let kinds = || vec!["1".parse().unwrap(), "30000-39999".parse().unwrap()];
    let loopback = || vec!["127.0.0.0/8".parse().unwrap()];
    let elsewhere = || vec!["192.0.2.0/24".parse().unwrap()];
    let cases: Vec<(PolicyConfig, Event, &str)> = vec![
        (config(|c| c.keys_allowed = vec![key]), event(1, 1, "a"), ""),
        (
            config(|c| c.keys_allowed = vec![key]),
            event(2, 1, "a"),
            "restricted: ",
        ),
        (
            config(|c| c.keys_denied = vec![key]),
            event(1, 1, "a"),
            "blocked: ",
        ),
        (config(|c| c.keys_denied = vec![key]), event(2, 1, "a"), ""),
        (
            config(|c| c.kinds_allowed = kinds()),
            event(1, 30023, "a"),
            "",
        ),
        (
            config(|c| c.kinds_allowed = kinds()),
            event(1, 2, "a"),
            "blocked: ",
        ),
        (
            config(|c| c.kinds_denied = kinds()),
            event(1, 1, "a"),
            "blocked: ",
        ),
        (config(|c| c.kinds_denied = kinds()), event(1, 2, "a"), ""),
        (
            config(|c| c.words_denied = vec!["Spam".into()]),
            event(1, 1, "no SPAM!"),
            "blocked: ",
        ),
        (
            config(|c| c.words_denied = vec!["Spam".into()]),
            event(1, 1, "ham"),
            "",
        ),
        (
            config(|c| c.addresses_allowed = loopback()),
            event(1, 1, "a"),
            "",
        ),
        (
            config(|c| c.addresses_allowed = elsewhere()),
            event(1, 1, "a"),
            "blocked: ",
        ),
        (
            config(|c| c.addresses_denied = loopback()),
            event(1, 1, "a"),
            "blocked: ",
        ),
        (
            config(|c| c.addresses_denied = elsewhere()),
            event(1, 1, "a"),
            "",
        ),
        (
            config(|c| c.work = vec!["1=200".parse().unwrap()]),
            event(1, 1, "a"),
            "pow: ",
        ),
        (
            config(|c| c.work = vec!["1=200".parse().unwrap()]),
            event(1, 7, "a"),
            "",
        ),
        (
            config(|c| c.work = vec!["1=0".parse().unwrap(), "*=200".parse().unwrap()]),
            event(1, 1, "a"),
            "",
        ),
    ];
    for (config, event, word) in cases {
        let mut relay = Relay::with(config.clone()).await;
        let (accepted, reason) = relay.publish(&event).await;
        assert_eq!(accepted, word.is_empty(), "{config:?}: {reason}");
        assert!(reason.starts_with(word), "{config:?}: {reason}");
        assert_eq!(relay.is_stored(&event).await, accepted);
    }
}

#[tokio::test]
async fn work_that_is_done_is_enough() {
    let worked = (0..10_000)
        .map(|nonce| event(1, 1, &nonce.to_string()))
        .find(|event| work_done(event) >= 4)
        .unwrap();
    let rule = format!("1={}", work_done(&worked));
    let mut relay = Relay::with(config(|c| c.work = vec![rule.parse().unwrap()])).await;
    assert_eq!(relay.publish(&worked).await, (true, String::new()));
}

type Change = fn(&mut PolicyConfig);

#[tokio::test]
async fn lists_are_asked_in_their_order_and_the_script_last() {
    let key = Author::new(1).pubkey();
    let mut config = config(|c| {
        c.addresses_denied = vec!["127.0.0.0/8".parse().unwrap()];
        c.keys_denied = vec![key];
        c.keys_allowed = vec![Author::new(2).pubkey()];
        c.kinds_denied = vec!["1".parse().unwrap()];
        c.words_denied = vec!["spam".to_owned()];
        c.members = vec![Author::new(3).pubkey()];
        c.trust_roots = vec![Author::new(3).pubkey()];
        c.account_age = Some(std::time::Duration::from_hours(1));
        c.work = vec!["*=200".parse().unwrap()];
        c.script = Some("while read -r line; do echo nonsense; done".to_owned());
        c.script_timeout = std::time::Duration::from_millis(100);
    });
    let steps: [(&str, Change); 9] = [
        ("from your address", |c| c.addresses_denied.clear()),
        ("from this key", |c| c.keys_denied.clear()),
        ("only certain keys", |c| c.keys_allowed.clear()),
        ("of this kind", |c| c.kinds_denied.clear()),
        ("has words in it", |c| c.words_denied.clear()),
        ("only members", |c| c.members.clear()),
        ("people follow", |c| c.trust_roots.clear()),
        ("is new here", |c| c.account_age = None),
        ("pow: ", |c| c.work.clear()),
    ];
    for (reason, without) in steps {
        let heard = Relay::with(config.clone())
            .await
            .publish(&event(1, 1, "spam"))
            .await;
        assert!(!heard.0 && heard.1.contains(reason), "{heard:?} {reason}");
        without(&mut config);
    }
    let heard = Relay::with(config)
        .await
        .publish(&event(1, 1, "spam"))
        .await;
    assert!(
        heard.1.starts_with("error: this relay can not decide"),
        "{heard:?}"
    );
}

#[tokio::test]
async fn what_is_not_kept_is_decided_about_too() {
    let mut relay = Relay::with(config(|c| c.keys_denied = vec![Author::new(1).pubkey()])).await;
    assert!(!relay.publish(&event(1, 20_001, "a")).await.0);
    // Nobody listens, so nobody is told of it; but it is let in.
    assert!(
        relay
            .publish(&event(2, 20_001, "a"))
            .await
            .1
            .starts_with("mute: ")
    );
}
