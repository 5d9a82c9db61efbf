//! One transaction: under the writer's lock, everything that waits, whole or not at all.

use std::{collections::VecDeque, sync::Arc};

use hikyaku_event::{PublicKey, Timestamp};
use hikyaku_store::{CommittedEvent, Outcome, Write, rules};
use tokio::try_join;
use tokio_postgres::types::ToSql;

use super::{apply, load, load::Wanted, picture::Picture, remove, seen::Seen, tags, timeline};
use crate::{
    PostgresError, columns,
    columns::Word,
    connection::{Connector, Session, lock_key},
    feed::{Feed, PLACE, Turn},
    names::KnownNames,
    schema::make_deferred_indexes,
};

const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
const END: &str = "SELECT setval('{schema}.position', $1), pg_notify($2, $3)";
/// What a request to vanish reaches, a page at a time: the key's own events, seen and hidden, and the gift
/// wraps to it.
const OWN: &str = "SELECT seq, vanish, hidden, conditional, json FROM {schema}.events \
    WHERE pubkey = $1 AND age >= $2 AND NOT hidden AND kind <> 62 ORDER BY age, tie LIMIT $3";
const OWN_HIDDEN: &str = "SELECT seq, vanish, hidden, conditional, json FROM {schema}.events \
    WHERE pubkey = $1 AND age >= $2 AND hidden AND kind <> 62 LIMIT $3";
const WRAPS: &str = "SELECT e.seq, e.vanish, e.hidden, e.conditional, e.json FROM ( \
        SELECT t.seq FROM {schema}.event_tags t WHERE t.name = 'p' AND t.value = $1 \
        AND t.age >= $2 AND t.kind = 1059 ORDER BY t.age, t.tie LIMIT $3 \
    ) w JOIN {schema}.events e ON e.seq = w.seq";
const HIDDEN_WRAPS: &str = "SELECT seq, vanish, hidden, conditional, json FROM {schema}.events WHERE hidden AND kind = 1059 AND age >= $1";
const EXPIRED: &str = "SELECT seq, vanish, hidden, conditional, json FROM {schema}.events \
    WHERE expires_at <= $1 AND kind NOT IN (5, 62) ORDER BY expires_at LIMIT $2";

const NAMES: &str = KnownNames::SQL;

const DEFERRED: &str = "SELECT FROM {schema}.deferred_indexes LIMIT 1";

const STATEMENTS: [&str; 10] = [
    NAMES,
    DEFERRED,
    LOCK,
    END,
    OWN,
    OWN_HIDDEN,
    WRAPS,
    HIDDEN_WRAPS,
    EXPIRED,
    PLACE,
];

/// Events removed by one statement.
const PAGE: i64 = 500;

/// What a transaction did.
pub(super) struct Done {
    /// One list for each request.
    pub(super) outcomes: Vec<Vec<Outcome>>,
    pub(super) events: Vec<CommittedEvent>,
    /// The last number given before, and the last one now.
    pub(super) before: i64,
    pub(super) last: i64,
    /// Indexes are put off, now as before.
    pub(super) indexes_deferred: bool,
    /// To be kept until the feed knows of it.
    pub(super) turn: Option<Turn>,
}

/// The writer's side of one connection.
pub(super) struct Transactions {
    pub(super) session: Arc<Session>,
    connector: Connector,
    /// Indexes that are put off may stay so.
    may_defer: bool,
    lock: i64,
    channel: String,
    feed: Arc<Feed>,
    /// Of an import, as long as it does: what need not be looked up.
    seen: Option<Seen>,
}

impl Transactions {
    /// Prepares every statement, so that those of one batch can be sent together and stay in order.
    pub(super) async fn new(
        session: Arc<Session>,
        connector: &Connector,
        may_defer: bool,
        feed: Arc<Feed>,
    ) -> Result<Self, PostgresError> {
        let statements = STATEMENTS.iter();
        let statements = statements
            .chain(&load::STATEMENTS)
            .chain(&apply::STATEMENTS)
            .chain(&tags::STATEMENTS)
            .chain(&remove::STATEMENTS);
        for sql in statements {
            session.prepared(sql).await?;
        }
        let process = session.rows("SELECT pg_backend_pid()", &[]).await?;
        feed.writer_is(process.first().map_or(0, |row| row.get(0)));
        let lock = lock_key(&connector.schema, "writer");
        let channel = crate::feed::channel(&connector.schema);
        timeline::follow(&session, lock, &channel).await?;
        Ok(Self {
            session,
            connector: connector.clone(),
            may_defer,
            lock,
            channel,
            feed,
            seen: may_defer.then(Seen::nothing),
        })
    }

    /// Writes requests, each with its time, in order.
    pub(super) async fn write(
        &mut self,
        requests: &[(&[Write], Timestamp)],
    ) -> Result<Done, PostgresError> {
        loop {
            if let Some(done) = Box::pin(self.try_to_write(requests)).await? {
                return Ok(done);
            }
            self.make_indexes().await?;
        }
    }

    /// Makes the indexes that an import has put off, if there are any.
    pub(super) async fn make_indexes(&self) -> Result<(), PostgresError> {
        make_deferred_indexes(&self.session, &self.connector).await
    }

    /// Writes; `None`, and nothing is written, if indexes are missing without which it can't be done.
    async fn try_to_write(
        &mut self,
        requests: &[(&[Write], Timestamp)],
    ) -> Result<Option<Done>, PostgresError> {
        let mut waiting: VecDeque<(usize, &Write, Timestamp)> = VecDeque::new();
        for (number, (writes, now)) in requests.iter().enumerate() {
            waiting.extend(writes.iter().map(|write| (number, write, *now)));
        }
        let mut done = Done {
            outcomes: requests.iter().map(|_| Vec::new()).collect(),
            events: Vec::new(),
            before: 0,
            last: 0,
            indexes_deferred: false,
            turn: None,
        };
        // Not put back if this fails: what is stored then is not known.
        let mut seen = self.seen.take();
        let session = Arc::clone(&self.session);
        let session = &*session;
        let mut wanted = Wanted::of(waiting.iter().map(|(_, write, _)| *write));
        if let Some(seen) = &seen {
            wanted.leave_out(seen);
        }
        let ((), _, names, mut picture) = try_join!(
            biased;

            self.begin(),
            async { session.rows(LOCK, &[&self.lock]).await },
            async { session.rows(NAMES, &[]).await },
            wanted.load(session)
        )?;
        if seen.take_if(|seen| !seen.is_whole(picture.last)).is_some() {
            // Somebody else has stored something too.
            let wanted = Wanted::of(waiting.iter().map(|(_, write, _)| *write));
            picture = wanted.load(session).await?;
        }
        if picture.indexes_deferred && !(self.may_defer && are_events(requests)) {
            self.session.client.batch_execute("ROLLBACK").await?;
            return Ok(None);
        }
        let names = KnownNames::of(&names);
        let told = self.feed.told();
        if told > picture.last {
            // A copy of the server as it was: what it lacks had numbers that are not given again.
            tracing::warn!(
                told,
                has = picture.last,
                "the database has gone back: events that were stored are gone"
            );
            picture.last = told.saturating_add(timeline::LEFT_OUT);
        }
        done.before = picture.last;
        done.indexes_deferred = picture.indexes_deferred;
        loop {
            let vanish = decide(&mut picture, &mut waiting, &mut done);
            done.last = picture.last;
            let Some((key, until)) = vanish else {
                break;
            };
            seen = None;
            // What it reaches may be much: it goes by statements, and the picture is made anew.
            Box::pin(apply::apply(session, &picture, &names)).await?;
            self.vanish(key, until, &names).await?;
            picture = Wanted::of(waiting.iter().map(|(_, write, _)| *write))
                .load(session)
                .await?;
            picture.last = done.last;
        }
        done.turn = Some(self.feed.turn().await);
        try_join!(
            biased;

            apply::apply(session, &picture, &names),
            self.end(&done),
        )?;
        if let Some(seen) = &mut seen {
            seen.add(&picture);
        }
        self.seen = seen;
        Ok(Some(done))
    }

    /// Removes a page of what has expired; tells how many.
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<u64, PostgresError> {
        let session = &*self.session;
        let ((), _, deferred, names, rows) = try_join!(
            biased;

            self.begin(),
            async { session.rows(LOCK, &[&self.lock]).await },
            async { session.rows(DEFERRED, &[]).await },
            async { session.rows(NAMES, &[]).await },
            async { session.rows(EXPIRED, &[&columns::seconds(now), &PAGE]).await }
        )?;
        if !deferred.is_empty() {
            session.client.batch_execute("ROLLBACK").await?;
            self.make_indexes().await?;
            return Box::pin(self.sweep(now)).await;
        }
        let expired = rows
            .iter()
            .map(load::stored)
            .collect::<Result<Vec<_>, _>>()?;
        let names = KnownNames::of(&names);
        debug_assert!(expired.iter().all(|row| rules::may_sweep(&row.event, now)));
        try_join!(
            biased;
            remove::remove(session, &expired, &names), self.commit())?;
        Ok(expired.len() as u64)
    }

    /// Tells of what is written, and commits it.
    async fn end(&self, done: &Done) -> Result<(), PostgresError> {
        let position = done.last.to_string();
        let told = async {
            if done.last > done.before {
                let parameters: [&(dyn ToSql + Sync); 3] = [&done.last, &self.channel, &position];
                self.session.rows(END, &parameters).await?;
            }
            Ok(())
        };
        try_join!(
            biased;

            told,
            self.commit(),
            // Behind the commit: a replica that has come so far has it.
            self.feed.learn_place(&self.session)
        )?;
        Ok(())
    }

    async fn begin(&self) -> Result<(), PostgresError> {
        Ok(self.session.client.batch_execute("BEGIN").await?)
    }

    async fn commit(&self) -> Result<(), PostgresError> {
        Ok(self.session.client.batch_execute("COMMIT").await?)
    }

    async fn vanish(
        &self,
        key: PublicKey,
        until: Timestamp,
        names: &KnownNames,
    ) -> Result<(), PostgresError> {
        let session = &*self.session;
        let (word, age) = (Word::from(key), columns::age(until));
        let hex = key.to_hex().into_bytes();
        loop {
            let (own, hidden, wraps) = try_join!(
            biased;

                async { session.rows(OWN, &[&word, &age, &PAGE]).await },
                async { session.rows(OWN_HIDDEN, &[&word, &age, &PAGE]).await },
                async { session.rows(WRAPS, &[&hex, &age, &PAGE]).await },
            )?;
            let mut found = std::collections::BTreeMap::new();
            for row in own.iter().chain(&hidden).chain(&wraps) {
                let row = load::stored(row)?;
                found.insert(row.seq, row);
            }
            if found.is_empty() {
                break;
            }
            let found: Vec<_> = found.into_values().collect();
            remove::remove(session, &found, names).await?;
        }
        // Hidden events are in no index of tags; there are few.
        let mut hidden = Vec::new();
        for row in session.rows(HIDDEN_WRAPS, &[&age]).await? {
            let row = load::stored(&row)?;
            if rules::deleters(&row.event).contains(&key) {
                hidden.push(row);
            }
        }
        remove::remove(session, &hidden, names).await
    }
}

/// Tells whether there are only events that remove nothing but what they name or replace.
fn are_events(requests: &[(&[Write], Timestamp)]) -> bool {
    let mut writes = requests.iter().flat_map(|(writes, _)| *writes);
    writes.all(|write| matches!(write, Write::Event { vanish: false, .. }))
}

/// Decides writes in order, up to and including the first request to vanish that is to be carried out.
fn decide(
    picture: &mut Picture,
    waiting: &mut VecDeque<(usize, &Write, Timestamp)>,
    done: &mut Done,
) -> Option<(PublicKey, Timestamp)> {
    while let Some((number, write, now)) = waiting.pop_front() {
        let step = picture.apply(write, now);
        if let Some(outcomes) = done.outcomes.get_mut(number) {
            outcomes.push(step.outcome);
        }
        done.events.extend(step.stored);
        if step.vanish.is_some() {
            return step.vanish;
        }
    }
    None
}
