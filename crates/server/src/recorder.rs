//! Takes down who was here and who wrote what: a thread of its own, so that no client waits for it.
//!
//! Workers hand over what they saw, a batch at a time, and forget about it. If the recorder can't
//! keep up, what it misses is dropped and counted: these are figures, not the events themselves.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;
use hashbrown::{HashMap, hash_map::Entry};
use hikyaku_event::{Event, Kind, PublicKey};
use hikyaku_members::{AddressFamily, MemberNumber, Members, MembersError, Sighting};
use hikyaku_tables::Stamp;

use crate::clock::{unix_now, unix_now_us};

/// Batches that may wait for the recorder.
const BATCHES_MAX: usize = 4_096;
/// How long the thread lets more batches come before it takes them: waking it for each one would cost
/// the worker and the machine more than what is in it.
const LINGER: Duration = Duration::from_millis(100);
/// How long counts and sightings are gathered before they are written. Writing them, and the update
/// log that they go through, is most of what the recorder costs, and who writes much is written once
/// in this time; a crash forgets what was gathered in it.
const GATHERING: Duration = Duration::from_mins(1);
/// How many counts are gathered at most: some 2 MB of them.
const COUNTS_MAX: usize = 32_768;
/// Of how many keys the recorder knows at most what it has just taken down.
const KNOWN_MAX: usize = 8_192;
/// An event this many seconds old (or ahead) still shows that its author is here. Others may pass on
/// what somebody wrote, but hardly as it is written.
const FRESH_SECONDS: u64 = 600;

/// Something that a worker saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Observation {
    /// A key authenticated.
    Authenticated(PublicKey, AddressFamily),
    /// An event was stored, or delivered if it is ephemeral.
    Accepted {
        author: PublicKey,
        kind: Kind,
        created_at: u64,
        family: AddressFamily,
    },
    /// A key asked to vanish, and did.
    Vanished(PublicKey),
}

impl Observation {
    pub(crate) fn of(event: &Event, vanished: bool, family: AddressFamily) -> Self {
        if vanished {
            return Self::Vanished(event.pubkey());
        }
        Self::Accepted {
            author: event.pubkey(),
            kind: event.kind(),
            created_at: event.created_at(),
            family,
        }
    }
}

/// The workers' side.
#[derive(Debug)]
pub(crate) struct Recorder {
    batches: SyncSender<Vec<Observation>>,
    /// Who vanished in batches that were dropped: that is no figure, and is not forgotten.
    vanished: Arc<Mutex<Vec<PublicKey>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Recorder {
    /// Starts the thread. It ends, with everything written, when told to [stop](Self::stop).
    pub(crate) fn start(members: Arc<Members>) -> io::Result<Self> {
        let (batches, waiting) = mpsc::sync_channel(BATCHES_MAX);
        let vanished = Arc::<Mutex<Vec<PublicKey>>>::default();
        let left_over = Arc::clone(&vanished);
        let thread = thread::Builder::new()
            .name("recorder".into())
            .spawn(move || Writer::new(&members).run(&waiting, &left_over))?;
        Ok(Self {
            batches,
            vanished,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Hands over a batch; never waits. False if it was dropped.
    pub(crate) fn record(&self, batch: Vec<Observation>) -> bool {
        if batch.is_empty() {
            return true;
        }
        let Err(TrySendError::Full(dropped) | TrySendError::Disconnected(dropped)) =
            self.batches.try_send(batch)
        else {
            return true;
        };
        let gone = dropped.iter().filter_map(|observation| match observation {
            Observation::Vanished(key) => Some(*key),
            _ => None,
        });
        let mut vanished = self.vanished.lock().unwrap_or_else(PoisonError::into_inner);
        vanished.extend(gone);
        false
    }

    /// Waits until everything is written.
    pub(crate) fn stop(&self) {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // An empty batch says that no more will come. The thread is there, or has failed.
        let _ = self.batches.send(Vec::new());
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the recorder has failed");
        }
    }
}

/// What the recorder knows of a key without asking.
#[derive(Debug, Clone, Copy)]
struct Known {
    member: MemberNumber,
    /// When the member was last here, as far as that is still to be written.
    seen: Option<Sighting>,
    /// It is a member since now, and that it is here is written at once.
    is_new: bool,
}

impl Known {
    fn see(
        &mut self,
        family: AddressFamily,
        members: &Members,
        stamp: Stamp,
    ) -> Result<(), MembersError> {
        let at = stamp.seconds();
        let sighting = Sighting { at, family };
        if std::mem::take(&mut self.is_new) {
            return members.see(self.member, sighting, stamp);
        }
        self.seen = Some(sighting);
        Ok(())
    }
}

/// The recorder's side.
struct Writer<'a> {
    members: &'a Members,
    counts: HashMap<(MemberNumber, Kind), i64, RandomState>,
    /// Who was here a moment ago, and when: who writes much is looked up once. Only this thread forgets
    /// members, so a number stands as long as it is in here.
    known: HashMap<PublicKey, Known, RandomState>,
    /// When what is gathered is to be written.
    due: Option<Instant>,
}

impl<'a> Writer<'a> {
    fn new(members: &'a Members) -> Self {
        Self {
            members,
            counts: HashMap::default(),
            known: HashMap::default(),
            due: None,
        }
    }

    fn run(mut self, batches: &Receiver<Vec<Observation>>, vanished: &Mutex<Vec<PublicKey>>) {
        loop {
            let received = match self.due {
                None => batches.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => batches.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            match received {
                Ok(batch) => {
                    if batch.is_empty() {
                        break;
                    }
                    self.take(&batch);
                    thread::sleep(LINGER);
                    let goes_on = self.take_waiting(batches);
                    // Behind what waited: what was seen of them before must not bring them back.
                    self.take_vanished(vanished);
                    if !goes_on {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.write(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.take_vanished(vanished);
        self.write();
    }

    fn take_vanished(&mut self, vanished: &Mutex<Vec<PublicKey>>) {
        let vanished =
            std::mem::take(&mut *vanished.lock().unwrap_or_else(PoisonError::into_inner));
        let vanished: Vec<_> = vanished.into_iter().map(Observation::Vanished).collect();
        self.take(&vanished);
    }

    /// Takes what waits; false if no more will come.
    fn take_waiting(&mut self, batches: &Receiver<Vec<Observation>>) -> bool {
        for batch in batches.try_iter() {
            if batch.is_empty() {
                return false;
            }
            self.take(&batch);
        }
        true
    }

    fn take(&mut self, batch: &[Observation]) {
        let stamp = stamp();
        for observation in batch {
            if let Err(error) = self.observe(*observation, stamp) {
                tracing::warn!(%error, "not recorded");
            }
        }
        if self.counts.len() >= COUNTS_MAX {
            self.write();
        } else if self.due.is_none() {
            self.due = Some(Instant::now() + GATHERING);
        }
    }

    fn observe(&mut self, observation: Observation, stamp: Stamp) -> Result<(), MembersError> {
        let members = self.members;
        match observation {
            Observation::Authenticated(key, family) => {
                self.known(&key, stamp)?.see(family, members, stamp)?;
            }
            Observation::Accepted {
                author,
                kind,
                created_at,
                family,
            } => {
                let known = self.known(&author, stamp)?;
                let member = known.member;
                let seen = if created_at.abs_diff(stamp.seconds()) > FRESH_SECONDS {
                    Ok(())
                } else {
                    known.see(family, members, stamp)
                };
                *self.counts.entry((member, kind)).or_default() += 1;
                seen?;
            }
            Observation::Vanished(key) => {
                self.known.remove(&key);
                if let Some(member) = self.members.number(&key) {
                    self.counts.retain(|(counted, _), _| *counted != member);
                }
                self.members.forget(&key, stamp)?;
            }
        }
        Ok(())
    }

    /// Returns what is known of a key, which is a member's from now on.
    fn known(&mut self, key: &PublicKey, stamp: Stamp) -> Result<&mut Known, MembersError> {
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(key) {
            self.write_sightings();
            self.known.clear();
        }
        match self.known.entry(*key) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(Known {
                is_new: self.members.number(key).is_none(),
                member: self.members.enrol(key, stamp)?,
                seen: None,
            })),
        }
    }

    /// Writes all that is gathered.
    fn write(&mut self) {
        self.due = None;
        self.write_sightings();
        if self.counts.is_empty() {
            return;
        }
        let mut counts: Vec<_> = self
            .counts
            .drain()
            .map(|((member, kind), by)| (member, kind, by))
            .collect();
        // As they stand in the table, so that each is found beside the one before.
        counts.sort_unstable_by_key(|(member, kind, _)| (*member, *kind));
        if let Err(error) = self.members.count(&counts, stamp()) {
            tracing::warn!(%error, "events not counted");
        }
    }

    fn write_sightings(&mut self) {
        let stamp = stamp();
        for known in self.known.values_mut() {
            let Some(sighting) = known.seen.take() else {
                continue;
            };
            if let Err(error) = self.members.see(known.member, sighting, stamp) {
                tracing::warn!(%error, "not recorded");
            }
        }
    }
}

fn stamp() -> Stamp {
    Stamp {
        at_us: unix_now_us(),
        origin: 0,
    }
}

/// Returns the present for the page's figures.
pub(crate) fn seen_today(members: &Members) -> u64 {
    members
        .seen_on_day_of(unix_now())
        .inspect_err(|error| tracing::warn!(%error, "today's members not known"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use hikyaku_event::testing::Author;
    use hikyaku_members::{FootprintLimits, MemberTables};
    use hikyaku_tables::{MemoryOptions, MemoryTable, Table};

    use super::*;

    fn members() -> Members {
        let table =
            || -> Arc<dyn Table> { Arc::new(MemoryTable::new(MemoryOptions::default(), None)) };
        let tables = MemberTables::find(|_| Some(table())).unwrap();
        Members::open(tables, FootprintLimits::default(), 7).unwrap()
    }

    fn accepted(author: PublicKey) -> Observation {
        Observation::Accepted {
            author,
            kind: Kind(1),
            created_at: unix_now(),
            family: AddressFamily::V4,
        }
    }

    #[test]
    fn who_comes_back_after_vanishing_is_a_new_member() {
        let members = members();
        let mut writer = Writer::new(&members);
        let key = Author::new(1).pubkey();
        writer.take(&[accepted(key), accepted(key)]);
        let before = members.number(&key).unwrap();
        writer.take(&[Observation::Vanished(key)]);
        assert_eq!(members.number(&key), None);
        writer.take(&[accepted(key)]);
        let after = members.number(&key).unwrap();
        assert_ne!(after, before);
        writer.write();
        assert_eq!(members.counts(before).unwrap(), []);
        assert_eq!(members.counts(after).unwrap(), [(Kind(1), 1)]);
        assert!(members.get(after).unwrap().unwrap().seen.is_some());
    }

    #[test]
    fn a_new_member_is_seen_at_once_and_one_that_was_known_with_what_is_gathered() {
        let members = members();
        let key = Author::new(1).pubkey();
        let seen = |at| members.get(at).unwrap().unwrap().seen;
        let mut writer = Writer::new(&members);
        writer.take(&[accepted(key)]);
        let member = members.number(&key).unwrap();
        assert!(seen(member).is_some());
        let of_yesterday = Sighting {
            at: 1,
            family: AddressFamily::V6,
        };
        let other = members.enrol(&Author::new(2).pubkey(), stamp()).unwrap();
        members.see(other, of_yesterday, stamp()).unwrap();
        for _ in 0..3 {
            writer.take(&[accepted(Author::new(2).pubkey())]);
        }
        assert_eq!(seen(other), Some(of_yesterday));
        assert_eq!(members.counts(other).unwrap(), []);
        writer.write();
        assert_eq!(seen(other).unwrap().family, AddressFamily::V4);
        assert_eq!(members.counts(other).unwrap(), [(Kind(1), 3)]);
    }

    #[test]
    fn who_makes_room_for_others_is_written_before() {
        let members = members();
        let known = Author::new(1).pubkey();
        let member = members.enrol(&known, stamp()).unwrap();
        let mut writer = Writer::new(&members);
        writer.take(&[accepted(known)]);
        let others = (0..KNOWN_MAX).map(|number| {
            let mut key = [7; 32];
            key[..8].copy_from_slice(&number.to_le_bytes());
            accepted(PublicKey::new(key))
        });
        let others: Vec<_> = others.collect();
        assert_eq!(members.get(member).unwrap().unwrap().seen, None);
        writer.take(&others);
        assert!(members.get(member).unwrap().unwrap().seen.is_some());
        assert!(writer.known.len() <= KNOWN_MAX);
    }

    #[test]
    fn a_vanishing_is_not_dropped_with_the_figures() {
        let members = Arc::new(members());
        let key = Author::new(1).pubkey();
        members.enrol(&key, stamp()).unwrap();
        let (batches, waiting) = mpsc::sync_channel(1);
        let recorder = Recorder {
            batches,
            vanished: Arc::default(),
            thread: Mutex::default(),
        };
        assert!(recorder.record(vec![accepted(key)]));
        assert!(!recorder.record(vec![accepted(key), Observation::Vanished(key)]));
        let vanished = Arc::clone(&recorder.vanished);
        drop(recorder);
        Writer::new(&members).run(&waiting, &vanished);
        assert_eq!(members.len(), 0);
    }
}
