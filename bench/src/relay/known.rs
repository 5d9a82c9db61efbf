//! The known state: a relay is loaded only once it holds the corpus and answers rightly from it.

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::AtomicBool,
    time::Duration,
};

use serde_json::Value;

use crate::{
    corpus::{Corpus, Signed, bytes32},
    error::{BenchError, Result},
    load::{Address, Class, Kind, Lane, Load, Measured, Pace, Patience, Planned},
    relay::{
        client::{Asked, Client, Request, subscription},
        run::Setting,
        websocket::WebSocket,
    },
    report::{Progress, Target},
};

/// Events published at a time; what waits is bounded, whatever the size of the corpus.
const BATCH: usize = 50_000;
/// Answers of each shape that are compared field by field.
const CHECKED: usize = 3;

/// Publishes the corpus to a relay. A relay that holds it already says so of each event.
pub(crate) fn publish_corpus(
    setting: &Setting<'_>,
    target: &Target,
    corpus: &Corpus,
) -> Result<()> {
    // A recorded corpus may have an event twice; its answer would be nobody's.
    let mut seen = HashSet::new();
    let mut events = corpus
        .events()
        .filter(|(id, _, _)| seen.insert(*id))
        .peekable();
    let (connections, window) = if setting.options.corpus.one_by_one {
        (1, 1)
    } else {
        let shape = &setting.options.shape;
        (shape.connections, shape.window)
    };
    let mut lanes_of = HashMap::new();
    let mut refused = 0;
    while events.peek().is_some() {
        let (mut requests, mut plan) = (Vec::new(), Vec::new());
        for (id, author, json) in events.by_ref().take(BATCH) {
            let next = lanes_of.len();
            let lane = *lanes_of.entry(author).or_insert(next % connections);
            requests.push(Request::publish_json(json, id));
            plan.push(Planned { class: 0, lane });
        }
        let mut lanes: Vec<Box<dyn Lane + '_>> = Vec::new();
        for _ in 0..connections {
            lanes.push(Box::new(Client::open(
                &target.address,
                &requests,
                &[],
                None,
                setting.series().patience(),
            )?));
        }
        let load = Load {
            label: &format!("{}: bringing it to the known state", target.name),
            classes: &[Class::new("publish", Kind::Write)],
            plan: &plan,
            pace: Pace::Closed { window },
            // However long it takes: patience is for the single answer.
            at_most: Duration::from_hours(24),
            patience: setting.options.bounds.patience,
            process: None,
            stop: setting.stop,
            progress: setting.progress,
        };
        let measured = load.run(&mut lanes)?;
        if measured.interrupted {
            return Err(BenchError::Interrupted);
        }
        refused += measured.failures();
    }
    // What was replaced or deleted before it came may be refused: the check below decides.
    setting.progress.tell(&format!(
        "{}: the corpus is published ({refused} events refused)",
        target.name
    ));
    Ok(())
}

/// Publishes events as fast as the relay takes them, without a word about it.
pub(crate) fn publish_all(
    address: &Address,
    events: &[Signed],
    stop: &AtomicBool,
) -> Result<Measured> {
    const CONNECTIONS: usize = 4;
    let patience = Patience {
        lasts: Duration::from_mins(1),
        stop,
    };
    let requests: Vec<_> = events.iter().map(Request::publish).collect();
    let plan: Vec<_> = events
        .iter()
        .map(|event| Planned {
            class: 0,
            lane: event.author % CONNECTIONS,
        })
        .collect();
    let mut lanes: Vec<Box<dyn Lane + '_>> = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = Client::open(address, &requests, &[], None, patience)?;
        lanes.push(Box::new(client));
    }
    let load = Load {
        label: "publishing",
        classes: &[Class::new("publish", Kind::Write)],
        plan: &plan,
        pace: Pace::Closed { window: 256 },
        at_most: patience.lasts,
        patience: patience.lasts,
        process: None,
        stop,
        progress: &Progress::silent(),
    };
    load.run(&mut lanes)
}

/// Asks some questions of each shape and compares the answers with the corpus, field by field.
pub(crate) fn check(
    setting: &Setting<'_>,
    target: &Target,
    corpus: &Corpus,
    questions: &[Asked],
) -> Result<()> {
    let patience = setting.series().patience();
    let mut socket = WebSocket::open(&target.address, patience)?;
    let mut counts: HashMap<usize, usize> = HashMap::new();
    let mut events = 0;
    for (number, asked) in questions.iter().enumerate() {
        let count = counts.entry(asked.shape).or_default();
        *count += 1;
        if *count > CHECKED {
            continue;
        }
        if setting.is_stopped() {
            return Err(BenchError::Interrupted);
        }
        let name = subscription(number);
        asked.frame(number, socket.stream().output());
        socket.stream().send(patience)?;
        let mut found = Vec::new();
        loop {
            let message: Vec<Value> = serde_json::from_slice(socket.receive(patience)?)
                .map_err(|error| BenchError::Wrong(format!("not a message of NIP-01: {error}")))?;
            // Some relays close a subscription behind its answer, when another one is under way.
            if message.get(1).and_then(Value::as_str) != Some(&name) {
                continue;
            }
            match message.first().and_then(Value::as_str) {
                Some("EVENT") => {
                    let event = message.get(2).unwrap_or(&Value::Null);
                    let id = event.get("id").and_then(Value::as_str).and_then(bytes32);
                    let id =
                        id.ok_or_else(|| BenchError::Wrong("an event without an id".to_owned()))?;
                    is_whole(corpus, &id, event)?;
                    found.push(id);
                }
                Some("EOSE") => break,
                Some("CLOSED") => {
                    let reason = message.get(2).and_then(Value::as_str).unwrap_or_default();
                    return Err(BenchError::Server(format!(
                        "refused a question: {reason}; the filter is {:.300}",
                        asked.question.to_json()
                    )));
                }
                _ => {}
            }
        }
        asked.check(&found).map_err(|error| {
            BenchError::Wrong(format!(
                "{}, before any load: {error}. It must hold the corpus, and nothing else that is as old",
                target.address.as_str()
            ))
        })?;
        events += found.len();
    }
    setting.progress.tell(&format!(
        "{}: {} questions answered rightly, {events} events compared",
        target.name,
        counts
            .values()
            .map(|count| (*count).min(CHECKED))
            .sum::<usize>()
    ));
    Ok(())
}

/// Compares all fields of an event with the corpus; what is not in it is found by its id later.
fn is_whole(corpus: &Corpus, id: &[u8; 32], event: &Value) -> Result<()> {
    let Some(right) = corpus.json(id) else {
        return Ok(());
    };
    if serde_json::from_str::<Value>(right).is_ok_and(|right| right == *event) {
        return Ok(());
    }
    Err(BenchError::Wrong(format!(
        "event {} has other fields than were published",
        faster_hex::hex_string(id)
    )))
}
