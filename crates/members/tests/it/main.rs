//! What is promised about members, through the public interface.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod footprints;
mod members;
mod rates;

use std::sync::Arc;

use hikyaku_event::PublicKey;
use hikyaku_members::{FootprintLimits, MemberNumber, MemberTables, Members};
use hikyaku_tables::{MemoryOptions, MemoryTable, Stamp, Table};

/// A time in Unix seconds.
const NOW: u64 = 1_800_000_000;

fn at(seconds: u64) -> Stamp {
    Stamp {
        at_us: seconds * 1_000_000,
        origin: 0,
    }
}

fn key(byte: u8) -> PublicKey {
    PublicKey::new([byte; 32])
}

fn tables() -> MemberTables {
    let table = || -> Arc<dyn Table> { Arc::new(MemoryTable::new(MemoryOptions::default(), None)) };
    MemberTables {
        keys: table(),
        seen: table(),
        days: table(),
        counts: table(),
        footprints: table(),
        settings: table(),
    }
}

const LIMITS: FootprintLimits = FootprintLimits {
    visitors_max: 3,
    seconds_max: 1_000,
};

fn open(tables: &MemberTables) -> Members {
    Members::open(tables.clone(), LIMITS, 7).unwrap()
}

fn enrol(members: &Members, byte: u8) -> MemberNumber {
    members.enrol(&key(byte), at(NOW)).unwrap()
}
