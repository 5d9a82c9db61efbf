//! One filter in one part: drive by the cheapest field, check the others on columns, leap in lists.

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use hikyaku_event::Kind;
use hikyaku_store::Budget;

use super::{
    plan::{Plan, Rights},
    union::Union,
};
use crate::{
    error::EngineError,
    segment::{DocId, Flags, PostingList, Segment},
    snapshot::Part,
};

/// What an advance came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The next match.
    Found(DocId),
    /// The budget is spent.
    Yield,
    /// No more matches.
    End,
}

/// A walk over the matches in one part, newest first. Holds no borrow of the part.
#[derive(Debug)]
pub(super) struct PartCursor {
    driver: Driver,
    end: DocId,
    /// Tag conditions that the driver does not meet by itself.
    required: Vec<Union>,
    kinds: Option<Vec<Kind>>,
    authors: AuthorCheck,
    rights: RightsHere,
}

/// What proposes documents.
#[derive(Debug)]
enum Driver {
    Documents { docs: Vec<DocId>, at: usize },
    List { postings: PostingList, at: u32 },
    Lists(Union),
    Scan { next: DocId },
}

/// How the author condition is checked on a proposed document.
#[derive(Debug)]
enum AuthorCheck {
    /// There is none, or the driver meets it.
    Met,
    /// Against the authors' ordinals in this part.
    Few(Vec<u32>),
    Many(HashSet<u32, FixedState>),
    /// Against the plan's terms: in a part smaller than the list of authors.
    ByTerm,
}

/// The reader's keys in this part's words: (author ordinal, list of its p tag).
#[derive(Debug)]
enum RightsHere {
    All,
    PartyTo(Vec<(Option<u32>, Option<PostingList>)>),
}

/// One field of the filter in this part, as a candidate for the driver.
struct Field {
    lists: Vec<PostingList>,
    total: u64,
}

/// Relative costs of proposing one document, in nanoseconds as measured on a 1,000,000-event
/// segment; only their ratios matter.
const SCAN_COST: f64 = 3.0;
const LIST_COST: f64 = 5.0;
const HEAP_LEVEL_COST: f64 = 4.0;
/// A dictionary look-up, mostly cache misses.
const LOOKUP_COST: f64 = 100.0;
/// Up to this many author ordinals a linear search beats hashing.
const FEW_AUTHORS: usize = 8;

impl Field {
    fn resolve(
        segment: &Segment,
        terms: impl IntoIterator<Item = crate::segment::Term>,
    ) -> Result<Self, EngineError> {
        let mut field = Self {
            lists: Vec::new(),
            total: 0,
        };
        for term in terms {
            if let Some(list) = segment.term(term)? {
                field.total += u64::from(list.len);
                field.lists.push(list);
            }
        }
        Ok(field)
    }

    fn cost(&self) -> f64 {
        let levels = (self.lists.len() as f64).log2();
        self.total as f64 * (LIST_COST + HEAP_LEVEL_COST * levels)
            + self.lists.len() as f64 * LIST_COST
    }

    fn into_driver(
        self,
        segment: &Segment,
        start: DocId,
        end: DocId,
    ) -> Result<Driver, EngineError> {
        if let [postings] = *self.lists.as_slice() {
            let at = if start.0 == 0 {
                0
            } else {
                segment.seek(postings, 0, start)?
            };
            return Ok(Driver::List { postings, at });
        }
        Ok(Driver::Lists(Union::new(segment, &self.lists, start, end)?))
    }
}

impl PartCursor {
    /// Starts in the filter's whole time window.
    pub(super) fn open(plan: &Plan, part: &Part) -> Result<Option<Self>, EngineError> {
        let start = part.segment.first_not_newer_than(plan.until)?;
        let end = part.segment.first_older_than(plan.since)?;
        Self::open_between(plan, part, start, end)
    }

    /// Starts in a range of documents. `None` if nothing there can match.
    pub(super) fn open_between(
        plan: &Plan,
        part: &Part,
        start: DocId,
        end: DocId,
    ) -> Result<Option<Self>, EngineError> {
        if plan.matches_nothing || start >= end {
            return Ok(None);
        }
        let segment = &*part.segment;
        let mut cursor = Self {
            driver: Driver::Scan { next: start },
            end,
            required: Vec::new(),
            kinds: plan.kinds.clone(),
            authors: AuthorCheck::Met,
            rights: RightsHere::resolve(plan, segment)?,
        };
        if plan.is_unconditional() {
            return Ok(Some(cursor));
        }
        let mut tags = Vec::with_capacity(plan.tags.len());
        for terms in &plan.tags {
            let field = Field::resolve(segment, terms.iter().copied())?;
            if field.total == 0 {
                return Ok(None);
            }
            tags.push(field);
        }
        if let Some(ids) = &plan.ids {
            let mut docs = Vec::new();
            for id in ids {
                if let Some(doc) = part.find_stored(id)?
                    && (start..end).contains(&doc)
                {
                    docs.push(doc);
                }
            }
            docs.sort_unstable();
            if docs.is_empty() {
                return Ok(None);
            }
            if plan.authors.is_some() {
                cursor.authors = AuthorCheck::ByTerm;
            }
            cursor.driver = Driver::Documents { docs, at: 0 };
            cursor.require(segment, tags, start, end)?;
            return Ok(Some(cursor));
        }
        cursor
            .choose_driver(plan, segment, tags, start)
            .map(|found| found.then_some(cursor))
    }

    /// Picks the cheapest field to drive by. False if nothing can match.
    fn choose_driver(
        &mut self,
        plan: &Plan,
        segment: &Segment,
        mut tags: Vec<Field>,
        start: DocId,
    ) -> Result<bool, EngineError> {
        let documents = f64::from(segment.len());
        let window = f64::from(self.end.0 - start.0);
        let kinds = match &plan.kinds {
            Some(kinds) => {
                let terms = kinds.iter().map(|kind| plan.hasher.kind(*kind));
                let field = Field::resolve(segment, terms)?;
                if field.total == 0 {
                    return Ok(false);
                }
                Some(field)
            }
            None => None,
        };
        let mut authors = match &plan.authors {
            Some(authors) if u64::from(segment.len()) < authors.terms.len() as u64 => {
                self.authors = AuthorCheck::ByTerm;
                None
            }
            Some(authors) => {
                let field = Field::resolve(segment, authors.terms.iter().copied())?;
                if field.total == 0 {
                    return Ok(false);
                }
                self.authors = AuthorCheck::of(&field.lists);
                Some(field)
            }
            None => None,
        };
        let share = |field: &Option<Field>| {
            field
                .as_ref()
                .map_or(1.0, |field| (field.total as f64 / documents).min(1.0))
        };
        // How much of the part is walked until the limit is reached, if fields are independent.
        let selectivity = tags
            .iter()
            .fold(share(&kinds) * share(&authors), |all, tag| {
                all * tag.total as f64 / documents
            });
        let walked = (plan.wanted as f64 / (window * selectivity).max(1.0)).min(1.0);

        if let (Some(by_author), Some(by_kind), Some(all)) = (&authors, &kinds, &plan.authors) {
            let wanted_kinds = plan.kinds.as_deref().unwrap_or_default();
            let lookups = (by_author.lists.len() * wanted_kinds.len()) as f64 * LOOKUP_COST;
            let expected = by_author.cost() * share(&kinds);
            let best = by_author.cost().min(by_kind.cost());
            if (best - expected) * walked > lookups {
                let mut field = Field {
                    lists: Vec::new(),
                    total: 0,
                };
                for key in &all.keys {
                    let terms = wanted_kinds
                        .iter()
                        .map(|kind| plan.hasher.author_kind(key, *kind));
                    let one = Field::resolve(segment, terms)?;
                    field.total += one.total;
                    field.lists.extend(one.lists);
                }
                if field.total == 0 {
                    return Ok(false);
                }
                self.authors = AuthorCheck::Met;
                self.kinds = None;
                authors = Some(field);
            }
        }

        let author_cost = authors.as_ref().map_or(f64::INFINITY, Field::cost);
        let kind_cost = kinds.as_ref().map_or(f64::INFINITY, Field::cost);
        let tag = tags
            .iter()
            .map(Field::cost)
            .enumerate()
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let tag_cost = tag.map_or(f64::INFINITY, |(_, cost)| cost);
        let scan_cost = window * SCAN_COST;
        let both_met = self.kinds.is_none() && plan.kinds.is_some();
        let least = author_cost
            .min(tag_cost)
            .min(if both_met { f64::INFINITY } else { kind_cost });
        if !both_met && scan_cost <= least {
            // The columns decide; tags, if any, leap.
        } else if author_cost <= least {
            if let Some(field) = authors {
                self.authors = AuthorCheck::Met;
                self.driver = field.into_driver(segment, start, self.end)?;
            }
        } else if let (true, Some((index, _))) = (tag_cost <= least, tag) {
            self.driver = tags
                .swap_remove(index)
                .into_driver(segment, start, self.end)?;
            if both_met && let Some(field) = authors {
                self.required
                    .push(Union::new(segment, &field.lists, start, self.end)?);
            }
        } else if let Some(field) = kinds {
            self.kinds = None;
            self.driver = field.into_driver(segment, start, self.end)?;
        }
        self.require(segment, tags, start, self.end)?;
        Ok(true)
    }

    fn require(
        &mut self,
        segment: &Segment,
        mut tags: Vec<Field>,
        start: DocId,
        end: DocId,
    ) -> Result<(), EngineError> {
        tags.sort_by_key(|field| field.total);
        for field in tags {
            self.required
                .push(Union::new(segment, &field.lists, start, end)?);
        }
        Ok(())
    }

    /// Moves to the next match.
    pub(super) fn advance(
        &mut self,
        plan: &Plan,
        part: &Part,
        budget: &mut Budget,
    ) -> Result<Step, EngineError> {
        let segment = &*part.segment;
        'proposed: while let Some(doc) = self.driver.current(segment)?.filter(|doc| *doc < self.end)
        {
            if budget.is_spent() {
                return Ok(Step::Yield);
            }
            budget.spend(1);
            let next = DocId(doc.0 + 1);
            if !self.kind_matches(segment, doc)? || !self.author_matches(plan, segment, doc)? {
                self.driver.seek(segment, next)?;
                continue;
            }
            for union in &mut self.required {
                union.seek(segment, doc)?;
                match union.current() {
                    None => return Ok(Step::End),
                    Some(at) if at > doc => {
                        self.driver.seek(segment, at)?;
                        continue 'proposed;
                    }
                    Some(_) => {}
                }
            }
            self.driver.seek(segment, next)?;
            if part.is_visible(doc)
                && !part.is_expired(doc, plan.now)?
                && self.rights.allow(segment, doc)?
            {
                return Ok(Step::Found(doc));
            }
        }
        Ok(Step::End)
    }

    #[inline]
    fn kind_matches(&self, segment: &Segment, doc: DocId) -> Result<bool, EngineError> {
        match &self.kinds {
            None => Ok(true),
            Some(kinds) => Ok(match kinds.as_slice() {
                [kind] => segment.kind(doc)? == *kind,
                kinds => kinds.binary_search(&segment.kind(doc)?).is_ok(),
            }),
        }
    }

    #[inline]
    fn author_matches(
        &self,
        plan: &Plan,
        segment: &Segment,
        doc: DocId,
    ) -> Result<bool, EngineError> {
        Ok(match &self.authors {
            AuthorCheck::Met => true,
            AuthorCheck::Few(ordinals) => ordinals.contains(&segment.author_ordinal(doc)?),
            AuthorCheck::Many(ordinals) => ordinals.contains(&segment.author_ordinal(doc)?),
            AuthorCheck::ByTerm => {
                let (term, _) = segment.term_at(segment.author_ordinal(doc)?)?;
                plan.authors
                    .as_ref()
                    .is_some_and(|authors| authors.term_set.contains(&term))
            }
        })
    }
}

impl Driver {
    #[inline]
    fn current(&self, segment: &Segment) -> Result<Option<DocId>, EngineError> {
        Ok(match self {
            Self::Documents { docs, at } => docs.get(*at).copied(),
            Self::List { postings, at } if *at < postings.len => {
                Some(segment.posting(*postings, *at)?)
            }
            Self::List { .. } => None,
            Self::Lists(union) => union.current(),
            Self::Scan { next } => Some(*next),
        })
    }

    /// Moves to the first proposal at or after `target`.
    #[inline]
    fn seek(&mut self, segment: &Segment, target: DocId) -> Result<(), EngineError> {
        match self {
            Self::Documents { docs, at } => {
                while docs.get(*at).is_some_and(|doc| *doc < target) {
                    *at += 1;
                }
            }
            Self::List { postings, at } => *at = segment.seek(*postings, *at, target)?,
            Self::Lists(union) => union.seek(segment, target)?,
            Self::Scan { next } => *next = target,
        }
        Ok(())
    }
}

impl AuthorCheck {
    fn of(lists: &[PostingList]) -> Self {
        let ordinals = lists.iter().map(|list| list.ordinal);
        if lists.len() <= FEW_AUTHORS {
            Self::Few(ordinals.collect())
        } else {
            Self::Many(ordinals.collect())
        }
    }
}

impl RightsHere {
    fn resolve(plan: &Plan, segment: &Segment) -> Result<Self, EngineError> {
        let Rights::PartyTo(keys) = &plan.rights else {
            return Ok(Self::All);
        };
        let mut here = Vec::with_capacity(keys.len());
        for (author, tagged) in keys {
            let ordinal = segment.term(*author)?.map(|list| list.ordinal);
            here.push((ordinal, segment.term(*tagged)?));
        }
        Ok(Self::PartyTo(here))
    }

    /// Tells whether the reader may see the document, as [`hikyaku_store::Reader::may_read`] does.
    #[inline]
    fn allow(&self, segment: &Segment, doc: DocId) -> Result<bool, EngineError> {
        let Self::PartyTo(keys) = self else {
            return Ok(true);
        };
        if !segment.flags(doc)?.contains(Flags::PRIVATE) {
            return Ok(true);
        }
        for (author, tagged) in keys {
            let wrote = segment.kind(doc)? == Kind::DIRECT_MESSAGE
                && *author == Some(segment.author_ordinal(doc)?);
            if wrote
                || match tagged {
                    Some(list) => segment.holds(*list, doc)?,
                    None => false,
                }
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
