//! What other nodes tell: pieces put together, and each text once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_channel::mpsc::{UnboundedSender, unbounded};
use hikyaku_store::Tidings;

use super::piece::Piece;

/// Nodes whose numbers are remembered. More have hardly been there within the time in which one of
/// them says something twice.
const NODES_MAX: usize = 1_000;
/// Pieces of one text: as many as the longest text of a [`super::Speaker`] has.
const PIECES_MAX: usize = 4_096;

/// What this node hears, and who of it wants to.
#[derive(Default)]
pub(crate) struct Heard(Mutex<State>);

#[derive(Default)]
struct State {
    nodes: HashMap<String, Sender>,
    listeners: Vec<UnboundedSender<Arc<str>>>,
    closed: bool,
}

/// One other node.
#[derive(Default)]
struct Sender {
    /// The last text that was whole.
    last: u64,
    /// The number of the text that `pieces` of are here.
    number: u64,
    pieces: usize,
    text: String,
}

impl Heard {
    pub(crate) fn subscribe(&self) -> Tidings {
        let (sender, receiver) = unbounded();
        let mut state = self.state();
        if !state.closed {
            state.listeners.push(sender);
        }
        Box::pin(receiver)
    }

    /// Ends every subscription.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.listeners.clear();
    }

    /// Takes a notification. What this node itself has said is not for it.
    pub(crate) fn take(&self, own: &str, payload: &str) {
        let Some(piece) = Piece::parse(payload).filter(|piece| piece.node != own) else {
            return;
        };
        let mut state = self.state();
        let Some(text) = state.put_together(piece) else {
            return;
        };
        let text: Arc<str> = text.into();
        state
            .listeners
            .retain(|listener| listener.unbounded_send(Arc::clone(&text)).is_ok());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the text that a piece completes.
    fn put_together(&mut self, piece: Piece<'_>) -> Option<String> {
        if self.nodes.len() >= NODES_MAX && !self.nodes.contains_key(piece.node) {
            self.nodes.clear();
        }
        let sender = self.nodes.entry(piece.node.to_owned()).or_default();
        if piece.number <= sender.last {
            return None;
        }
        if piece.piece == 1 {
            (sender.number, sender.pieces) = (piece.number, 0);
            sender.text.clear();
        }
        // A text whose beginning this node has missed is lost to it.
        if (sender.number, sender.pieces + 1) != (piece.number, piece.piece)
            || piece.piece > PIECES_MAX
        {
            return None;
        }
        sender.pieces = piece.piece;
        sender.text.push_str(piece.text);
        if piece.piece < piece.pieces {
            return None;
        }
        sender.last = piece.number;
        Some(std::mem::take(&mut sender.text))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt};

    use super::{super::piece::cut, *};

    #[test]
    fn what_is_said_twice_is_heard_once_and_a_piece_alone_never() {
        let heard = Heard::default();
        let mut tidings = heard.subscribe();
        let mut next = || tidings.next().now_or_never().flatten();
        let long = "x".repeat(20_000);
        let say = |node: &str, number, text: &str| {
            for payload in cut(node, number, text) {
                heard.take("me", &payload);
            }
        };
        say("me", 1, "mine");
        assert_eq!(next(), None);
        say("a", 1, &long);
        say("a", 1, &long);
        assert_eq!(next().as_deref(), Some(&*long));
        assert_eq!(next(), None);
        // Cut off between two pieces, and told from the beginning again.
        heard.take("me", &cut("a", 2, &long)[0]);
        heard.take("me", &cut("a", 2, &long)[2]);
        assert_eq!(next(), None);
        say("a", 2, &long);
        assert_eq!(next().as_deref(), Some(&*long));
        // Another node's numbers are its own.
        say("b", 1, "hi");
        assert_eq!(next().as_deref(), Some("hi"));
        heard.take("me", &cut("c", 9, &long)[1]);
        assert_eq!(next(), None);
        heard.close();
        assert_eq!(tidings.next().now_or_never(), Some(None));
    }
}
