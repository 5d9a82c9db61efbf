//! One record's change: what is asked, what came of it, and what it did.

/// When an update happens and where it came from. Both are told by the caller: tables have no clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Microseconds since 1970.
    pub at_us: u64,
    /// The server that first made the update (0: this one has no number). It travels with the update
    /// through every log, so that a pair of servers that follow each other does not loop.
    pub origin: u32,
}

impl Stamp {
    /// Returns the time in whole seconds, as expiries count.
    pub const fn seconds(self) -> u64 {
        self.at_us / 1_000_000
    }
}

/// What stands beside a value, in the kinds that have room for it (all but fixed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// The client's own 32 bits.
    pub flags: u32,
    /// Unix seconds from which on the record is absent; 0 is never.
    pub expires_at: u64,
}

/// What must be true of the record as it stands, or nothing is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition<'a> {
    /// Nothing.
    #[default]
    Any,
    /// There is none.
    Absent,
    /// There is one.
    Present,
    /// There is one, and its [unique number](crate::Found::unique) is this.
    Unique(u64),
    /// There is one, and its value is this.
    Value(&'a [u8]),
}

/// The size of a binary integer in a value; little-endian, two's complement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntegerWidth {
    /// 32 bits, as Tokyo Cabinet's `addint` has it.
    Four,
    /// 64 bits.
    Eight,
}

/// What to do with a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change<'a> {
    /// The value becomes this, and the attributes become the update's.
    Put(&'a [u8]),
    /// These bytes go behind the value; alone, they make a record.
    Append(&'a [u8]),
    /// These bytes go before the value; alone, they make a record.
    Prepend(&'a [u8]),
    /// Append, then cut from the front so that at most `size` bytes remain (`None`: the table's
    /// width). `ABCDEFGH` and `IJK` at 8 make `DEFGHIJK`; of an entry that is longer than the size
    /// its last bytes remain.
    Rotate {
        /// The bytes to append.
        bytes: &'a [u8],
        /// Bytes that remain at most.
        size: Option<usize>,
    },
    /// Append one entry of fixed length, and cut whole entries from the front so that at most `size`
    /// bytes remain. The value is a sequence of entries as long as this one, oldest first.
    RotateEntry {
        /// The entry to append.
        entry: &'a [u8],
        /// Bytes that remain at most (`None`: the table's width).
        size: Option<usize>,
        /// How many leading bytes say what an entry is about: an older entry with the same ones is
        /// removed first. 0: entries may repeat.
        identity: usize,
        /// Entries whose bytes behind the identity are below these (big-endian numbers compare
        /// so) are dropped. Empty: none.
        not_before: &'a [u8],
    },
    /// Adds to a binary integer; a missing record counts as 0.
    AddInteger {
        /// What to add.
        by: i64,
        /// The size of the value.
        width: IntegerWidth,
    },
    /// Adds to a binary double (little-endian); a missing record counts as 0.
    AddDouble(f64),
    /// Adds to a number in decimal digits as memcached's `incr` does: 64 bits, wrapping.
    Increment {
        /// What to add.
        by: u64,
        /// The value a missing record gets (`None`: it stays missing).
        initial: Option<u64>,
    },
    /// Subtracts as memcached's `decr` does: never below 0, and the value keeps its length, with
    /// spaces behind.
    Decrement {
        /// What to subtract.
        by: u64,
        /// The value a missing record gets (`None`: it stays missing).
        initial: Option<u64>,
    },
    /// The expiry becomes the update's; the value and the flags stay.
    Touch,
    /// The record goes.
    Remove,
}

/// A change of one record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update<'a> {
    /// Which record.
    pub key: &'a [u8],
    /// What must be true of it.
    pub condition: Condition<'a>,
    /// What to do.
    pub change: Change<'a>,
    /// What a record that is put or made by this gets; one that was there keeps its own, except by
    /// [`Change::Put`] (both) and [`Change::Touch`] (the expiry).
    pub attributes: Attributes,
}

impl<'a> Update<'a> {
    /// Returns an update without a condition and without attributes.
    pub const fn new(key: &'a [u8], change: Change<'a>) -> Self {
        Self {
            key,
            condition: Condition::Any,
            change,
            attributes: Attributes {
                flags: 0,
                expires_at: 0,
            },
        }
    }
}

/// What came of an update that was not refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// The record was written; its new unique number.
    Stored {
        /// See [`crate::Found::unique`].
        unique: u64,
    },
    /// The record was removed.
    Removed,
    /// [`Condition::Absent`] or [`Condition::Present`] was not met.
    NotStored,
    /// The record has another unique number or another value.
    Differs,
    /// The condition, the touch, the removal or the count needs a record, and there is none.
    NotFound,
    /// A binary integer was added to: the sum.
    Integer(i64),
    /// A double was added to: the sum.
    Double(f64),
    /// A decimal number was added to or subtracted from: the result, and the new unique number.
    Number {
        /// The result.
        value: u64,
        /// See [`crate::Found::unique`].
        unique: u64,
        /// Whether the record was made, with its initial value.
        is_new: bool,
    },
}

/// What an update did to the table: the whole new state of a record, so that carrying it out twice,
/// or over what a crash left, comes to the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect<'a> {
    /// The record is now this.
    Put {
        /// Which.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
        /// What stands beside it.
        attributes: Attributes,
    },
    /// The record is gone.
    Remove {
        /// Which.
        key: &'a [u8],
    },
    /// All records are gone.
    Vanish,
}

impl Effect<'_> {
    /// Returns the bytes of the key and the value.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Put { key, value, .. } => key.len() + value.len(),
            Self::Remove { key } => key.len(),
            Self::Vanish => 0,
        }
    }
}
