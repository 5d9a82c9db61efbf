//! What the database has that bears on a batch: a statement for each sort of fact, all sent at once.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use hikyaku_event::Event;
use hikyaku_store::{Write, rules};
use tokio::try_join;
use tokio_postgres::Row;

use super::{
    picture::{Deletion, Picture, Stored, Vanishing, targets},
    seen::{About, Seen},
};
use crate::{PostgresError, columns, columns::Word, connection::Session};

const POSITION: &str = "SELECT last_value, EXISTS (SELECT FROM {schema}.deferred_indexes) \
    FROM {schema}.position";
const BY_ID: &str =
    "SELECT seq, vanish, hidden, conditional, json FROM {schema}.events WHERE id = ANY($1)";
const BY_ADDRESS: &str =
    "SELECT seq, vanish, hidden, conditional, json FROM {schema}.events WHERE address = ANY($1)";
const DELETIONS: &str = "SELECT d.target, d.pubkey, d.age, d.seq \
    FROM unnest($1::bytea[], $2::bytea[]) AS w(target, pubkey) \
    JOIN {schema}.deletions d ON d.target = w.target AND d.pubkey = w.pubkey";
const VANISHINGS: &str = "SELECT pubkey, age, seq FROM {schema}.vanishings WHERE pubkey = ANY($1)";
const HIDERS: &str = "SELECT e.id, h.hider FROM {schema}.events e \
    JOIN {schema}.hidings h ON h.seq = e.seq WHERE e.id = ANY($1)";

/// Prepared when a connection is made, lest a batch that sends several at once gets them out of order.
pub(super) const STATEMENTS: [&str; 6] =
    [POSITION, BY_ID, BY_ADDRESS, DELETIONS, VANISHINGS, HIDERS];

/// What to look up.
#[derive(Default)]
pub(super) struct Wanted {
    ids: BTreeSet<Word>,
    addresses: BTreeSet<Word>,
    /// What may have been deleted, and by whom.
    deletions: BTreeSet<(Word, Word)>,
    deleters: BTreeSet<Word>,
    hidable: BTreeSet<Word>,
}

impl Wanted {
    pub(super) fn of<'a>(writes: impl IntoIterator<Item = &'a Write>) -> Self {
        let mut wanted = Self::default();
        for write in writes {
            match write {
                Write::Event { event, vanish } => wanted.event(event, *vanish),
                Write::Remove { id, .. } => {
                    wanted.ids.insert((*id).into());
                }
                Write::Hide { id, .. } | Write::Unhide { id, .. } => {
                    wanted.ids.insert((*id).into());
                    wanted.hidable.insert((*id).into());
                }
            }
        }
        wanted
    }

    fn event(&mut self, event: &Event, vanish: bool) {
        let id = Word::from(event.id());
        self.ids.insert(id);
        for key in rules::deleters(event) {
            self.deleters.insert(key.into());
            self.deletions.insert((id, key.into()));
        }
        if let Some(address) = event.address() {
            let address = Word(columns::address(&address));
            self.addresses.insert(address);
            self.deletions.insert((address, event.pubkey().into()));
        }
        let effect = rules::effect(event, vanish);
        if let rules::Effect::Delete(named) = &effect {
            let ids = named.ids.len();
            for (number, target) in targets(&effect).into_iter().enumerate() {
                let set = if number < ids {
                    &mut self.ids
                } else {
                    &mut self.addresses
                };
                set.insert(target);
            }
        }
    }

    /// Leaves out what is known not to be there.
    pub(super) fn leave_out(&mut self, seen: &Seen) {
        self.ids.retain(|id| seen.may_have(About::Id, *id));
        let addresses = &mut self.addresses;
        addresses.retain(|address| seen.may_have(About::Address, *address));
        let deletions = &mut self.deletions;
        deletions.retain(|(target, _)| seen.may_have(About::DeletionOf, *target));
    }

    /// Looks everything up.
    pub(super) async fn load(self, session: &Session) -> Result<Picture, PostgresError> {
        let list = |set: BTreeSet<Word>| set.into_iter().collect::<Vec<_>>();
        let (ids, addresses) = (list(self.ids), list(self.addresses));
        let (deleters, hidable) = (list(self.deleters), list(self.hidable));
        let (named, by): (Vec<Word>, Vec<Word>) = self.deletions.into_iter().unzip();
        let (position, by_id, by_address, deletions, vanishings, hiders) = try_join!(
            biased;

            session.rows(POSITION, &[]),
            rows_of(session, BY_ID, &ids),
            rows_of(session, BY_ADDRESS, &addresses),
            async {
                if named.is_empty() {
                    return Ok(Vec::new());
                }
                session.rows(DELETIONS, &[&named, &by]).await
            },
            rows_of(session, VANISHINGS, &deleters),
            rows_of(session, HIDERS, &hidable),
        )?;
        let mut picture = Picture::default();
        (picture.last, picture.indexes_deferred) = position
            .first()
            .map_or((0, false), |row| (row.get(0), row.get(1)));
        for row in by_id.iter().chain(&by_address) {
            picture.add(stored(row)?);
        }
        for row in &deletions {
            let deletion = Deletion {
                pubkey: row.get::<_, Word>(1).into(),
                created_at: columns::created_at(row.get(2)),
                seq: row.get(3),
            };
            picture.add_deletion(row.get(0), deletion);
        }
        for row in &vanishings {
            let vanishing = Vanishing {
                until: columns::created_at(row.get(1)),
                seq: row.get(2),
            };
            picture.add_vanishing(row.get::<_, Word>(0).into(), vanishing);
        }
        for row in &hiders {
            let hider = u32::try_from(row.get::<_, i64>(1)).unwrap_or(u32::MAX);
            picture.add_hider(row.get::<_, Word>(0).into(), hider);
        }
        Ok(picture)
    }
}

async fn rows_of(session: &Session, sql: &str, words: &[Word]) -> Result<Vec<Row>, PostgresError> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    session.rows(sql, &[&words]).await
}

/// Reads a stored event from `seq, vanish, hidden, conditional, json`.
pub(super) fn stored(row: &Row) -> Result<Stored, PostgresError> {
    let seq = row.get(0);
    let event = event(seq, row.get(4))?;
    Ok(Stored {
        seq,
        event: Arc::new(event),
        vanish: row.get(1),
        was_hidden: row.get(2),
        conditional: row.get(3),
        hiders: BTreeSet::new(),
        shown_from: None,
        is_new: false,
    })
}

/// Reads the event of this number.
pub(crate) fn event(seq: i64, json: &[u8]) -> Result<Event, PostgresError> {
    Event::from_stored(Bytes::copy_from_slice(json)).map_err(|error| {
        PostgresError::Corrupt(format!("the event with number {seq} is not one: {error}"))
    })
}
