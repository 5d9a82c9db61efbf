//! Members, for people.

use std::{
    fmt::Write,
    time::{Duration, UNIX_EPOCH},
};

use super::figures::{duration, grouped};
use crate::operations::{FootprintsReport, MemberReport, MembersReport};

/// Writes a list of members.
pub(super) fn members(report: &MembersReport) -> String {
    let mut text = String::new();
    for member in &report.listed {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", line(member));
        if report.listed.len() == 1 {
            kinds(&mut text, member);
        }
    }
    let more = match report.listed.last() {
        Some(last) if report.more => format!("; more with --after {}", last.number),
        _ => String::new(),
    };
    let _ = writeln!(
        text,
        "{} members, {} here today{more}",
        grouped(report.members),
        grouped(report.seen_today)
    );
    text
}

fn line(member: &MemberReport) -> String {
    let events: u64 = member.events.iter().map(|events| events.count).sum();
    let seen = member.seen_at.map_or("never seen".to_owned(), |at| {
        let family = member.address_family.as_deref().unwrap_or_default();
        format!("seen {} by {family}", ago(at))
    });
    let plural = if events == 1 { "" } else { "s" };
    format!(
        "{:>8}  {}  {seen}, {} event{plural}",
        member.number,
        member.key,
        grouped(events)
    )
}

fn kinds(text: &mut String, member: &MemberReport) {
    for events in &member.events {
        let _ = writeln!(
            text,
            "          kind {:<5}  {:>12}",
            events.kind,
            grouped(events.count)
        );
    }
    if member.footprints {
        text.push_str("          footprints are on\n");
    }
}

/// Writes who looked at a page.
pub(super) fn footprints(report: &FootprintsReport) -> String {
    let mut text = String::new();
    for visit in &report.visits {
        let _ = writeln!(text, "{}  {}", visit.visitor, ago(visit.at));
    }
    text += match (report.on, report.visits.is_empty()) {
        (false, _) => "footprints are off\n",
        (true, true) => "nobody has left a footprint yet\n",
        (true, false) => "",
    };
    text
}

fn ago(at: u64) -> String {
    let elapsed = (UNIX_EPOCH + Duration::from_secs(at)).elapsed();
    match elapsed {
        Ok(elapsed) => format!("{} ago", duration(Duration::from_secs(elapsed.as_secs()))),
        Err(_) => "just now".to_owned(),
    }
}
