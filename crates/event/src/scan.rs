//! The event object of NIP-01 on the wire: what shape it must have, and the spans of its parts.

use std::ops::Range;

use crate::{
    EventId, Kind, PublicKey, Signature, Timestamp,
    escape::{Controls, RawString, Spelling, write_string},
    json::{Fault, Scanner},
};

const NOT_AN_OBJECT: &str = "expected an event object";
const NOT_AN_ID: &str = "id must be 64 lower-case hex digits";
const NOT_A_PUBKEY: &str = "pubkey must be 64 lower-case hex digits";
const NOT_A_SIG: &str = "sig must be 128 lower-case hex digits";
const NOT_TAGS: &str = "tags must be an array of arrays of strings";
const NOT_A_TAG: &str = "each tag must be an array of strings";
const NOT_A_CREATED_AT: &str = "created_at must be a whole number of seconds from 0 to \
                                18446744073709551615, written in digits only";
const NOT_A_KIND: &str = "kind must be a whole number from 0 to 65535, written in digits only";

/// An event object taken apart. Offsets count from its opening brace.
#[derive(Debug)]
pub(crate) struct ScannedEvent<'a> {
    /// The object.
    pub(crate) json: &'a [u8],
    pub(crate) id: EventId,
    pub(crate) pubkey: PublicKey,
    pub(crate) created_at: Timestamp,
    pub(crate) kind: Kind,
    pub(crate) sig: Signature,
    pub(crate) layout: Layout,
    /// Whether the object is nothing but the seven fields, without white space and without
    /// needless escapes in keys and hex.
    pub(crate) compact: bool,
}

/// Where the parts of variable length are in an event's JSON.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// The array of tags, brackets included.
    pub(crate) tags: Range<u32>,
    /// For each tag, where it begins, after its bracket.
    pub(crate) tag_starts: Box<[u32]>,
    /// The content, without its quotes.
    pub(crate) content: Range<u32>,
    /// How the content is spelt.
    pub(crate) content_spelling: Spelling,
    /// How the least canonical string of the tags is spelt.
    pub(crate) tags_spelling: Spelling,
}

/// Takes one event object.
pub(crate) fn scan_event<'a>(scanner: &mut Scanner<'a>) -> Result<ScannedEvent<'a>, Fault> {
    scanner.peek();
    scanner.take_loose();
    let start = scanner.at();
    let mut fields = Fields::default();
    let mut more = scanner.open_object(NOT_AN_OBJECT)?;
    while more {
        fields.member(scanner, start)?;
        more = scanner.more_members()?;
    }
    let json = scanner.since(start);
    if u32::try_from(json.len()).is_err() {
        return Err(scanner.fault("the event is too large"));
    }
    let end = scanner.at();
    let missing = |problem| Fault { problem, at: end };
    let tags = fields.tags.ok_or(missing("the event has no tags"))?;
    let content = fields.content.ok_or(missing("the event has no content"))?;
    Ok(ScannedEvent {
        json,
        id: fields
            .id
            .map(EventId::new)
            .ok_or(missing("the event has no id"))?,
        pubkey: fields
            .pubkey
            .map(PublicKey::new)
            .ok_or(missing("the event has no pubkey"))?,
        created_at: fields
            .created_at
            .ok_or(missing("the event has no created_at"))?,
        kind: fields
            .kind
            .map(Kind)
            .ok_or(missing("the event has no kind"))?,
        sig: fields
            .sig
            .map(Signature::new)
            .ok_or(missing("the event has no sig"))?,
        layout: Layout {
            tags: tags.span,
            tag_starts: tags.starts,
            tags_spelling: tags.spelling,
            content: content.span,
            content_spelling: content.spelling,
        },
        compact: !fields.extended && !scanner.take_loose(),
    })
}

/// What has been seen of an object so far.
#[derive(Default)]
struct Fields {
    id: Option<[u8; 32]>,
    pubkey: Option<[u8; 32]>,
    created_at: Option<Timestamp>,
    kind: Option<u16>,
    tags: Option<ScannedTags>,
    content: Option<ScannedContent>,
    sig: Option<[u8; 64]>,
    /// There was a field that is not kept.
    extended: bool,
}

struct ScannedTags {
    span: Range<u32>,
    starts: Box<[u32]>,
    spelling: Spelling,
}

struct ScannedContent {
    span: Range<u32>,
    spelling: Spelling,
}

impl Fields {
    /// Takes one member of the object that began at `start`.
    fn member(&mut self, scanner: &mut Scanner<'_>, start: usize) -> Result<(), Fault> {
        scanner.peek();
        let key_at = scanner.at();
        let key = scanner.key()?;
        let seen_before = match key.bytes().as_ref() {
            b"id" => self.id.replace(scanner.hex(NOT_AN_ID)?).is_some(),
            b"pubkey" => self.pubkey.replace(scanner.hex(NOT_A_PUBKEY)?).is_some(),
            b"sig" => self.sig.replace(scanner.hex(NOT_A_SIG)?).is_some(),
            b"created_at" => {
                let created_at = scanner.narrow_integer(NOT_A_CREATED_AT)?;
                self.created_at.replace(created_at).is_some()
            }
            b"kind" => self
                .kind
                .replace(scanner.narrow_integer(NOT_A_KIND)?)
                .is_some(),
            b"tags" => self.tags.replace(scan_tags(scanner, start)?).is_some(),
            b"content" => self
                .content
                .replace(scan_content(scanner, start)?)
                .is_some(),
            _ => {
                self.extended = true;
                scanner.skip_value()?;
                false
            }
        };
        if seen_before {
            return Err(Fault {
                problem: "the same field twice in an event",
                at: key_at,
            });
        }
        Ok(())
    }
}

fn scan_tags(scanner: &mut Scanner<'_>, start: usize) -> Result<ScannedTags, Fault> {
    scanner.peek();
    let tags_start = scanner.at();
    let mut starts = Vec::new();
    let mut spelling = Spelling::Plain;
    let mut more_tags = scanner.open_array(NOT_TAGS)?;
    while more_tags {
        let mut more_strings = scanner.open_array(NOT_A_TAG)?;
        // After an empty tag there is anything but a string.
        starts.push(offset(scanner.at(), start));
        while more_strings {
            spelling = spelling.max(scanner.string(NOT_A_TAG)?.spelling);
            more_strings = scanner.more_elements()?;
        }
        more_tags = scanner.more_elements()?;
    }
    Ok(ScannedTags {
        span: offset(tags_start, start)..offset(scanner.at(), start),
        starts: starts.into_boxed_slice(),
        spelling,
    })
}

fn scan_content(scanner: &mut Scanner<'_>, start: usize) -> Result<ScannedContent, Fault> {
    let content = scanner.string("content must be a string")?;
    let quote = scanner.at() - 1;
    Ok(ScannedContent {
        span: offset(quote - content.raw.len(), start)..offset(quote, start),
        spelling: content.spelling,
    })
}

/// Returns an offset from the object's start. Objects of 4 GiB and more are refused at their end,
/// so what is cut off here is never used.
const fn offset(at: usize, start: usize) -> u32 {
    (at - start) as u32
}

impl ScannedEvent<'_> {
    /// Writes the seven fields anew, compact and canonical.
    pub(crate) fn rewrite(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(self.json.len());
        json.extend_from_slice(
            format!(
                "{{\"id\":\"{}\",\"pubkey\":\"{}\",\"created_at\":{},\"kind\":{},\"tags\":",
                self.id, self.pubkey, self.created_at, self.kind.0
            )
            .as_bytes(),
        );
        self.layout
            .write_tags(&mut json, self.json, Controls::Escaped);
        json.extend_from_slice(b",\"content\":");
        self.layout
            .write_content(&mut json, self.json, Controls::Escaped);
        json.extend_from_slice(format!(",\"sig\":\"{}\"}}", self.sig).as_bytes());
        json
    }
}

impl Layout {
    /// Returns the array of tags as it stands in the JSON it was made from.
    pub(crate) fn raw_tags<'a>(&self, json: &'a [u8]) -> &'a [u8] {
        json.get(self.tags.start as usize..self.tags.end as usize)
            .unwrap_or_default()
    }

    /// Returns the content as it stands in the JSON it was made from.
    pub(crate) fn raw_content<'a>(&self, json: &'a [u8]) -> RawString<'a> {
        let content = self.content.start as usize..self.content.end as usize;
        RawString {
            raw: json.get(content).unwrap_or_default(),
            spelling: self.content_spelling,
        }
    }

    /// Tells whether tags and content, being without white space, are in canonical form as they
    /// stand.
    pub(crate) fn is_canonical(&self) -> bool {
        self.tags_spelling.max(self.content_spelling) <= Spelling::Canonical
    }

    /// Appends the tags in canonical form.
    pub(crate) fn write_tags(&self, out: &mut Vec<u8>, json: &[u8], controls: Controls) {
        out.push(b'[');
        for (index, &tag) in self.tag_starts.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b"[" } else { b",[" });
            for (index, string) in tag_strings(json, tag).enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_string(out, &string.bytes(), controls);
            }
            out.push(b']');
        }
        out.push(b']');
    }

    /// Appends the content in canonical form.
    pub(crate) fn write_content(&self, out: &mut Vec<u8>, json: &[u8], controls: Controls) {
        write_string(out, &self.raw_content(json).bytes(), controls);
    }
}

/// Returns the strings of the tag that begins at an offset of an event's JSON.
pub(crate) fn tag_strings(json: &[u8], tag: u32) -> impl Iterator<Item = RawString<'_>> {
    let mut scanner = Scanner::trusted(json.get(tag as usize..).unwrap_or_default());
    std::iter::from_fn(move || {
        let string = scanner.string("expected a string").ok()?;
        scanner.take(b',');
        Some(string)
    })
}
