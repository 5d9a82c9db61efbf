//! A strict JSON scanner that copies nothing: it walks the bytes once and hands out spans.
//!
//! It owns JSON's grammar. What the values mean is for its callers (events, filters, messages);
//! how strings are unescaped and escaped is in `escape`.

use std::fmt;

use crate::{
    escape::{self, RawString, Spelling},
    key,
};

/// How deep arrays and objects may nest in a value that is skipped. Nothing in the protocol nests
/// deeper than three; the bound keeps a hostile message from using up the stack.
const DEPTH_MAX: usize = 64;

/// What is wrong, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) problem: &'static str,
    /// Offset in bytes from the start of the scanned text.
    pub(crate) at: usize,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.problem, self.at)
    }
}

/// A position in JSON text that is valid UTF-8.
#[derive(Debug, Clone)]
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    loose: bool,
}

impl<'a> Scanner<'a> {
    /// Starts at the beginning of a text; refuses what is not UTF-8.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Fault> {
        match simdutf8::basic::from_utf8(bytes) {
            Ok(_) => Ok(Self::trusted(bytes)),
            Err(_) => Err(Fault {
                problem: "not valid UTF-8",
                at: std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len),
            }),
        }
    }

    /// Starts at the beginning of a text that is known to be UTF-8.
    pub(crate) const fn trusted(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            loose: false,
        }
    }

    /// Returns the offset of the next byte.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// Returns the bytes from an earlier offset up to here.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    /// Tells whether, since the last call, anything was passed that could have been written shorter:
    /// white space, escapes in keys and in hex.
    pub(crate) fn take_loose(&mut self) -> bool {
        std::mem::take(&mut self.loose)
    }

    /// Makes a fault at the next byte.
    #[cold]
    pub(crate) const fn fault(&self, problem: &'static str) -> Fault {
        Fault {
            problem,
            at: self.at,
        }
    }

    /// Passes white space and returns the byte after it, which stays next.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => {
                    self.loose = true;
                    self.at += 1;
                }
                other => return other.copied(),
            }
        }
    }

    /// Takes the byte if it is next after white space.
    #[inline]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Takes the byte, or says what was expected.
    #[inline]
    pub(crate) fn expect(&mut self, byte: u8, problem: &'static str) -> Result<(), Fault> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(self.fault(problem))
        }
    }

    /// Makes sure that nothing but white space follows.
    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.fault("unexpected text after the end")),
        }
    }

    /// Takes the opening of an array; returns whether it has a first element.
    #[inline]
    pub(crate) fn open_array(&mut self, problem: &'static str) -> Result<bool, Fault> {
        self.expect(b'[', problem)?;
        Ok(!self.take(b']'))
    }

    /// Takes what follows an element; returns whether there is another one.
    #[inline]
    pub(crate) fn more_elements(&mut self) -> Result<bool, Fault> {
        if self.take(b',') {
            return Ok(true);
        }
        self.expect(b']', "expected , or ]")?;
        Ok(false)
    }

    /// Takes the opening of an object; returns whether it has a first member.
    #[inline]
    pub(crate) fn open_object(&mut self, problem: &'static str) -> Result<bool, Fault> {
        self.expect(b'{', problem)?;
        Ok(!self.take(b'}'))
    }

    /// Takes a member's key and the colon.
    #[inline]
    pub(crate) fn key(&mut self) -> Result<RawString<'a>, Fault> {
        let key = self.string("expected a key in double quotes")?;
        self.loose |= key.spelling != Spelling::Plain;
        self.expect(b':', "expected :")?;
        Ok(key)
    }

    /// Takes what follows a member; returns whether there is another one.
    #[inline]
    pub(crate) fn more_members(&mut self) -> Result<bool, Fault> {
        if self.take(b',') {
            return Ok(true);
        }
        self.expect(b'}', "expected , or }")?;
        Ok(false)
    }

    /// Takes a string; the problem is for anything that does not begin like one.
    #[expect(
        clippy::inline_always,
        reason = "a tenth of parsing: no result goes through memory"
    )]
    #[inline(always)]
    pub(crate) fn string(&mut self, problem: &'static str) -> Result<RawString<'a>, Fault> {
        self.expect(b'"', problem)?;
        let start = self.at;
        let mut spelling = Spelling::Plain;
        loop {
            self.at = escape::find_special(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    let raw = self.since(start);
                    self.at += 1;
                    return Ok(RawString { raw, spelling });
                }
                Some(b'\\') => {
                    let rest = self.bytes.get(self.at..).unwrap_or_default();
                    let (length, kind) =
                        escape::escape_length(rest).map_err(|problem| self.fault(problem))?;
                    self.at += length;
                    spelling = spelling.max(kind);
                }
                Some(_) => return Err(self.fault("unescaped control character in a string")),
                None => return Err(self.fault("unterminated string")),
            }
        }
    }

    /// Takes a string of `2 * N` lower-case hex digits.
    #[inline]
    pub(crate) fn hex<const N: usize>(&mut self, problem: &'static str) -> Result<[u8; N], Fault> {
        if let Some(bytes) = self.plain_hex() {
            return Ok(bytes);
        }
        self.peek();
        let at = self.at;
        let string = self.string(problem)?;
        self.loose = true;
        key::decode_hex(&string.bytes()).ok_or(Fault { problem, at })
    }

    #[inline]
    fn plain_hex<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.peek();
        let quoted = self.bytes.get(self.at..self.at + 2 * N + 2)?;
        let [b'"', hex @ .., b'"'] = quoted else {
            return None;
        };
        let bytes = key::decode_hex(hex)?;
        self.at += quoted.len();
        Some(bytes)
    }

    /// Takes a whole number from 0 up, written in digits alone. `None` inside if it is greater than
    /// 64 bits can hold.
    #[inline]
    pub(crate) fn integer(&mut self, problem: &'static str) -> Result<Option<u64>, Fault> {
        self.peek();
        let start = self.at;
        let mut value = Some(0_u64);
        while let Some(byte @ b'0'..=b'9') = self.bytes.get(self.at) {
            value = value
                .and_then(|v| v.checked_mul(10))
                .and_then(|v| v.checked_add(u64::from(byte - b'0')));
            self.at += 1;
        }
        let leading_zero = self.at - start > 1 && self.bytes.get(start) == Some(&b'0');
        let goes_on = matches!(
            self.bytes.get(self.at),
            Some(b'.' | b'e' | b'E' | b'+' | b'-')
        );
        if self.at == start || leading_zero || goes_on {
            self.at = start;
            return Err(self.fault(problem));
        }
        Ok(value)
    }

    /// Takes a whole number like [`Scanner::integer`], of a type that may be narrower; the problem
    /// is for one that is too great as well.
    #[inline]
    pub(crate) fn narrow_integer<T: TryFrom<u64>>(
        &mut self,
        problem: &'static str,
    ) -> Result<T, Fault> {
        self.peek();
        let at = self.at;
        let value = self.integer(problem)?;
        value
            .and_then(|value| T::try_from(value).ok())
            .ok_or(Fault { problem, at })
    }

    /// Passes any JSON value.
    pub(crate) fn skip_value(&mut self) -> Result<(), Fault> {
        self.skip_nested(DEPTH_MAX)
    }

    fn skip_nested(&mut self, depth_left: usize) -> Result<(), Fault> {
        match self.peek() {
            Some(b'"') => self.string("expected a string").map(|_| ()),
            Some(b'{' | b'[') if depth_left == 0 => Err(self.fault("nested too deeply")),
            Some(b'[') => {
                let mut more = self.open_array("expected [")?;
                while more {
                    self.skip_nested(depth_left - 1)?;
                    more = self.more_elements()?;
                }
                Ok(())
            }
            Some(b'{') => {
                let mut more = self.open_object("expected {")?;
                while more {
                    self.key()?;
                    self.skip_nested(depth_left - 1)?;
                    more = self.more_members()?;
                }
                Ok(())
            }
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.fault("expected a value")),
        }
    }

    fn literal(&mut self, word: &'static [u8]) -> Result<(), Fault> {
        if self.bytes.get(self.at..self.at + word.len()) == Some(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.fault("expected a value"))
        }
    }

    fn number(&mut self) -> Result<(), Fault> {
        self.take_one_of(b"-");
        if !self.take_one_of(b"0") {
            self.digits()?;
        }
        if self.take_one_of(b".") {
            self.digits()?;
        }
        if self.take_one_of(b"eE") {
            self.take_one_of(b"+-");
            self.digits()?;
        }
        Ok(())
    }

    fn take_one_of(&mut self, accepted: &[u8]) -> bool {
        let found = self
            .bytes
            .get(self.at)
            .is_some_and(|byte| accepted.contains(byte));
        self.at += usize::from(found);
        found
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.fault("malformed number"));
        }
        Ok(())
    }
}
