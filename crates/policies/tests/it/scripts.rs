//! Write-policy plugins as they were written for strfry.

use std::{num::NonZeroUsize, os::unix::fs::PermissionsExt, sync::Arc, time::Duration};

use hikyaku_event::testing::Author;
use hikyaku_policies::{Policies, PolicyConfig, ScriptFailure};
use hikyaku_server::{Server, ServerConfig};
use hikyaku_store::testing::NaiveStore;
use tempfile::TempDir;

use crate::relay::{Relay, event};

/// Answers by an event's content, in plain shell.
const SCRIPT: &str = r#"#!/bin/sh
while read -r line; do
    id=${line#*\"id\":\"}
    id=${id%%\"*}
    case "$line" in
        *'"content":"no"'*) echo "{\"id\":\"$id\",\"action\":\"reject\",\"msg\":\"blocked: no\"}" ;;
        *'"content":"shadow"'*) echo "{\"id\":\"$id\",\"action\":\"shadowReject\"}" ;;
        *'"content":"nonsense"'*) echo "what?" ;;
        *'"content":"die"'*) exit 1 ;;
        *'"sourceType":"IP4","sourceInfo":"127.0.0.1"'*) echo "{\"id\":\"$id\",\"action\":\"accept\"}" ;;
    esac
done
"#;

struct Script {
    folder: TempDir,
    config: PolicyConfig,
}

fn script(text: &str) -> Script {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.sh");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = PolicyConfig {
        script: Some(path.to_str().unwrap().to_owned()),
        ..PolicyConfig::default()
    };
    Script { folder, config }
}

#[tokio::test]
async fn a_script_decides() {
    let script = script(SCRIPT);
    let mut relay = Relay::with(script.config.clone()).await;
    for (content, accepted, reason, stored) in [
        ("yes", true, "", true),
        ("no", false, "blocked: no", false),
        ("shadow", true, "", false),
    ] {
        let event = event(1, 1, content);
        let answer = relay.publish(&event).await;
        assert_eq!(answer, (accepted, reason.to_owned()), "{content}");
        assert_eq!(relay.is_stored(&event).await, stored, "{content}");
    }
}

#[tokio::test]
async fn a_script_is_not_waited_for_one_by_one() {
    // It answers nothing until it has read all, and then in the opposite order.
    let script = script(
        r#"#!/bin/sh
answers=""
for _ in 1 2 3 4 5 6 7 8; do
    read -r line
    id=${line#*\"id\":\"}
    id=${id%%\"*}
    answers="{\"id\":\"$id\",\"action\":\"accept\"}
$answers"
done
printf '%s' "$answers"
cat > /dev/null
"#,
    );
    let relay = Relay::with(script.config.clone()).await;
    let events: Vec<_> = (0..8).map(|n| event(1, 1, &n.to_string())).collect();
    assert_eq!(relay.publish_together(&events).await, 8);
}

#[tokio::test]
async fn a_script_that_ends_is_started_again() {
    let script = script(SCRIPT);
    let mut relay = Relay::with(script.config.clone()).await;
    assert!(relay.publish(&event(1, 1, "yes")).await.0);
    let (accepted, reason) = relay.publish(&event(1, 1, "die")).await;
    assert!(!accepted && reason.starts_with("error: "), "{reason}");
    let mut attempts = 0;
    while !relay
        .publish(&event(1, 1, &format!("again {attempts}")))
        .await
        .0
    {
        attempts += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(attempts < 1_000, "it is not started again");
    }
}

#[tokio::test]
async fn a_script_that_gives_no_answer_lets_in_what_it_is_told_to_let_in() {
    for (failure, accepted) in [
        (ScriptFailure::Refuse, false),
        (ScriptFailure::Accept, true),
    ] {
        let mut script = script(SCRIPT);
        script.config.script_failure = failure;
        script.config.script_timeout = Duration::from_millis(100);
        let mut relay = Relay::with(script.config.clone()).await;
        // The one is too slow, the other is nothing that can be started, the third is too long.
        assert_eq!(relay.publish(&event(1, 1, "nonsense")).await.0, accepted);
        for command in ["nonexistent-policy", "tr '\\n' ' ' < /dev/zero"] {
            script.config.script = Some(command.to_owned());
            script.config.script_timeout = Duration::from_secs(5);
            let mut relay = Relay::with(script.config.clone()).await;
            assert_eq!(relay.publish(&event(1, 1, "yes")).await.0, accepted);
        }
    }
}

/// Accepts all, or none.
fn answering(action: &str) -> String {
    format!(
        r#"#!/bin/sh
while read -r line; do
    id=${{line#*\"id\":\"}}
    id=${{id%%\"*}}
    echo "{{\"id\":\"$id\",\"action\":\"{action}\"}}"
done
"#
    )
}

#[tokio::test]
async fn a_script_whose_file_has_changed_is_started_again() {
    let script = script(&answering("accept"));
    let mut relay = Relay::with(script.config.clone()).await;
    assert!(relay.publish(&event(1, 1, "before")).await.0);
    let path = script.config.script.as_ref().unwrap();
    // Written elsewhere and put in its place, as an editor does: never half there.
    let next = script.folder.path().join("next");
    std::fs::write(&next, answering("reject")).unwrap();
    std::fs::set_permissions(&next, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&next, path).unwrap();
    let mut n = 0;
    loop {
        let (_, reason) = relay.publish(&event(1, 1, &n.to_string())).await;
        if reason == "blocked: not taken here" {
            break;
        }
        // Within a second of the start of the last one there is none.
        assert!(
            reason.is_empty() || reason.starts_with("error: "),
            "{reason}"
        );
        n += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(n < 1_000, "it is not started again");
    }
}

#[tokio::test]
async fn a_script_that_is_too_slow_is_killed_with_what_it_has_started() {
    let mut script =
        script("#!/bin/sh\nsleep 1000 &\necho $$ $! >> \"$0.pids\"\nread -r line\nwait\n");
    script.config.script_timeout = Duration::from_millis(200);
    let mut relay = Relay::with(script.config.clone()).await;
    assert!(!relay.publish(&event(1, 1, "a")).await.0);
    let pids = std::fs::read_to_string(script.folder.path().join("policy.sh.pids")).unwrap();
    assert_eq!(pids.split_whitespace().count(), 2, "{pids}");
    for pid in pids.split_whitespace() {
        // Gone, or dead and not yet waited for.
        let is_there = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit(") ")
                .next()
                .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
        };
        while is_there() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_script_is_started_once_a_second_at_most() {
    let script = script("#!/bin/sh\necho >> \"$0.starts\"\nread -r line\n");
    let mut relay = Relay::with(script.config.clone()).await;
    let begun = std::time::Instant::now();
    for n in 0..200 {
        assert!(!relay.publish(&event(1, 1, &n.to_string())).await.0);
    }
    let starts = std::fs::read_to_string(script.folder.path().join("policy.sh.starts")).unwrap();
    let starts = starts.lines().count() as u64;
    assert!(
        (1..=1 + begun.elapsed().as_secs()).contains(&starts),
        "{starts}"
    );
}

/// Reads all it is asked about before a signal is there, and then answers one after the other.
const AFTER_A_WHILE: &str = r#"#!/bin/sh
while read -r line; do
    echo >> "$0.asked"
    while ! test -e "$0.go"; do sleep 0.01; done
    sleep 0.02
    id=${line#*\"id\":\"}
    id=${id%%\"*}
    echo "{\"id\":\"$id\",\"action\":\"accept\"}"
done
"#;

#[tokio::test]
async fn a_script_is_killed_for_its_silence_and_not_for_its_queue() {
    let mut script = script(AFTER_A_WHILE);
    let path = script.config.script.clone().unwrap();
    std::fs::write(format!("{path}.go"), "").unwrap();
    // Each takes 20 ms or more, all together longer than one may.
    script.config.script_timeout = Duration::from_secs(2);
    let mut server = ServerConfig::new(([127, 0, 0, 1], 0).into());
    server.handler_timeout = Duration::from_mins(1);
    let store = Arc::new(NaiveStore::new());
    let mut relay = Relay::of(server, store, script.config.clone()).await;
    let events: Vec<_> = (0..120).map(|n| event(1, 1, &n.to_string())).collect();
    relay.send_all(&events).await;
    for (accepted, reason) in relay.receive_all(120).await {
        assert!(accepted, "{reason}");
    }
}

#[tokio::test]
async fn a_script_whose_file_changes_answers_what_it_was_asked() {
    let script = script(AFTER_A_WHILE);
    let mut relay = Relay::with(script.config.clone()).await;
    let path = script.config.script.clone().unwrap();
    relay.send_all(&[event(1, 1, "old")]).await;
    while !std::path::Path::new(&format!("{path}.asked")).exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The last start must be a second ago.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let next = script.folder.path().join("next");
    std::fs::write(&next, answering("reject")).unwrap();
    std::fs::set_permissions(&next, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&next, &path).unwrap();
    // The new one answers while the old one is still at its question.
    let mut other = relay.client_of(&[]).await;
    let (accepted, reason) = other.publish(&event(2, 1, "new")).await;
    assert_eq!((accepted, &*reason), (false, "blocked: not taken here"));
    std::fs::write(format!("{path}.go"), "").unwrap();
    assert_eq!(relay.receive_all(1).await, [(true, String::new())]);
}

#[tokio::test]
async fn what_a_script_leaves_unanswered_is_decided_within_the_hooks_time() {
    // It answers every question but those of one event, so that it is never silent.
    let mut script = script(
        r#"#!/bin/sh
while read -r line; do
    id=${line#*\"id\":\"}
    id=${id%%\"*}
    case "$line" in
        *'"content":"lost"'*) ;;
        *) echo "{\"id\":\"$id\",\"action\":\"accept\"}" ;;
    esac
done
"#,
    );
    script.config.script_failure = ScriptFailure::Accept;
    script.config.script_timeout = Duration::from_millis(900);
    let mut server = ServerConfig::new(([127, 0, 0, 1], 0).into());
    server.handler_timeout = Duration::from_secs(1);
    let store = Arc::new(NaiveStore::new());
    let mut relay = Relay::of(server, store, script.config.clone()).await;
    let mut other = relay.client_of(&[]).await;
    relay.send_all(&[event(1, 1, "lost")]).await;
    let mut n = 0;
    let answered = loop {
        let next = event(2, 1, &n.to_string());
        tokio::select! {
            biased;
            answers = relay.receive_all(1) => break answers,
            (accepted, reason) = other.publish(&next) => {
                assert!(accepted, "{reason}");
            }
        }
        n += 1;
    };
    assert_eq!(answered, [(true, String::new())]);
}

#[tokio::test]
async fn a_script_is_told_who_has_authenticated() {
    let script = script(
        r#"#!/bin/sh
while read -r line; do
    id=${line#*\"id\":\"}
    id=${id%%\"*}
    authed=${line#*\"authed\":\"}
    case "$line" in *'"authed"'*) ;; *) authed=none ;; esac
    echo "{\"id\":\"$id\",\"action\":\"reject\",\"msg\":\"blocked: ${authed%%\"*}\"}"
done
"#,
    );
    let mut relay = Relay::with(script.config.clone()).await;
    let reason = relay.publish(&event(1, 1, "a")).await.1;
    assert_eq!(reason, "blocked: none");
    let mut client = relay.client_of(&[1, 2]).await;
    for (author, told) in [(1, 1), (2, 2), (3, 2)] {
        let reason = client.publish(&event(author, 1, "b")).await.1;
        let key = Author::new(told).pubkey().to_hex();
        assert_eq!(reason, format!("blocked: {key}"));
    }
}

#[test]
fn a_script_that_may_take_longer_than_its_hook_keeps_the_server_from_starting() {
    let mut config = PolicyConfig {
        script: Some("/bin/cat".to_owned()),
        ..PolicyConfig::default()
    };
    let mut server = ServerConfig::new(([127, 0, 0, 1], 0).into());
    config.script_timeout = server.handler_timeout;
    server.workers = NonZeroUsize::new(1);
    let policies = Policies::new(config).unwrap();
    let server = Server::new(server, Arc::new(NaiveStore::new()))
        .plugin(|worker| policies.on_worker(worker))
        .on_event(Policies::on_event);
    let failure = server.bind().unwrap().run(std::future::pending());
    let failure = failure.unwrap_err();
    let text = format!("{failure} {:?}", std::error::Error::source(&failure));
    assert!(text.contains("the script must be given less"), "{text}");
}
