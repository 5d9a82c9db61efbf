//! One filter in one part: drive by the cheapest field, check the others on columns, leap in lists.

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use hikyaku_event::{Kind, KindClass};
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

/// How much of a part there is to walk, in documents.
struct Extent {
    /// The whole part.
    documents: f64,
    /// The filter's time window.
    window: f64,
    /// The share of the window that is walked until the limit is reached.
    walked: f64,
}

/// Relative costs of proposing one document, in nanoseconds as measured on a 1,000,000-event
/// segment; only their ratios matter.
const SCAN_COST: f64 = 3.0;
const LIST_COST: f64 = 5.0;
const HEAP_LEVEL_COST: f64 = 4.0;
/// A look at another column of a proposed document: a cache miss where a list is sparse.
const SPARSE_COLUMN_COST: f64 = 30.0;
/// A list with fewer than one in so many documents is sparse.
const SPARSE_DOCUMENTS: f64 = 16.0;
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

    /// What driving by this field through the window costs, if the other conditions are checked on
    /// columns.
    fn cost(&self, extent: &Extent) -> f64 {
        let total = self.total as f64;
        let is_sparse = total * SPARSE_DOCUMENTS < extent.documents;
        let column = if is_sparse { SPARSE_COLUMN_COST } else { 0.0 };
        let inside = total * extent.window / extent.documents;
        merge_cost(inside, self.lists.len()) + inside * column
    }

    /// The share of a part's documents that have this field, if all its lists are distinct.
    fn share(&self, documents: f64) -> f64 {
        (self.total as f64 / documents).min(1.0)
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

/// What merging so many postings of so many lists costs.
fn merge_cost(postings: f64, lists: usize) -> f64 {
    let levels = (lists.max(1) as f64).log2();
    postings * (LIST_COST + HEAP_LEVEL_COST * levels) + lists as f64 * LIST_COST
}

/// Returns how many pairs there are of the filter's kinds and its authors in this part.
fn pairs(plan: &Plan, authors: &Field) -> usize {
    authors.lists.len() * plan.kinds.as_deref().unwrap_or_default().len()
}

/// Tells whether all kinds that the filter names are replaceable: an author has one event of each.
fn wants_only_replaceable(plan: &Plan) -> bool {
    let is_replaceable = |kind: &Kind| kind.class() == KindClass::Replaceable;
    plan.kinds
        .as_ref()
        .is_some_and(|kinds| kinds.iter().all(is_replaceable))
}

/// Tells whether it pays to look up each pair of author and kind.
fn pairs_pay(plan: &Plan, authors: &Field, kinds: &Field, extent: &Extent) -> bool {
    let pairs = pairs(plan, authors);
    // Kinds that no version replaces are as frequent among these authors as among all, as far as
    // anybody knows.
    let expected = if wants_only_replaceable(plan) {
        pairs as f64
    } else {
        authors.total as f64 * kinds.share(extent.documents)
    };
    let inside = expected * extent.window / extent.documents;
    let by_pairs = pairs as f64 * LOOKUP_COST + merge_cost(inside, pairs) * extent.walked;
    by_pairs < authors.cost(extent).min(kinds.cost(extent)) * extent.walked
}

/// Looks up the pairs of the filter's authors and kinds.
fn author_kinds(plan: &Plan, segment: &Segment) -> Result<Field, EngineError> {
    let kinds = plan.kinds.as_deref().unwrap_or_default();
    let keys = plan.authors.iter().flat_map(|authors| &authors.keys);
    let terms = keys.flat_map(|key| kinds.iter().map(|kind| plan.hasher.author_kind(key, *kind)));
    Field::resolve(segment, terms)
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
        let mut extent = Extent {
            documents,
            window,
            walked: 1.0,
        };
        let mut kinds = None;
        if let Some(wanted) = &plan.kinds {
            let terms = wanted.iter().map(|kind| plan.hasher.kind(*kind));
            kinds = Some(Field::resolve(segment, terms)?);
        }
        let mut authors = None;
        if let Some(wanted) = &plan.authors {
            if (segment.len() as usize) < wanted.terms.len() {
                self.authors = AuthorCheck::ByTerm;
            } else {
                let field = Field::resolve(segment, wanted.terms.iter().copied())?;
                self.authors = AuthorCheck::of(&field.lists);
                authors = Some(field);
            }
        }
        if [&kinds, &authors]
            .into_iter()
            .flatten()
            .any(|field| field.total == 0)
        {
            return Ok(false);
        }
        // As if the fields were independent of each other, but for what versions replace.
        let fields = kinds.iter().chain(&authors).chain(&tags);
        let selectivity: f64 = fields.map(|field| field.share(documents)).product();
        let mut matches = window * selectivity;
        if let Some(by_author) = &authors
            && wants_only_replaceable(plan)
        {
            matches = matches.min(pairs(plan, by_author) as f64);
        }
        extent.walked = (plan.wanted as f64 / matches.max(1.0)).min(1.0);

        if let (Some(by_author), Some(by_kind)) = (&authors, &kinds)
            && pairs_pay(plan, by_author, by_kind, &extent)
        {
            let pairs = author_kinds(plan, segment)?;
            if pairs.total == 0 {
                return Ok(false);
            }
            self.authors = AuthorCheck::Met;
            self.kinds = None;
            authors = Some(pairs);
            kinds = None;
        }

        let cost = |field: &Field| field.cost(&extent);
        let author_cost = authors.as_ref().map_or(f64::INFINITY, cost);
        let kind_cost = kinds.as_ref().map_or(f64::INFINITY, cost);
        let tag = tags
            .iter()
            .map(cost)
            .enumerate()
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let tag_cost = tag.map_or(f64::INFINITY, |(_, cost)| cost);
        // Authors and kinds that only their pairs' lists know can't be checked on columns.
        let only_pairs = plan.kinds.is_some() && kinds.is_none();
        let scan_cost = if only_pairs {
            f64::INFINITY
        } else {
            window * SCAN_COST
        };
        let least = author_cost.min(kind_cost).min(tag_cost).min(scan_cost);
        if least >= scan_cost {
            // The columns decide; tags, if any, leap.
        } else if let Some(field) = authors.take_if(|_| least >= author_cost) {
            self.authors = AuthorCheck::Met;
            self.driver = field.into_driver(segment, start, self.end)?;
        } else if let Some(field) = kinds.take_if(|_| least >= kind_cost) {
            self.kinds = None;
            self.driver = field.into_driver(segment, start, self.end)?;
        } else if let Some((index, _)) = tag {
            self.driver = tags
                .swap_remove(index)
                .into_driver(segment, start, self.end)?;
        }
        tags.extend(authors.filter(|_| only_pairs));
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
