//! Checking a store: every checksum, and that the indexes agree with the log.

use std::{collections::BTreeSet, sync::Arc};

use hikyaku_store::Sequence;

use crate::{
    error::EngineError,
    log::{self, Damage, LogPosition, Record, Walked},
    segment::{DocId, Document, TermHasher},
    snapshot::{Part, Payload, Snapshot},
};

/// How many findings are kept; beyond, they are counted only.
const FINDINGS_MAX: usize = 1000;

/// What checking a store came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Closed log files read.
    pub log_files: u64,
    /// Log records read.
    pub records: u64,
    /// Segment files read.
    pub segments: u64,
    /// Events compared with their index.
    pub events: u64,
    /// What is wrong: each names a file and an offset, or an event.
    pub findings: Vec<String>,
    /// How many findings there are beyond those named.
    pub more_findings: u64,
}

impl VerifyReport {
    /// Tells whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn find(&mut self, finding: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more_findings += 1;
        }
    }
}

/// Checks what a snapshot names. Its log files are all closed.
pub(crate) fn verify(
    snapshot: &Snapshot,
    hasher: &TermHasher,
    mut progress: impl FnMut(&VerifyReport),
) -> VerifyReport {
    let mut report = VerifyReport::default();
    let mut indexed: Vec<Sequence> = Vec::new();
    for part in &snapshot.parts {
        if let Payload::Log { .. } = part.payload {
            report.segments += 1;
            if let Err(damage) = part.segment.verify_all() {
                for damage in damage {
                    report.find(damage.to_string());
                }
                continue;
            }
        }
        for doc in (0..part.segment.len()).map(DocId) {
            match check_document(snapshot, part, doc, hasher) {
                Ok((sequence, None)) => indexed.push(sequence),
                Ok((sequence, Some(finding))) => {
                    indexed.push(sequence);
                    report.find(finding);
                }
                Err(error) => report.find(error.to_string()),
            }
            report.events += 1;
            if report.events.is_multiple_of(4096) {
                progress(&report);
            }
        }
    }
    indexed.sort_unstable();
    check_log(snapshot, &indexed, &mut report, &mut progress);
    progress(&report);
    report
}

/// Compares what a segment says of a document with its event. A removed one may be gone from the
/// log already.
fn check_document(
    snapshot: &Snapshot,
    part: &Arc<Part>,
    doc: DocId,
    hasher: &TermHasher,
) -> Result<(Sequence, Option<String>), EngineError> {
    let segment = &part.segment;
    let sequence = segment.sequence(doc)?;
    if !part.is_stored(doc) {
        return Ok((sequence, None));
    }
    let event = snapshot.event(part, doc)?;
    let vanish = segment.flags(doc)?.contains(crate::segment::Flags::VANISH);
    let position = segment.position(doc)?;
    let expected = Document::from_event(&event, vanish, sequence, position, hasher);
    let mut agrees = event.verify_id().is_ok()
        && segment.key(doc)? == expected.key
        && segment.kind(doc)? == expected.kind
        && segment.flags(doc)? == expected.flags
        && segment.expires_at(doc)? == expected.expires_at
        && segment.find(&expected.key.id)?.is_some();
    for term in expected.terms.iter().chain([&expected.author]) {
        agrees &= match segment.term(*term)? {
            Some(list) => segment.holds(list, doc)?,
            None => false,
        };
    }
    let finding = (!agrees).then(|| {
        format!(
            "{}: what it says of event {} (document {}) does not agree with the log at {}",
            segment.name(),
            event.id(),
            doc.0,
            LogPosition::from_u64(position)
        )
    });
    Ok((sequence, finding))
}

/// Reads every closed log file, and looks for events that no index has and nobody removed.
fn check_log(
    snapshot: &Snapshot,
    indexed: &[Sequence],
    report: &mut VerifyReport,
    progress: &mut impl FnMut(&VerifyReport),
) {
    let mut missing = BTreeSet::new();
    for file in snapshot.files.iter() {
        report.log_files += 1;
        log::verify(file, |walked| match walked {
            Walked::Damage(damage) => report.find(describe(&damage)),
            Walked::Record(_, sequence, record) => {
                report.records += 1;
                match record {
                    Record::Event { .. } if indexed.binary_search(&sequence).is_err() => {
                        missing.insert(sequence);
                    }
                    // Facts stand behind what they are about.
                    Record::Removed { targets, .. } => {
                        for target in targets {
                            missing.remove(&target);
                        }
                    }
                    _ => {}
                }
            }
        });
        progress(report);
    }
    for sequence in missing {
        report.find(format!(
            "the event of sequence {} is in the log, but not indexed",
            sequence.0
        ));
    }
}

/// Says what is wrong in a log file.
pub(crate) fn describe(damage: &Damage) -> String {
    format!(
        "{} is damaged at offset {}, {} bytes: expected {}, found {}",
        damage.path.display(),
        damage.offset,
        damage.len,
        damage.expected,
        damage.found
    )
}
