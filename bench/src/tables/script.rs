//! Requests made before the clock runs, with the answers that are right: a client that only sends
//! and compares needs little of the machine it shares with the server.

use crate::tables::{
    record::{self, Lists, Records},
    speech::{Speech, putnr, quiet_set},
};

/// A script is played again from its beginning when it is over; this much is made, at most.
const SCRIPT_BYTES: usize = 8 << 20;

/// A server, and what it must hold.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) speech: Speech,
    pub(crate) records: Records,
    pub(crate) lists: Lists,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Get,
    Set,
    /// memcached's `set` with `noreply`.
    QuietSet,
    /// Tokyo Tyrant's `putnr`.
    Putnr,
    Rotate,
}

/// What goes together in one send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    Requests(usize),
    Bytes(usize),
}

/// The requests of one connection.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) ask: Ask,
    requests: Vec<u8>,
    answers: Vec<u8>,
    sends: Vec<Send>,
    /// The key and the version that each request writes.
    writes: Vec<(u32, u32)>,
}

/// One send, and the answers to it: where they end.
#[derive(Debug, Clone, Copy)]
struct Send {
    requests_end: usize,
    answers_end: usize,
    count: usize,
}

impl Script {
    /// Makes the requests for these keys.
    pub(crate) fn new(ask: Ask, keys: &[u32], packing: Packing, held: &Held) -> Self {
        let protocol = held.speech.protocol;
        let lists = held.lists.prefix.as_str();
        let mut script = Self {
            ask,
            requests: Vec::new(),
            answers: Vec::new(),
            sends: Vec::new(),
            writes: Vec::new(),
        };
        let (mut value, mut begin, mut count) = (Vec::new(), 0, 0);
        for &key in keys {
            value.clear();
            let requests = &mut script.requests;
            if ask == Ask::Get {
                // Nobody knows what a record holds whose write has failed.
                let Some(version) = held.records.version(key) else {
                    continue;
                };
                held.records.value(key, version, &mut value);
                protocol.get(key, requests);
                protocol.found(key, &value, &mut script.answers);
            } else {
                let version = held.records.next();
                match ask {
                    Ask::Rotate => {
                        let entry = record::entry(key, version);
                        protocol.rotate(lists, key, &entry, requests);
                        protocol.rotated(record::ENTRIES, &mut script.answers);
                    }
                    _ => held.records.value(key, version, &mut value),
                }
                match ask {
                    Ask::Set => {
                        protocol.set(key, &value, requests);
                        script.answers.extend_from_slice(protocol.stored());
                    }
                    Ask::QuietSet => quiet_set(key, &value, requests),
                    Ask::Putnr => putnr(key, &value, requests),
                    Ask::Get | Ask::Rotate => {}
                }
                script.writes.push((key, version));
            }
            count += 1;
            let is_full = match packing {
                Packing::Requests(most) => count == most,
                Packing::Bytes(most) => script.requests.len() - begin >= most,
            };
            if is_full {
                script.end_send(count);
                (begin, count) = (script.requests.len(), 0);
                if script.requests.len() + script.answers.len() >= SCRIPT_BYTES {
                    break;
                }
            }
        }
        if count > 0 {
            script.end_send(count);
        }
        script
    }

    fn end_send(&mut self, count: usize) {
        self.sends.push(Send {
            requests_end: self.requests.len(),
            answers_end: self.answers.len(),
            count,
        });
    }

    /// How many sends there are before it begins again.
    pub(crate) fn len(&self) -> usize {
        self.sends.len()
    }

    /// Returns what a send consists of, what must be answered, and how many requests that are.
    pub(crate) fn send(&self, place: usize) -> (&[u8], &[u8], usize) {
        let Some(send) = self.sends.get(place) else {
            return (&[], &[], 0);
        };
        let before = place
            .checked_sub(1)
            .and_then(|before| self.sends.get(before));
        let (requests, answers) =
            before.map_or((0, 0), |before| (before.requests_end, before.answers_end));
        (
            self.requests
                .get(requests..send.requests_end)
                .unwrap_or_default(),
            self.answers
                .get(answers..send.answers_end)
                .unwrap_or_default(),
            send.count,
        )
    }

    /// The server has carried out so many requests: that is what it must hold now.
    pub(crate) fn carried_out(&self, count: usize, held: &Held) {
        if self.ask == Ask::Rotate {
            for (key, version) in self.writes.iter().cycle().take(count) {
                held.lists.rotate(*key, *version);
            }
            return;
        }
        // What was written before the last time through is overwritten.
        let length = self.writes.len().max(1);
        let last = count.min(length);
        let writes = self.writes.iter().cycle().skip((count - last) % length);
        for (key, version) in writes.take(last) {
            held.records.hold(*key, *version);
        }
    }

    /// Returns the keys of so many requests, no more than `most`, evenly chosen.
    pub(crate) fn sample(&self, count: usize, most: usize) -> Vec<u32> {
        let written = count.min(self.writes.len());
        let step = (written / most.max(1)).max(1);
        let writes = self.writes.iter().take(written).step_by(step).take(most);
        writes.map(|(key, _)| *key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::speech::Protocol;

    fn held() -> Held {
        Held {
            speech: Speech {
                protocol: Protocol::Memcached,
                has_tyrant: true,
                rotates: true,
            },
            records: Records::new(4, &[8]),
            lists: Lists::new("list:", 4),
        }
    }

    #[test]
    fn sends_are_packed_and_answered_each() {
        let held = held();
        let script = Script::new(Ask::Set, &[0, 1, 2], Packing::Requests(2), &held);
        assert_eq!(script.len(), 2);
        let (requests, answers, count) = script.send(0);
        assert!(requests.starts_with(b"set 10000000 0 0 8\r\n"));
        assert_eq!((answers, count), (&b"STORED\r\nSTORED\r\n"[..], 2));
        let (requests, answers, count) = script.send(1);
        assert!(requests.starts_with(b"set 10000002 0 0 8\r\n"));
        assert_eq!((answers, count), (&b"STORED\r\n"[..], 1));
        let quiet = Script::new(Ask::Putnr, &[0, 1, 2], Packing::Bytes(30), &held);
        assert_eq!(quiet.send(0).0.len(), 2 * 26);
        assert_eq!(quiet.send(0).1, b"");
    }

    #[test]
    fn a_record_holds_what_was_last_carried_out() {
        let held = held();
        let script = Script::new(Ask::Set, &[0, 1, 0], Packing::Requests(1), &held);
        let versions: Vec<_> = script.writes.iter().map(|(_, version)| *version).collect();
        let held_after = |count| {
            script.carried_out(count, &held);
            (held.records.version(0), held.records.version(1))
        };
        assert_eq!(held_after(1), (Some(versions[0]), Some(0)));
        assert_eq!(held_after(3), (Some(versions[2]), Some(versions[1])));
        // Through, and once more from the beginning.
        assert_eq!(held_after(4), (Some(versions[0]), Some(versions[1])));
    }
}
