//! One piece of a text, as it stands in a notification: `node number piece pieces text`.

/// Bytes of text in one piece. PostgreSQL takes notifications of less than 8,000 bytes.
const BYTES_MAX: usize = 7_800;

/// One piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_field_names,
    reason = "a piece has a number among pieces"
)]
pub(super) struct Piece<'a> {
    /// Who tells.
    pub(super) node: &'a str,
    /// Which of its texts, from 1.
    pub(super) number: u64,
    /// Which piece of it, from 1, and of how many.
    pub(super) piece: usize,
    pub(super) pieces: usize,
    pub(super) text: &'a str,
}

impl<'a> Piece<'a> {
    pub(super) fn parse(payload: &'a str) -> Option<Self> {
        let mut parts = payload.splitn(5, ' ');
        Some(Self {
            node: parts.next()?,
            number: parts.next()?.parse().ok()?,
            piece: parts.next()?.parse().ok()?,
            pieces: parts.next()?.parse().ok()?,
            text: parts.next()?,
        })
    }
}

/// Cuts a text into notifications.
pub(super) fn cut(node: &str, number: u64, text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let (head, tail) = rest.split_at(rest.floor_char_boundary(BYTES_MAX));
        pieces.push(head);
        rest = tail;
        if rest.is_empty() {
            break;
        }
    }
    let count = pieces.len();
    (1..)
        .zip(pieces)
        .map(|(piece, text)| format!("{node} {number} {piece} {count} {text}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_fits_and_can_be_put_together() {
        for text in ["", "x", &"é日".repeat(9_000)] {
            let payloads = cut("n0de", 7, text);
            let mut whole = String::new();
            for (at, payload) in payloads.iter().enumerate() {
                assert!(payload.len() < 8_000);
                let piece = Piece::parse(payload).unwrap();
                assert_eq!((piece.node, piece.number), ("n0de", 7));
                assert_eq!((piece.piece, piece.pieces), (at + 1, payloads.len()));
                whole.push_str(piece.text);
            }
            assert_eq!(whole, text);
        }
    }
}
