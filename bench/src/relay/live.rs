//! Who must be told what: the deliveries that are owed, and the connections that listen for them.

use std::{
    cell::Cell,
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd},
};

use crate::{
    corpus::Bytes32,
    error::{BenchError, Result},
    load::{Address, Done, Lane, Patience},
    relay::{reply::Reply, websocket::WebSocket},
};

/// An event that listeners wait for.
#[derive(Debug)]
struct Expected {
    /// The operation that publishes it.
    number: usize,
    group: usize,
    /// Its place among the expected.
    place: usize,
    /// How many deliveries have not come.
    owed: Cell<usize>,
}

/// Deliveries: each event goes to everyone who listens to its group, once, and to nobody else.
#[derive(Debug)]
pub(crate) struct Live {
    events: HashMap<Bytes32, Expected>,
    groups: usize,
    /// How many listen to each group; nobody to the last.
    listeners: Vec<usize>,
    owed: Cell<usize>,
}

impl Live {
    /// Events, each with the operation that publishes it, are of the groups in turns; so many listen,
    /// to all groups but the last in turns.
    pub(crate) fn new(
        events: impl Iterator<Item = (usize, Bytes32)>,
        groups: usize,
        listeners: usize,
    ) -> Self {
        let expected = |(place, (number, id))| {
            let event = Expected {
                number,
                group: place % groups.max(1),
                place,
                owed: Cell::new(0),
            };
            (id, event)
        };
        Self {
            events: events.enumerate().map(expected).collect(),
            groups,
            listeners: (0..groups)
                .map(|group| {
                    (0..listeners)
                        .filter(|it| it % heard(groups) == group)
                        .count()
                })
                .collect(),
            owed: Cell::new(0),
        }
    }

    /// An event is on its way to the relay. One that nobody waits for is no concern of this.
    pub(crate) fn expect(&self, id: &Bytes32) {
        if let Some(event) = self.events.get(id) {
            let count = self.listeners.get(event.group).copied().unwrap_or(0);
            event.owed.set(count);
            self.owed.set(self.owed.get() + count);
        }
    }

    /// An event was refused, or nobody knows whether it was: whoever has not got it need not get it.
    pub(crate) fn cancel(&self, id: &Bytes32) {
        if let Some(event) = self.events.get(id) {
            self.owed
                .set(self.owed.get().saturating_sub(event.owed.take()));
        }
    }

    /// How many deliveries have not come.
    pub(crate) fn owed(&self) -> usize {
        self.owed.get()
    }

    fn delivered(&self, event: &Expected) {
        if let Some(left) = event.owed.get().checked_sub(1) {
            event.owed.set(left);
            self.owed.set(self.owed.get().saturating_sub(1));
        }
    }
}

/// How many of the groups are listened to.
pub(crate) fn heard(groups: usize) -> usize {
    groups.saturating_sub(1).max(1)
}

/// A connection with one live subscription.
#[derive(Debug)]
pub(crate) struct Listener<'a> {
    socket: WebSocket,
    live: &'a Live,
    group: usize,
    class: usize,
    /// A bit for each event that came.
    seen: Vec<u64>,
    /// One of them stands for all when what is under way is counted.
    is_first: bool,
}

impl<'a> Listener<'a> {
    /// Subscribes to a hashtag, and waits until the relay listens. Deliveries are counted as `class`.
    pub(crate) fn open(
        relay: &Address,
        live: &'a Live,
        place: usize,
        hashtag: &str,
        class: usize,
        patience: Patience<'_>,
    ) -> Result<Self> {
        let mut socket = WebSocket::open(relay, patience)?;
        let listen = format!("[\"REQ\",\"live\",{{\"#t\":[\"{hashtag}\"],\"limit\":0}}]");
        socket.send(&listen, patience)?;
        loop {
            match Reply::parse(socket.receive(patience)?)? {
                Reply::EndOfStored { .. } => break,
                Reply::Closed { reason, .. } => {
                    return Err(BenchError::Server(format!(
                        "refused a subscription: {reason}"
                    )));
                }
                _ => {}
            }
        }
        socket.stream().set_nonblocking(true)?;
        Ok(Self {
            socket,
            live,
            group: place % heard(live.groups),
            class,
            seen: vec![0; live.events.len().div_ceil(64)],
            is_first: place == 0,
        })
    }

    fn deliver(&mut self, id: &Bytes32) -> Result<Done> {
        let wrong = |what: &str| {
            let id = faster_hex::hex_string(id);
            BenchError::Wrong(format!("event {id} {what}"))
        };
        let Some(event) = self.live.events.get(id) else {
            return Err(wrong("was delivered, and nobody had published it"));
        };
        if event.group != self.group {
            return Err(wrong(
                "was delivered to a subscription that it does not match",
            ));
        }
        let bit = 1 << (event.place % 64);
        match self.seen.get_mut(event.place / 64) {
            Some(bits) if *bits & bit == 0 => *bits |= bit,
            _ => return Err(wrong("was delivered twice")),
        }
        self.live.delivered(event);
        Ok(Done {
            class: Some(self.class),
            ..Done::of(event.number)
        })
    }
}

impl Lane for Listener<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_stream().as_fd()
    }

    fn has_room(&self) -> bool {
        false
    }

    fn under_way(&self) -> usize {
        if self.is_first { self.live.owed() } else { 0 }
    }

    fn start(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.socket.stream().flush()
    }

    fn is_blocked(&self) -> bool {
        self.socket.as_stream().is_blocked()
    }

    fn read(&mut self, done: &mut Vec<Done>) -> Result<()> {
        self.socket.stream().fill()?;
        loop {
            let Some(message) = self.socket.received()? else {
                return Ok(());
            };
            match Reply::parse(message)? {
                Reply::Event { id, .. } => done.push(self.deliver(&id)?),
                Reply::Closed { reason, .. } => {
                    return Err(BenchError::Wrong(format!(
                        "a live subscription was ended: {reason}"
                    )));
                }
                _ => {}
            }
        }
    }

    fn abandon(&mut self, _: &str, _: &mut Vec<Done>) {}

    fn bytes(&self) -> (u64, u64) {
        self.socket.as_stream().bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_is_what_was_expected_and_has_not_come() {
        let ids = [[1; 32], [2; 32], [3; 32]];
        let operations = ids.iter().enumerate().map(|(place, id)| (place * 10, *id));
        // Three groups, of which two are heard: by three and by two of five.
        let live = Live::new(operations, 3, 5);
        for id in &ids {
            live.expect(id);
        }
        assert_eq!(live.owed(), 3 + 2, "nobody hears the third group");
        live.delivered(&live.events[&ids[0]]);
        assert_eq!(live.owed(), 4);
        // Its answer never came: what has come of it is not taken off twice.
        live.cancel(&ids[0]);
        assert_eq!(live.owed(), 2);
        live.delivered(&live.events[&ids[0]]);
        live.expect(&[9; 32]);
        assert_eq!(live.owed(), 2);
    }
}
