//! What clients say: EVENT, REQ, CLOSE, COUNT, AUTH (NIP-01, NIP-42, NIP-45).

use crate::{
    Event, EventError, Filter, FilterError,
    filter_json::scan_filter,
    json::{Fault, Scanner},
    scan::scan_event,
};

/// The longest text of a malformed event's `id` that is reported back, in bytes. A real one has 64.
const CLAIMED_ID_BYTES_MAX: usize = 128;

/// A subscription id: 1 to 64 Unicode characters, chosen by the client, unique per connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SubscriptionId(Box<str>);

impl SubscriptionId {
    /// Checks the length (1 to 64 characters).
    pub fn new(text: &str) -> Option<Self> {
        (1..=64)
            .contains(&text.chars().count())
            .then(|| Self(text.into()))
    }

    /// Returns the id's text, unescaped.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One message of a client.
#[derive(Debug)]
pub enum ClientMessage {
    /// Publish an event. A malformed one keeps its `id` field's text where there was one (of at
    /// most 128 bytes, before whatever was malformed or after it), so that the OK can name it.
    Event(Result<Event, (Option<String>, EventError)>),
    /// Query and subscribe. A malformed filter is reported as CLOSED for this subscription.
    Req(SubscriptionId, Result<Vec<Filter>, FilterError>),
    /// Count (NIP-45).
    Count(SubscriptionId, Result<Vec<Filter>, FilterError>),
    /// End a subscription.
    Close(SubscriptionId),
    /// Authenticate (NIP-42); as [`ClientMessage::Event`].
    Auth(Result<Event, (Option<String>, EventError)>),
}

/// Why a message can't be answered but by a NOTICE.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MessageError(pub String);

impl From<Fault> for MessageError {
    fn from(fault: Fault) -> Self {
        Self(fault.to_string())
    }
}

impl ClientMessage {
    /// Parses one text message. At most `filters_max` filters are accepted in a REQ or COUNT: more
    /// are a [`FilterError`].
    ///
    /// Elements after those a message is made of are ignored if they are JSON: clients of later
    /// versions of the protocol send some.
    pub fn parse(text: &[u8], filters_max: usize) -> Result<Self, MessageError> {
        let mut scanner = Scanner::new(text)?;
        if !scanner.open_array("expected a JSON array")? {
            return Err(scanner.fault("expected the name of a message").into());
        }
        let name = scanner.string("expected the name of a message")?.bytes();
        match name.as_ref() {
            b"EVENT" => Ok(Self::Event(event_argument(scanner))),
            b"AUTH" => Ok(Self::Auth(event_argument(scanner))),
            b"REQ" => {
                let id = subscription_argument(&mut scanner)?;
                Ok(Self::Req(id, filter_arguments(scanner, filters_max)))
            }
            b"COUNT" => {
                let id = subscription_argument(&mut scanner)?;
                Ok(Self::Count(id, filter_arguments(scanner, filters_max)))
            }
            b"CLOSE" => {
                let id = subscription_argument(&mut scanner)?;
                rest(&mut scanner)?;
                Ok(Self::Close(id))
            }
            _ => Err(MessageError(
                "unknown message: expected EVENT, REQ, CLOSE, COUNT or AUTH".to_owned(),
            )),
        }
    }
}

fn event_argument(mut scanner: Scanner<'_>) -> Result<Event, (Option<String>, EventError)> {
    let at_event = scanner.clone();
    let event = scan_argument(&mut scanner);
    event.map_err(|error| (claimed_id(at_event), error))
}

fn scan_argument(scanner: &mut Scanner<'_>) -> Result<Event, EventError> {
    scanner.expect(b',', "expected , and an event object")?;
    let scanned = scan_event(scanner)?;
    rest(scanner)?;
    Event::from_scanned(scanned)
}

/// Looks for the text of the `id` field in what is not a well-formed event.
fn claimed_id(mut scanner: Scanner<'_>) -> Option<String> {
    scanner.take(b',');
    let mut more = scanner.open_object("expected an event object").ok()?;
    while more {
        let key = scanner.key().ok()?;
        if key.bytes().as_ref() == b"id" {
            let id = scanner.string("expected a string").ok()?;
            return (id.raw.len() <= CLAIMED_ID_BYTES_MAX).then(|| id.text().into_owned());
        }
        scanner.skip_value().ok()?;
        more = scanner.more_members().ok()?;
    }
    None
}

fn subscription_argument(scanner: &mut Scanner<'_>) -> Result<SubscriptionId, MessageError> {
    const RULE: &str = "the subscription id must be a string of 1 to 64 characters";
    scanner.expect(b',', RULE)?;
    let text = scanner.string(RULE)?.text();
    SubscriptionId::new(&text).ok_or_else(|| MessageError(RULE.to_owned()))
}

fn filter_arguments(
    mut scanner: Scanner<'_>,
    filters_max: usize,
) -> Result<Vec<Filter>, FilterError> {
    let mut filters = Vec::new();
    while scanner.more_elements()? {
        if filters.len() == filters_max {
            return Err(FilterError(format!("more than {filters_max} filters")));
        }
        filters.push(scan_filter(&mut scanner)?);
    }
    scanner.end()?;
    if filters.is_empty() {
        return Err(FilterError("at least one filter is needed".to_owned()));
    }
    Ok(filters)
}

/// Takes what may follow the elements a message is made of, and the end of the message.
fn rest(scanner: &mut Scanner<'_>) -> Result<(), Fault> {
    while scanner.more_elements()? {
        scanner.skip_value()?;
    }
    scanner.end()
}
