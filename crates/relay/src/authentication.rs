//! What an AUTH must be to count (NIP-42).

use hikyaku_event::{Event, Kind, Timestamp, Verifier};

use crate::{RelayConfig, admission, admission::Reason};

/// Checks a client's answer to the challenge, the signature last as it costs most.
pub(crate) fn check(
    event: &Event,
    challenge: &str,
    config: &RelayConfig,
    now: Timestamp,
    verifier: &mut Verifier,
) -> Result<(), Reason> {
    let invalid = |text: &str| Err(Reason::from(format!("invalid: {text}")));
    admission::check_limits(event, &config.limits)?;
    if event.kind() != Kind::CLIENT_AUTH {
        return invalid("an AUTH must be of kind 22242");
    }
    if event.created_at().abs_diff(now) > config.limits.auth_window_seconds {
        return invalid("created_at is too far from the current time");
    }
    if first(event, "challenge").as_deref() != Some(challenge) {
        return invalid("the challenge is not the one this connection was given");
    }
    if !first(event, "relay").is_some_and(|relay| config.urls.names_us(&relay)) {
        let ours = config.urls.canonical();
        return invalid(&format!("the relay tag does not name this relay, {ours}"));
    }
    event
        .verify_id()
        .and_then(|()| verifier.verify(event))
        .map_err(|error| Reason::from(format!("invalid: {error}")))
}

fn first<'a>(event: &'a Event, name: &str) -> Option<std::borrow::Cow<'a, str>> {
    event.tags().find(|tag| tag.name() == name)?.value()
}
