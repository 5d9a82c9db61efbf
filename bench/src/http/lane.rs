//! A connection that asks for one route again and again, one request after the other.

use std::os::fd::{AsFd, BorrowedFd};

use crate::{
    error::{BenchError, Result},
    http::answer::Answer,
    load::{Address, Done, Lane, Stream},
};

/// What is asked, and what must be answered.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) request: Vec<u8>,
    pub(crate) status: u16,
    /// The body of every answer; `None` if it may differ.
    pub(crate) body: Option<Vec<u8>>,
}

impl Route {
    /// Judges an answer: right, or why it is a failure. Another body is a wrong answer.
    fn judge(&self, answer: &Answer) -> Result<Option<String>> {
        if answer.status != self.status {
            return Ok(Some(format!("status {}", answer.status)));
        }
        match &self.body {
            Some(body) if *body != answer.body => Err(BenchError::Wrong(format!(
                "another body than the first one: {} bytes where {} are right (--varying allows it)",
                answer.body.len(),
                body.len()
            ))),
            _ => Ok(None),
        }
    }
}

/// The connection.
#[derive(Debug)]
pub(crate) struct Connection<'a> {
    address: &'a Address,
    stream: Stream,
    route: &'a Route,
    asked: Option<usize>,
    /// How many requests a connection carries, and how many this one has carried.
    reconnect: Option<u32>,
    carried: u32,
    /// Of the streams before this one.
    bytes_before: (u64, u64),
}

impl<'a> Connection<'a> {
    /// Connects; a connection that has carried `reconnect` requests is replaced by another.
    pub(crate) fn open(
        address: &'a Address,
        route: &'a Route,
        reconnect: Option<u32>,
    ) -> Result<Self> {
        Ok(Self {
            address,
            stream: open(address)?,
            route,
            asked: None,
            reconnect,
            carried: 0,
            bytes_before: (0, 0),
        })
    }

    fn replace(&mut self) -> Result<()> {
        self.bytes_before = self.bytes();
        self.stream = open(self.address)?;
        self.carried = 0;
        Ok(())
    }
}

fn open(address: &Address) -> Result<Stream> {
    let stream = Stream::open(address)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

impl Lane for Connection<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn has_room(&self) -> bool {
        self.asked.is_none()
    }

    fn under_way(&self) -> usize {
        usize::from(self.asked.is_some())
    }

    fn start(&mut self, number: usize) -> Result<()> {
        if self.reconnect == Some(self.carried) {
            self.replace()?;
        }
        self.carried += 1;
        self.asked = Some(number);
        self.stream.output().extend_from_slice(&self.route.request);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.stream.flush()
    }

    fn is_blocked(&self) -> bool {
        self.stream.is_blocked()
    }

    fn read(&mut self, done: &mut Vec<Done>) -> Result<()> {
        let read = self.stream.fill();
        let parsed = Answer::parse(self.stream.unread(), self.stream.has_ended())?;
        let Some((length, answer)) = parsed else {
            return read.map(drop);
        };
        self.stream.take(length);
        let Some(number) = self.asked.take() else {
            return Err(BenchError::Wrong(
                "an answer that nobody asked for".to_owned(),
            ));
        };
        done.push(match self.route.judge(&answer)? {
            None => Done::of(number),
            Some(reason) => Done::failed(number, reason),
        });
        if answer.is_last {
            self.replace()?;
        }
        Ok(())
    }

    fn abandon(&mut self, reason: &str, done: &mut Vec<Done>) {
        done.extend(self.asked.take().map(|number| Done::failed(number, reason)));
    }

    fn bytes(&self) -> (u64, u64) {
        let (sent, received) = self.stream.bytes();
        (self.bytes_before.0 + sent, self.bytes_before.1 + received)
    }
}
