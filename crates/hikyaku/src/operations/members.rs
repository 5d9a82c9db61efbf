//! What is known about members, for the operator.

use hikyaku_event::PublicKey;
use hikyaku_members::{AddressFamily, Member, MemberNumber, Members};
use serde::{Deserialize, Serialize};

use super::{Operation, Report};
use crate::{
    failure::Failure,
    waiting::{unix_now, unix_now_us},
};

/// Which members are listed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Which {
    /// Those of these keys; none: all.
    pub(crate) keys: Vec<String>,
    /// Those behind this number.
    pub(crate) after: u32,
    /// Those seen within so many seconds.
    pub(crate) seen_within_seconds: Option<u64>,
    /// At most so many.
    pub(crate) limit: usize,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberReport {
    /// Its number, from 1 in the order of appearance.
    pub(crate) number: u32,
    /// Its public key in hex.
    pub(crate) key: String,
    /// Unix seconds of the last time it was here.
    pub(crate) seen_at: Option<u64>,
    /// `IPv4` or `IPv6`: from where it was here.
    pub(crate) address_family: Option<String>,
    /// Whether it takes part in footprints.
    pub(crate) footprints: bool,
    /// Events it wrote, by kind.
    pub(crate) events: Vec<KindCount>,
}

/// How many events of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KindCount {
    /// The kind.
    pub(crate) kind: u16,
    /// How many.
    pub(crate) count: u64,
}

/// Some members, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MembersReport {
    /// All members.
    pub(crate) members: u64,
    /// Those that were here since midnight (UTC).
    pub(crate) seen_today: u64,
    /// Those that were asked for.
    pub(crate) listed: Vec<MemberReport>,
    /// Whether there are more behind the last.
    pub(crate) more: bool,
}

/// Who looked at a member's page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FootprintsReport {
    /// Whether the member takes part.
    pub(crate) on: bool,
    /// The visitors, newest first.
    pub(crate) visits: Vec<VisitReport>,
}

/// One footprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VisitReport {
    /// The visitor's public key in hex.
    pub(crate) visitor: String,
    /// When, in Unix seconds.
    pub(crate) at: u64,
}

/// Carries out an operation that is about members.
pub(crate) fn ask_about(members: &Members, operation: &Operation) -> Result<Report, Failure> {
    match operation {
        Operation::Members { which } => list(members, which),
        Operation::Footprints { key, switch } => footprints(members, key, *switch),
        other => Err(Failure::Usage(format!(
            "{} is not about members",
            other.name()
        ))),
    }
}

/// Says that the operator keeps nothing about members.
pub(crate) fn nothing_kept() -> Failure {
    Failure::Failed("nothing is kept about members (members.keep is false)".to_owned())
}

/// Lists members.
fn list(members: &Members, which: &Which) -> Result<Report, Failure> {
    let now = unix_now();
    let earliest = which
        .seen_within_seconds
        .map(|within| now.saturating_sub(within));
    let wanted = |member: &Member| match earliest {
        Some(earliest) => member.seen.is_some_and(|seen| seen.at >= earliest),
        None => true,
    };
    let mut listed = Vec::new();
    let mut more = false;
    if which.keys.is_empty() {
        for member in members.iter(MemberNumber::new(which.after)) {
            let member = member?;
            if !wanted(&member) {
                continue;
            }
            more = listed.len() == which.limit;
            if more {
                break;
            }
            listed.push(report(members, &member)?);
        }
    } else {
        for hex in &which.keys {
            let number = number(members, hex)?;
            let member = members.get(number)?;
            listed.extend(member.map(|member| report(members, &member)).transpose()?);
        }
    }
    Ok(Report::Members(MembersReport {
        members: members.len() as u64,
        seen_today: members.seen_on_day_of(now)?,
        listed,
        more,
    }))
}

fn footprints(members: &Members, key: &str, switch: Option<bool>) -> Result<Report, Failure> {
    footprints_of(members, number(members, key)?, switch).map(Report::Footprints)
}

/// Lists who looked at a member's page; first switches its footprints, if that is wanted.
pub(crate) fn footprints_of(
    members: &Members,
    number: MemberNumber,
    switch: Option<bool>,
) -> Result<FootprintsReport, Failure> {
    if let Some(on) = switch {
        let stamp = hikyaku_tables::Stamp {
            at_us: unix_now_us(),
            origin: 0,
        };
        members.switch_footprints(number, on, stamp)?;
    }
    let member = members.get(number)?;
    let mut visits = Vec::new();
    for visit in members.footprints(number, unix_now())? {
        if let Some(visitor) = members.get(visit.visitor)? {
            visits.push(VisitReport {
                visitor: visitor.key.to_hex(),
                at: visit.at,
            });
        }
    }
    Ok(FootprintsReport {
        on: member.is_some_and(|member| member.footprints),
        visits,
    })
}

fn report(members: &Members, member: &Member) -> Result<MemberReport, Failure> {
    let counts = members.counts(member.number)?;
    Ok(MemberReport {
        number: member.number.get(),
        key: member.key.to_hex(),
        seen_at: member.seen.map(|seen| seen.at),
        address_family: member.seen.map(|seen| {
            match seen.family {
                AddressFamily::V4 => "IPv4",
                AddressFamily::V6 => "IPv6",
            }
            .to_owned()
        }),
        footprints: member.footprints,
        events: counts
            .into_iter()
            .map(|(kind, count)| KindCount {
                kind: kind.0,
                count,
            })
            .collect(),
    })
}

fn number(members: &Members, hex: &str) -> Result<MemberNumber, Failure> {
    let key = parse_key(hex)?;
    members.number(&key).ok_or_else(|| {
        Failure::Failed(format!(
            "{hex} is not a member: it has neither written nor authenticated here"
        ))
    })
}

/// Reads a public key that the operator wrote.
pub(crate) fn parse_key(hex: &str) -> Result<PublicKey, Failure> {
    PublicKey::from_hex(hex.as_bytes())
        .map_err(|error| Failure::Usage(format!("{hex} is not a public key: {error}")))
}
