//! One connection in its steady state: what is asked in one turn of the worker's loop goes out in one
//! write, and the answers go to those who wait for them, in the order of the questions.
//!
//! One thread uses it: there is no channel, no lock and no allocation for a question. A question that
//! nobody waits for any more keeps its place, and its answer is passed over.
//!
//! Half of what a short query costs PostgreSQL is its own Sync: a transaction that ends, and an answer
//! that is sent. So the same query, asked again and again in one turn (a handler's `join_all`), is a run
//! that ends with one Sync, in one transaction that may only read: what was refused in it, or beside what
//! was refused, has changed nothing and is asked once more alone.

use std::{
    cell::RefCell,
    collections::VecDeque,
    io,
    pin::{Pin, pin},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
};

use bytes::{Buf as _, BytesMut};
use postgres_protocol::message::frontend;
use slab::Slab;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use super::{
    PostgresError,
    reply::{self, Answer},
    run::{self, Run},
};

/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;
/// Room below which a new piece is begun.
const READ_BYTES_MIN: usize = 16 * 1024;
/// What is kept of the buffers after a large statement.
pub(super) const KEPT_BYTES_MAX: usize = 256 * 1024;

/// A connection, shared by those who ask and what drives it.
pub(super) struct Connection {
    state: RefCell<State>,
    /// How many questions are in flight: by it the socket rests.
    in_flight: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    /// What is asked and not sent.
    out: BytesMut,
    unflushed: bool,
    /// What of it has no Sync yet.
    run: Option<Run>,
    questions: Questions,
    driver: Option<Waker>,
    /// The driver has been woken, and has not run since.
    woken: bool,
    /// Nobody asks any more.
    left: bool,
    /// Why it has ended.
    end: Option<String>,
}

/// The questions in flight, and the answers that are not taken yet.
#[derive(Default)]
pub(super) struct Questions {
    /// In the order in which they are answered.
    order: VecDeque<usize>,
    /// How many of them each Sync ends that is to be answered.
    runs: VecDeque<usize>,
    /// How many of the first run are answered.
    answered: usize,
    /// Which of the first run was refused.
    refused: Option<usize>,
    /// The database has not let a run begin.
    no_runs: bool,
    pub(super) slots: Slab<Slot>,
}

/// A question's place.
pub(super) struct Slot {
    /// What has come of its answer.
    pub(super) answer: Answer,
    pub(super) is_whole: bool,
    waker: Option<Waker>,
}

impl Slot {
    fn new(answer: Answer, is_whole: bool) -> Self {
        Self {
            answer,
            is_whole,
            waker: None,
        }
    }
}

impl Questions {
    /// Adds a question; returns its place.
    pub(super) fn ask(&mut self, answer: Answer) -> usize {
        let key = self.slots.insert(Slot::new(answer, false));
        self.order.push_back(key);
        key
    }

    /// Says that the last so many end with one Sync.
    pub(super) fn end_run(&mut self, questions: usize) {
        self.runs.push_back(questions);
    }

    /// Returns what is being answered, if anything is to be.
    pub(super) fn current(&mut self) -> Option<&mut Answer> {
        let last = self.runs.front()?.checked_sub(1)?;
        let key = self.order.get(self.answered.min(last))?;
        Some(&mut self.slots.get_mut(*key)?.answer)
    }

    /// What is being answered is carried out.
    pub(super) fn carried_out(&mut self) {
        self.answered += 1;
    }

    /// What is being answered is refused.
    pub(super) fn refuse(&mut self, error: PostgresError) {
        self.refused.get_or_insert(self.answered);
        if let Some(answer) = self.current()
            && !matches!(answer, Answer::Unwanted)
        {
            *answer = Answer::Failed(error);
        }
    }

    /// Ends the oldest run's answers, and adds who waits for them; false if there is none.
    pub(super) fn end_answers(&mut self, woken: &mut Vec<Waker>) -> bool {
        let Some(questions) = self.runs.pop_front() else {
            return false;
        };
        let refused = self.refused.take().filter(|_| questions > 1);
        self.no_runs |= refused == Some(0);
        self.answered = 0;
        for _ in 0..questions {
            let Some(key) = self.order.pop_front() else {
                return false;
            };
            if refused.is_some()
                && let Some(slot) = self.slots.get_mut(key)
            {
                run::undo(&mut slot.answer);
            }
            woken.extend(self.end_answer(key));
        }
        true
    }

    fn end_answer(&mut self, key: usize) -> Option<Waker> {
        let slot = self.slots.get_mut(key)?;
        if matches!(slot.answer, Answer::Unwanted) {
            self.slots.remove(key);
            return None;
        }
        slot.is_whole = true;
        slot.waker.take()
    }

    /// Fails all that is asked.
    fn fail(&mut self, end: &str) -> Vec<Waker> {
        let mut woken = Vec::new();
        while let Some(key) = self.order.pop_front() {
            if let Some(slot) = self.slots.get_mut(key)
                && !matches!(slot.answer, Answer::Unwanted | Answer::Failed(_))
            {
                slot.answer = Answer::Failed(PostgresError::Lost(end.to_owned()));
            }
            woken.extend(self.end_answer(key));
        }
        self.runs.clear();
        woken
    }
}

impl Connection {
    pub(super) fn new(in_flight: Arc<AtomicUsize>) -> Self {
        Self {
            state: RefCell::default(),
            in_flight,
        }
    }

    /// Tells whether it can be asked.
    pub(super) fn is_open(&self) -> bool {
        self.state.borrow().end.is_none()
    }

    /// Sends messages; what comes of them is gathered in `answer`. Those of the same `query` may share a
    /// transaction with others that are sent in the same turn, and all others are one of their own.
    pub(super) fn ask(
        self: &Rc<Self>,
        messages: &[u8],
        answer: Answer,
        query: Option<u64>,
    ) -> Waiting {
        let mut state = self.state.borrow_mut();
        let key = if let Some(end) = state.end.clone() {
            let answer = Answer::Failed(PostgresError::Lost(end));
            state.questions.slots.insert(Slot::new(answer, true))
        } else {
            state.wake_driver();
            state.ask(messages, answer, query)
        };
        self.in_flight.store(state.questions.order.len(), Relaxed);
        Waiting {
            connection: Rc::clone(self),
            key: Some(key),
        }
    }

    /// Says that nobody asks any more: it ends when what was asked is carried out.
    pub(super) fn leave(&self) {
        let mut state = self.state.borrow_mut();
        state.left = true;
        if state.end.is_none() {
            state.end_run();
            frontend::terminate(&mut state.out);
            state.wake_driver();
        }
    }

    /// Carries bytes to and fro until the connection ends; returns why.
    pub(super) async fn drive(
        self: Rc<Self>,
        mut wire: impl AsyncRead + AsyncWrite + Unpin,
    ) -> Result<(), String> {
        let mut inbound = BytesMut::with_capacity(READ_BYTES);
        let mut woken = Vec::new();
        let end = std::future::poll_fn(|cx| {
            // Neither waits for the other: a server that can't send does not receive.
            let written = self.write(cx, &mut wire);
            let end = self.read(cx, &mut wire, &mut inbound, &mut woken);
            // Whoever is woken may drop what asks here.
            woken.drain(..).for_each(Waker::wake);
            match (end, written) {
                // The last that the server has said tells more than that it is gone.
                (Poll::Pending, Err(error)) => Poll::Ready(error.to_string()),
                (end, _) => end,
            }
        });
        let end = end.await;
        let left = self.fail(&end);
        if left { Ok(()) } else { Err(end) }
    }

    /// Writes all that there is room for.
    fn write(&self, cx: &mut Context<'_>, wire: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        state.woken = false;
        state.end_run();
        if !state
            .driver
            .as_ref()
            .is_some_and(|driver| driver.will_wake(cx.waker()))
        {
            state.driver = Some(cx.waker().clone());
        }
        while !state.out.is_empty() {
            match Pin::new(&mut *wire).poll_write(cx, &state.out)? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                // The room of what is sent is used again, also while there is always more.
                Poll::Ready(bytes) => state.out.advance(bytes),
                Poll::Pending => return Ok(()),
            }
            state.unflushed = true;
        }
        if state.out.capacity() > KEPT_BYTES_MAX {
            state.out = BytesMut::new();
        }
        if state.unflushed {
            // What speaks TLS may hold some of it back.
            state.unflushed = Pin::new(wire).poll_flush(cx)?.is_pending();
        }
        Ok(())
    }

    /// Reads all that is there; ready with why the connection has ended.
    fn read(
        &self,
        cx: &mut Context<'_>,
        wire: &mut (impl AsyncRead + Unpin),
        inbound: &mut BytesMut,
        woken: &mut Vec<Waker>,
    ) -> Poll<String> {
        loop {
            make_room(inbound);
            match pin!(wire.read_buf(inbound)).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(error.to_string()),
                Poll::Ready(Ok(0)) => return Poll::Ready("it has hung up".to_owned()),
                Poll::Ready(Ok(_)) => {}
            }
            let mut state = self.state.borrow_mut();
            let taken = reply::take(inbound, &mut state.questions, woken);
            self.in_flight.store(state.questions.order.len(), Relaxed);
            if let Err(error) = taken {
                return Poll::Ready(error.to_string());
            }
        }
    }

    /// Fails all questions; tells whether nobody asks any more.
    fn fail(&self, end: &str) -> bool {
        let mut state = self.state.borrow_mut();
        state.end = Some(end.to_owned());
        state.out = BytesMut::new();
        state.run = None;
        let woken = state.questions.fail(end);
        self.in_flight.store(0, Relaxed);
        let left = state.left;
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        left
    }
}

/// Makes room to read. Rows share the pieces that are read; what is left of one begins the next.
fn make_room(inbound: &mut BytesMut) {
    let room = inbound.capacity() - inbound.len();
    if inbound.len() >= READ_BYTES / 2 {
        if room < READ_BYTES_MIN {
            // A long message: as much again as has come of it. What its length says alone is not
            // worth memory.
            inbound.reserve(inbound.len());
        }
    } else if !(READ_BYTES_MIN..=KEPT_BYTES_MAX).contains(&room) {
        let mut piece = BytesMut::with_capacity(READ_BYTES);
        piece.extend_from_slice(inbound);
        *inbound = piece;
    }
}

impl State {
    /// Puts messages behind what is to be sent; returns the answer's place.
    fn ask(&mut self, messages: &[u8], answer: Answer, query: Option<u64>) -> usize {
        let questions = &mut self.questions;
        let run = match self.run.take() {
            Some(run) if run.takes(query) && !questions.no_runs => {
                if run.questions > 1 {
                    run
                } else {
                    let first = questions.order.pop_back();
                    questions.ask(Answer::Unwanted);
                    questions.order.extend(first);
                    run.begin(&mut self.out)
                }
            }
            other => {
                self.run = other;
                self.end_run();
                Run::new(query, self.out.len())
            }
        };
        self.run = Some(run.and_one_more());
        self.out.extend_from_slice(messages);
        self.questions.ask(answer)
    }

    fn end_run(&mut self) {
        if let Some(run) = self.run.take() {
            frontend::sync(&mut self.out);
            self.questions.end_run(run.questions);
        }
    }

    fn wake_driver(&mut self) {
        if !std::mem::replace(&mut self.woken, true)
            && let Some(driver) = &self.driver
        {
            driver.wake_by_ref();
        }
    }
}

/// Waits for an answer. Dropped, it passes over it.
pub(super) struct Waiting {
    connection: Rc<Connection>,
    /// None once the answer is taken.
    key: Option<usize>,
}

impl Future for Waiting {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let this = &mut *self;
        let mut state = this.connection.state.borrow_mut();
        let slots = &mut state.questions.slots;
        let Some((key, slot)) = this.key.and_then(|key| Some((key, slots.get_mut(key)?))) else {
            return Poll::Ready(Answer::Unwanted);
        };
        if slot.is_whole {
            this.key = None;
            return Poll::Ready(slots.remove(key).answer);
        }
        let before = match &slot.waker {
            Some(waker) if waker.will_wake(cx.waker()) => None,
            _ => slot.waker.replace(cx.waker().clone()),
        };
        // What is dropped with it may ask here.
        drop(state);
        drop(before);
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut state = self.connection.state.borrow_mut();
        let slots = &mut state.questions.slots;
        let Some(slot) = slots.get_mut(key) else {
            return;
        };
        let (answer, waker) = if slot.is_whole {
            let slot = slots.remove(key);
            (slot.answer, slot.waker)
        } else {
            let answer = std::mem::replace(&mut slot.answer, Answer::Unwanted);
            (answer, slot.waker.take())
        };
        drop(state);
        drop((answer, waker));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, future::join_all};
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// Gives each Sync that comes an answer, the number of the question; ends with a goodbye.
    async fn answer(mut far: DuplexStream) -> usize {
        let (mut header, mut number) = ([0; 5], 0_usize);
        while far.read_exact(&mut header).await.is_ok() {
            let [tag, a, b, c, d] = header;
            let mut body = vec![0; u32::from_be_bytes([a, b, c, d]) as usize - 4];
            far.read_exact(&mut body).await.unwrap();
            if tag == b'X' {
                break;
            }
            if tag == b'S' {
                let changed = format!("UPDATE {number}\0");
                number += 1;
                let length = u32::try_from(changed.len() + 4).unwrap().to_be_bytes();
                let done = [b"C", &length[..], changed.as_bytes(), b"Z\0\0\0\x05I"].concat();
                far.write_all(&done).await.unwrap();
            }
        }
        number
    }

    fn message(of_bytes: usize) -> BytesMut {
        let mut messages = BytesMut::new();
        frontend::parse("", &"x".repeat(of_bytes), None, &mut messages).unwrap();
        messages
    }

    fn changed(answer: &Answer) -> Option<u64> {
        match answer {
            Answer::Changed(changed) => Some(*changed),
            _ => None,
        }
    }

    #[tokio::test]
    async fn answers_go_to_those_who_still_wait_in_their_order() {
        let (near, far) = duplex(64);
        let connection = Rc::new(Connection::new(Arc::default()));
        let ask = || connection.ask(&message(10), Answer::Changed(0), None);
        let never_polled = ask();
        let mut polled: Vec<_> = (0..20).map(|_| ask()).collect();
        for waiting in &mut polled {
            assert!(waiting.now_or_never().is_none());
        }
        drop(never_polled);
        // Every other one of those who wait goes.
        let mut number = 0;
        polled.retain(|_| {
            number += 1;
            number % 2 == 0
        });
        let driven = Rc::clone(&connection).drive(near);
        let asked = async {
            let answers = join_all(polled).await;
            let numbers: Vec<_> = answers.iter().filter_map(changed).collect();
            assert_eq!(numbers, (1..=10).map(|n| n * 2).collect::<Vec<_>>());
            // One whose answer has come, and is not taken.
            let (first, mut second) = (ask(), ask());
            assert_eq!(changed(&(&mut second).await), Some(22));
            drop(first);
            connection.leave();
        };
        let (end, (), number) = tokio::join!(driven, asked, answer(far));
        assert_eq!((end, number), (Ok(()), 23));
        assert!(connection.state.borrow().questions.slots.is_empty());
        assert!(!connection.is_open());
        let after = ask().await;
        assert!(matches!(after, Answer::Failed(PostgresError::Lost(_))));
    }

    /// What a connection would send now: Parse, Bind, Execute and Sync by their letters.
    fn sent(connection: &Connection) -> String {
        let mut state = connection.state.borrow_mut();
        state.end_run();
        let (mut out, mut letters) = (state.out.split(), String::new());
        while let &[letter, a, b, c, d, ..] = &out[..] {
            letters.push(char::from(letter));
            out.advance(1 + u32::from_be_bytes([a, b, c, d]) as usize);
        }
        letters
    }

    /// Gives a connection what a server says; a statement is carried out (C), refused for a reason of
    /// its own (E) or of the transaction's (T), or all are ended (Z).
    fn hears(connection: &Connection, letters: &str) {
        let mut inbound = BytesMut::new();
        for letter in letters.chars() {
            inbound.extend_from_slice(match letter {
                'C' => b"C\0\0\0\x0dSELECT 1\0",
                'E' => b"E\0\0\0\x13SERROR\0C22012\0\0",
                'T' => b"E\0\0\0\x13SERROR\0C25006\0\0",
                _ => b"Z\0\0\0\x05I",
            });
        }
        let questions = &mut connection.state.borrow_mut().questions;
        reply::take(&mut inbound, questions, &mut Vec::new()).unwrap();
        assert_eq!(inbound.len(), 0);
    }

    fn came_of(asked: impl IntoIterator<Item = Waiting>) -> String {
        let answers = asked.into_iter().map(FutureExt::now_or_never);
        let letter = |answer| match answer {
            Some(Answer::Rows(..)) => 'C',
            Some(Answer::Failed(PostgresError::Database(_))) => 'E',
            Some(Answer::Undone { must_be_alone }) => {
                if must_be_alone {
                    'T'
                } else {
                    'U'
                }
            }
            None => '-',
            Some(_) => '?',
        };
        answers.map(letter).collect()
    }

    #[test]
    fn the_same_query_is_asked_in_runs() {
        let connection = Rc::new(Connection::new(Arc::default()));
        let ask = |query| {
            let rows = Answer::Rows(Vec::new(), Vec::new().into());
            connection.ask(&message(10), rows, query)
        };
        let asked = [Some(1), Some(1), Some(1), Some(2), None, None, Some(2)].map(ask);
        // What makes a run read only comes before it.
        assert_eq!(sent(&connection), "BEPPPSPSPSPSPS");
        hears(&connection, "CCCC");
        let [first, rest @ ..] = asked;
        assert_eq!(came_of([first]), "-");
        hears(&connection, "ZEZCZTZC");
        // One that is alone is refused for good, whatever the reason.
        assert_eq!(came_of(rest), "CCECE-");
        hears(&connection, "Z");

        let asked: Vec<_> = (0..200).map(|_| ask(Some(1))).collect();
        let run = format!("BE{}S", "P".repeat(63));
        assert_eq!(
            sent(&connection),
            format!("{}BE{}S", run.repeat(3), "P".repeat(11))
        );
        hears(&connection, &format!("{}Z", "C".repeat(64)).repeat(3));
        hears(&connection, &format!("{}Z", "C".repeat(12)));
        assert_eq!(came_of(asked), "C".repeat(200));
        assert!(connection.state.borrow().questions.slots.is_empty());
    }

    #[test]
    fn what_is_refused_in_a_run_undoes_what_is_beside_it() {
        let connection = Rc::new(Connection::new(Arc::default()));
        let ask = |_| {
            let rows = Answer::Rows(Vec::new(), Vec::new().into());
            connection.ask(&message(10), rows, Some(1))
        };
        for (said, came) in [
            ("CCCCZ", "CCC"),
            ("CCEZ", "UEU"),
            ("CCTZ", "UTU"),
            // At the end of the transaction.
            ("CCCCTZ", "UUT"),
            ("CCCCEZ", "UUE"),
        ] {
            let asked = [0; 3].map(ask);
            assert_eq!(sent(&connection), "BEPPPS");
            hears(&connection, said);
            assert_eq!(came_of(asked), came, "{said}");
        }
        let [gone, asked @ ..] = [0; 3].map(ask);
        drop(gone);
        assert_eq!(sent(&connection), "BEPPPS");
        hears(&connection, "CEZ");
        assert_eq!(came_of(asked), "UU");

        // Where no run can be begun, none is tried again.
        let asked = [0; 3].map(ask);
        sent(&connection);
        hears(&connection, "EZ");
        assert_eq!(came_of(asked), "UUU");
        let asked = [0; 3].map(ask);
        assert_eq!(sent(&connection), "PSPSPS");
        hears(&connection, "CZCZCZ");
        assert_eq!(came_of(asked), "CCC");
    }

    #[tokio::test]
    async fn who_writes_much_reads_meanwhile() {
        // Neither side has room for what the other wants to say.
        let (near, far) = duplex(64);
        let connection = Rc::new(Connection::new(Arc::default()));
        let asked: Vec<_> = (0..200)
            .map(|_| connection.ask(&message(1_000), Answer::Changed(0), None))
            .collect();
        let driven = Rc::clone(&connection).drive(near);
        let asked = async {
            let answers = join_all(asked).await;
            connection.leave();
            answers.iter().filter_map(changed).sum::<u64>()
        };
        let (end, sum, number) = tokio::join!(driven, asked, answer(far));
        assert_eq!((end, sum, number), (Ok(()), 199 * 100, 200));
    }

    #[tokio::test]
    async fn a_connection_that_ends_fails_what_is_in_flight() {
        let (near, mut far) = duplex(64);
        let connection = Rc::new(Connection::new(Arc::default()));
        let asked = [1, 2].map(|_| connection.ask(&message(1), Answer::Changed(0), None));
        far.write_all(b"E\0\0\0\x1aSFATAL\0C57P01\0Mgoing\0\0")
            .await
            .unwrap();
        drop(far);
        let end = Rc::clone(&connection).drive(near).await.unwrap_err();
        for answer in join_all(asked).await {
            let Answer::Failed(error @ PostgresError::Lost(_)) = answer else {
                panic!("answered");
            };
            assert!(error.to_string().ends_with(&end), "{error}");
        }
    }

    #[test]
    fn pieces_grow_with_what_has_come_and_shrink_again() {
        let mut inbound = BytesMut::new();
        make_room(&mut inbound);
        assert!((READ_BYTES..2 * READ_BYTES).contains(&inbound.capacity()));
        for _ in 0..100 {
            inbound.extend_from_slice(&[0; 10_000]);
            make_room(&mut inbound);
        }
        let room = inbound.capacity() - inbound.len();
        assert!(
            (READ_BYTES_MIN..=2 * inbound.len()).contains(&room),
            "{room}"
        );
        inbound.clear();
        make_room(&mut inbound);
        assert!(inbound.capacity() < 2 * READ_BYTES);
    }
}
