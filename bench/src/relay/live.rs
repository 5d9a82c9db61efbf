//! Who must be told what: the deliveries that are owed, and the connections that listen for them.

use std::{
    cell::Cell,
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd},
};

use crate::{
    corpus::{Bytes32, Signed},
    error::{BenchError, Result},
    load::{Address, Done, Lane},
    relay::{reply::Reply, websocket::WebSocket},
};

/// Deliveries: each event goes to everyone who listens to its group, once, and to nobody else.
#[derive(Debug)]
pub(crate) struct Live {
    numbers: HashMap<Bytes32, usize>,
    groups: usize,
    /// How many listen to each group; nobody to the last.
    listeners: Vec<usize>,
    owed: Cell<usize>,
}

impl Live {
    /// Events are of the groups in turns; so many listen, to all groups but the last in turns.
    pub(crate) fn new(events: &[Signed], groups: usize, listeners: usize) -> Self {
        let heard = groups.saturating_sub(1).max(1);
        Self {
            numbers: events
                .iter()
                .enumerate()
                .map(|(number, event)| (event.id, number))
                .collect(),
            groups,
            listeners: (0..groups)
                .map(|group| (0..listeners).filter(|it| it % heard == group).count())
                .collect(),
            owed: Cell::new(0),
        }
    }

    /// An event is on its way to the relay.
    pub(crate) fn expect(&self, number: usize) {
        self.owed.set(self.owed.get() + self.listeners_of(number));
    }

    /// An event was refused: nobody gets it.
    pub(crate) fn cancel(&self, number: usize) {
        self.owed
            .set(self.owed.get().saturating_sub(self.listeners_of(number)));
    }

    /// How many deliveries have not come.
    pub(crate) fn owed(&self) -> usize {
        self.owed.get()
    }

    fn listeners_of(&self, number: usize) -> usize {
        let group = number % self.groups.max(1);
        self.listeners.get(group).copied().unwrap_or(0)
    }
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
    ) -> Result<Self> {
        let mut socket = WebSocket::open(relay)?;
        socket.send(&format!(
            "[\"REQ\",\"live\",{{\"#t\":[\"{hashtag}\"],\"limit\":0}}]"
        ))?;
        loop {
            match Reply::parse(socket.receive()?)? {
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
            group: place % live.groups.saturating_sub(1).max(1),
            class,
            seen: vec![0; live.numbers.len().div_ceil(64)],
            is_first: place == 0,
        })
    }

    fn deliver(&mut self, id: &Bytes32) -> Result<Done> {
        let wrong = |what: &str| {
            let id = faster_hex::hex_string(id);
            BenchError::Wrong(format!("event {id} {what}"))
        };
        let Some(number) = self.live.numbers.get(id).copied() else {
            return Err(wrong("was delivered, and nobody had published it"));
        };
        if number % self.live.groups.max(1) != self.group {
            return Err(wrong(
                "was delivered to a subscription that it does not match",
            ));
        }
        let bit = 1 << (number % 64);
        match self.seen.get_mut(number / 64) {
            Some(bits) if *bits & bit == 0 => *bits |= bit,
            _ => return Err(wrong("was delivered twice")),
        }
        self.live.owed.set(self.live.owed.get().saturating_sub(1));
        Ok(Done {
            class: Some(self.class),
            ..Done::of(number)
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
