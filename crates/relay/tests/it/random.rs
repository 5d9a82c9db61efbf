//! Random conversations: nothing panics, and every question has its one answer.

use hikyaku_event::testing::{Author, EventBuilder};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

use crate::driver::{ClientId, NOW, Relay, URL, authentication, challenge, count, request};

const CLIENTS: u64 = 3;
/// Of subscriptions, and of counts: from a CLOSED nobody can tell which of the two it ends.
const IDS: [&str; 3] = ["a", "b", "\"c\\"];
const COUNT_IDS: [&str; 3] = ["A", "B", "C"];

#[derive(Debug, Clone)]
enum Step {
    /// A client says something, answered by as many steps of its queries.
    Say(ClientId, Speech, usize),
    /// Commits reach the live subscriptions.
    Deliver,
    /// Everything is delivered and answered.
    Settle,
    /// Time goes on.
    Wait(u64),
}

#[derive(Debug, Clone)]
enum Speech {
    Event(Vec<u8>),
    Auth(u64),
    Req(&'static str, Vec<Value>),
    Count(&'static str, Vec<Value>),
    Close(&'static str),
    Garbage(String),
}

fn an_event() -> impl Strategy<Value = Vec<u8>> {
    let kind = select(vec![
        0, 1, 4, 5, 6, 62, 1059, 10_002, 20_001, 21_059, 22_242, 30_023,
    ]);
    let tag = prop_oneof![
        (0..3u64).prop_map(|seed| ["p".to_owned(), Author::new(seed).pubkey().to_hex()]),
        select(vec![
            ["t", "x"],
            ["d", "x"],
            ["-", ""],
            ["relay", URL],
            ["expiration", "1700000002"],
            ["expiration", "1"],
        ])
        .prop_map(|tag| tag.map(str::to_owned)),
    ];
    let time = prop_oneof![NOW - 3..NOW + 3, Just(NOW + 5000)];
    let damage = prop_oneof![9 => Just(None), 1 => (0..400usize).prop_map(Some)];
    (0..3u64, kind, time, vec(tag, 0..3), damage).prop_map(|(author, kind, time, tags, damage)| {
        let event = tags
            .into_iter()
            .fold(EventBuilder::new(kind).created_at(time), EventBuilder::tag);
        let mut json = event.sign_json(&Author::new(author));
        if let Some(byte) = damage.and_then(|place| json.get_mut(place)) {
            *byte ^= 1;
        }
        json
    })
}

fn a_filter() -> impl Strategy<Value = Value> {
    let key = |seed: u64| Author::new(seed).pubkey().to_hex();
    select(vec![
        json!({}),
        json!({"limit": 0}),
        json!({"limit": 2}),
        json!({"kinds": [1, 4, 20001, 21059]}),
        json!({"kinds": [1059]}),
        json!({"kinds": [1059, 21059], "#p": [key(1)]}),
        json!({"kinds": []}),
        json!({"authors": [key(0), key(2)], "kinds": [1, 0]}),
        json!({"#t": ["x"], "since": NOW}),
        json!({"ids": ["zz"]}),
    ])
}

fn a_speech() -> impl Strategy<Value = Speech> {
    let filters = || vec(a_filter(), 0..3);
    prop_oneof![
        6 => an_event().prop_map(Speech::Event),
        1 => (0..3u64).prop_map(Speech::Auth),
        4 => (select(IDS.to_vec()), filters()).prop_map(|(id, filters)| Speech::Req(id, filters)),
        2 => (select(COUNT_IDS.to_vec()), filters())
            .prop_map(|(id, filters)| Speech::Count(id, filters)),
        1 => select([IDS, COUNT_IDS].concat()).prop_map(Speech::Close),
        1 => any::<String>().prop_map(Speech::Garbage),
        1 => r#"\["(EVENT|REQ|AUTH|COUNT|CLOSE)",.{0,30}\]"#.prop_map(Speech::Garbage),
    ]
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..CLIENTS, a_speech(), 0..4usize)
            .prop_map(|(client, speech, steps)| Step::Say(client, speech, steps)),
        2 => Just(Step::Deliver),
        1 => Just(Step::Settle),
        1 => (0..3u64).prop_map(Step::Wait),
    ]
}

/// What one client is owed and has got.
#[derive(Debug, Default)]
struct Account {
    events: usize,
    oks: usize,
    notices: usize,
    garbage: usize,
    /// By subscription id: subscriptions that are neither answered nor closed or replaced.
    open: [usize; 3],
    counts: [usize; 3],
}

impl Account {
    fn say(&mut self, speech: &Speech) {
        match speech {
            Speech::Event(_) | Speech::Auth(_) => self.events += 1,
            Speech::Req(id, _) => *self.open(id).unwrap() = 1,
            Speech::Count(id, _) => *self.counts(id).unwrap() += 1,
            Speech::Close(id) => {
                self.open(id).map(std::mem::take);
                self.counts(id).map(std::mem::take);
            }
            Speech::Garbage(_) => self.garbage += 1,
        }
    }

    fn open(&mut self, id: &str) -> Option<&mut usize> {
        let place = IDS.iter().position(|known| *known == id)?;
        Some(&mut self.open[place])
    }

    fn counts(&mut self, id: &str) -> Option<&mut usize> {
        let place = COUNT_IDS.iter().position(|known| *known == id)?;
        Some(&mut self.counts[place])
    }

    /// Books what a client got; what it is not owed is an error.
    fn book(&mut self, message: &Value) -> Result<(), TestCaseError> {
        let id = message[1].as_str().unwrap();
        // Garbage may be a REQ.
        let unknown = self.garbage > 0 && !IDS.contains(&id) && !COUNT_IDS.contains(&id);
        let owed = match message[0].as_str().unwrap() {
            "OK" => {
                self.oks += 1;
                return Ok(());
            }
            "NOTICE" => {
                self.notices += 1;
                return Ok(());
            }
            "EVENT" => {
                prop_assert!(
                    IDS.contains(&id),
                    "an event of no subscription: {}",
                    message
                );
                return Ok(());
            }
            "EOSE" => self.open(id),
            "CLOSED" if IDS.contains(&id) => self.open(id),
            "COUNT" | "CLOSED" => self.counts(id),
            _ => None,
        };
        match owed {
            Some(owed) if *owed > 0 => *owed -= 1,
            None if unknown => {}
            _ => prop_assert!(false, "nobody waits for {}", message),
        }
        Ok(())
    }
}

fn text(client: ClientId, now: u64, speech: &Speech) -> Vec<u8> {
    match speech {
        Speech::Event(json) => [br#"["EVENT","#.as_slice(), json, b"]"].concat(),
        Speech::Auth(seed) => {
            let auth = EventBuilder::new(22242)
                .created_at(now)
                .tag(["relay", URL])
                .tag(["challenge", &challenge(client)])
                .sign(&Author::new(*seed));
            authentication(&auth)
        }
        Speech::Req(id, filters) => request(id, filters.clone()).into_bytes(),
        Speech::Count(id, filters) => count(id, filters.clone()).into_bytes(),
        Speech::Close(id) => json!(["CLOSE", id]).to_string().into_bytes(),
        Speech::Garbage(text) => text.clone().into_bytes(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_question_has_its_one_answer(steps in vec(a_step(), 1..80)) {
        let mut relay = Relay::with_limits(|limits| limits.pending_live_max = 3);
        let mut accounts: Vec<Account> = Vec::new();
        for _ in 0..CLIENTS {
            relay.connect();
            accounts.push(Account::default());
        }
        for step in steps.into_iter().chain([Step::Settle]) {
            match step {
                Step::Say(client, speech, steps) => {
                    accounts[client as usize].say(&speech);
                    let text = text(client, relay.now, &speech);
                    relay.receive(client, text);
                    relay.answer(client, steps);
                }
                Step::Deliver => relay.deliver(),
                Step::Settle => relay.settle(),
                Step::Wait(seconds) => relay.now += seconds,
            }
            for client in 0..CLIENTS {
                for message in relay.take(client) {
                    accounts[client as usize].book(&message)?;
                }
            }
        }
        for account in &accounts {
            prop_assert_eq!(account.open, [0; 3], "a REQ without EOSE or CLOSED");
            prop_assert_eq!(account.counts, [0; 3], "a COUNT without an answer");
            let answers = account.oks + account.notices;
            prop_assert!(account.events <= answers, "an EVENT without an OK");
            prop_assert!(answers <= account.events + account.garbage, "an OK too many");
        }
    }
}
