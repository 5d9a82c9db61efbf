//! Write-policy plugins as they were written for strfry.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use hikyaku_policies::{PolicyConfig, ScriptFailure};
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
        // The one is too slow, the other is nothing that can be started.
        assert_eq!(relay.publish(&event(1, 1, "nonsense")).await.0, accepted);
        script.config.script = Some("/nonexistent/policy".to_owned());
        let mut relay = Relay::with(script.config.clone()).await;
        assert_eq!(relay.publish(&event(1, 1, "yes")).await.0, accepted);
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
