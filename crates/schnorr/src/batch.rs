//! Batches of signatures, and which of them are bad.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::{
    Item,
    equation::{Equations, Signed, randomizers},
    field::{Field, ordinates},
    point::Affine,
    scalar::Scalar,
};

/// How many times a batch's own size may be spent on equations to find the bad ones; then the rest is
/// checked one by one. One bad signature takes less than this.
const EQUATIONS_MAX: usize = 3;
/// How many authors' points are kept: a power of two, and about 110 bytes each.
const CACHED_KEYS: usize = 1024;
/// Square roots that are found at the same time.
const LANES: usize = 4;

/// Checks batches of signatures; keep one per thread.
///
/// It remembers the points of some authors, whose signatures cost less then, and its working memory.
pub struct BatchVerifier {
    equations: Equations,
    /// A hash that has taken the tag of challenges.
    challenge: Sha256,
    /// Each key has one place, given by its bytes; a later one takes it over.
    keys: Box<[Option<Known>]>,
}

/// An author's key, and its point.
type Known = ([u8; 32], Affine);

impl BatchVerifier {
    /// Fewer signatures than this cost less one by one.
    pub const TOGETHER_MIN: usize = 12;

    /// Creates a verifier.
    pub fn new() -> Self {
        let tag = Sha256::digest(b"BIP0340/challenge");
        Self {
            equations: Equations::default(),
            challenge: Sha256::new().chain_update(tag).chain_update(tag),
            keys: vec![None; CACHED_KEYS].into_boxed_slice(),
        }
    }

    /// Tells whether all signatures are valid.
    ///
    /// The seed must be random, and drawn when nobody can change the batch any more: who knows it can
    /// make wrong signatures that pass together.
    pub fn verify(&mut self, items: &[Item<'_>], seed: &[u8; 32]) -> bool {
        let read = self.read(items);
        read.signed.len() == items.len() && self.holds(&read, &read.signed, seed)
    }

    /// Tells for each signature whether it is valid. About the seed see [`Self::verify`].
    ///
    /// Whatever is said to be invalid was checked alone, too. One bad signature in a large batch
    /// costs about as much as two such batches; with many, each is checked alone.
    pub fn verdicts(&mut self, items: &[Item<'_>], seed: &[u8; 32]) -> Vec<bool> {
        if items.len() < Self::TOGETHER_MIN {
            return items.iter().map(Item::is_valid).collect();
        }
        let read = &self.read(items);
        let mut search = Search {
            verifier: self,
            read,
            seed,
            valid: vec![false; items.len()],
            left: EQUATIONS_MAX * items.len(),
        };
        search.among(&read.signed, false);
        let valid = search.valid.into_iter().zip(items);
        valid
            .map(|(valid, item)| valid || item.is_valid())
            .collect()
    }

    fn holds(&mut self, read: &Read, part: &[Signed], seed: &[u8; 32]) -> bool {
        let randomizers = randomizers(seed, part);
        self.equations.hold(part, &read.authors, randomizers)
    }

    /// Reads the signatures whose numbers are in range and whose points exist.
    fn read(&mut self, items: &[Item<'_>]) -> Read {
        let mut order: Vec<_> = (0..items.len()).zip(items).collect();
        order.sort_unstable_by_key(|(place, item)| (item.public_key, *place));
        let mut signed = Vec::with_capacity(items.len());
        let mut authors = Vec::new();
        let mut unknown = Vec::new();
        let mut abscissas = Vec::with_capacity(2 * items.len());
        for of_author in order.chunk_by(|(_, one), (_, next)| one.public_key == next.public_key) {
            let Some((_, Item { public_key, .. })) = of_author.first() else {
                continue;
            };
            let Some(abscissa) = Field::from_bytes(public_key) else {
                continue;
            };
            let known = self.known(public_key);
            if known.is_none() {
                unknown.push((authors.len(), *public_key, abscissa));
            }
            for (place, item) in of_author {
                let (r, s) = halves(item.signature);
                if let (Some(x), Some(s)) = (Field::from_bytes(&r), Scalar::from_bytes(&s)) {
                    abscissas.push(x);
                    signed.push(Signed {
                        place: *place,
                        author: authors.len(),
                        r: Affine::INFINITE,
                        s,
                        e: self.challenge(&r, item),
                    });
                }
            }
            authors.push(known.unwrap_or(Affine::INFINITE));
        }
        abscissas.extend(unknown.iter().map(|(.., abscissa)| *abscissa));
        let mut points = points(&abscissas).into_iter();
        for (signature, point) in signed.iter_mut().zip(&mut points) {
            signature.r = point;
        }
        for ((author, key, _), point) in unknown.into_iter().zip(points) {
            if let Some(author) = authors.get_mut(author) {
                *author = point;
            }
            if let Some(place) = self.keys.get_mut(place(key)) {
                *place = Some((*key, point));
            }
        }
        let author = |one: &Signed| authors.get(one.author);
        signed.retain(|one| {
            !one.r.is_infinite() && author(one).is_some_and(|author| !author.is_infinite())
        });
        Read { signed, authors }
    }

    /// Returns the point of a key that was seen lately: the infinite one if the key is none.
    fn known(&self, key: &[u8; 32]) -> Option<Affine> {
        let (cached, point) = self.keys.get(place(key))?.as_ref()?;
        (cached == key).then_some(*point)
    }

    fn challenge(&self, r: &[u8; 32], item: &Item<'_>) -> Scalar {
        let hash = self.challenge.clone();
        let hash = hash
            .chain_update(r)
            .chain_update(item.public_key)
            .chain_update(item.message);
        Scalar::from_bytes_reduced(&hash.finalize().into())
    }
}

impl Default for BatchVerifier {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for BatchVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchVerifier").finish_non_exhaustive()
    }
}

/// What was read of a batch.
struct Read {
    /// By author: those of one are side by side.
    signed: Vec<Signed>,
    /// The authors' points.
    authors: Vec<Affine>,
}

/// A search for the bad signatures of a batch.
struct Search<'a> {
    verifier: &'a mut BatchVerifier,
    read: &'a Read,
    seed: &'a [u8; 32],
    /// What was found so far; the rest is checked one by one.
    valid: Vec<bool>,
    /// How many more signatures may be put into equations.
    left: usize,
}

impl Search<'_> {
    /// Looks for bad ones among some, and tells whether there is none.
    ///
    /// If they are known to have one, their own equation can't hold and is left out.
    fn among(&mut self, part: &[Signed], has_bad: bool) -> bool {
        if part.len() < BatchVerifier::TOGETHER_MIN {
            return false;
        }
        if !has_bad {
            if self.left < part.len() {
                return false;
            }
            self.left -= part.len();
            if self.verifier.holds(self.read, part, self.seed) {
                for signature in part {
                    if let Some(valid) = self.valid.get_mut(signature.place) {
                        *valid = true;
                    }
                }
                return true;
            }
        }
        let (one, other) = part.split_at(part.len() / 2);
        let one_is_valid = self.among(one, false);
        let other_is_valid = self.among(other, one_is_valid);
        one_is_valid && other_is_valid
    }
}

/// Finds the points with even ordinates of some abscissas: the infinite one where there is none.
fn points(abscissas: &[Field]) -> Vec<Affine> {
    let mut points = Vec::with_capacity(abscissas.len());
    let (lanes, rest) = abscissas.as_chunks::<LANES>();
    let mut push = |x: &Field, y: Option<Field>| {
        points.push(y.map_or(Affine::INFINITE, |y| Affine { x: *x, y }));
    };
    for xs in lanes {
        for (x, y) in xs.iter().zip(ordinates(xs)) {
            push(x, y);
        }
    }
    for x in rest {
        let [y] = ordinates(&[*x]);
        push(x, y);
    }
    points
}

/// Returns where a key is kept.
fn place(key: &[u8; 32]) -> usize {
    let [low, high, ..] = *key;
    usize::from(u16::from_le_bytes([low, high])) % CACHED_KEYS
}

/// Returns a signature's r and s.
fn halves(signature: &[u8; 64]) -> ([u8; 32], [u8; 32]) {
    let (mut r, mut s) = ([0; 32], [0; 32]);
    let (first, second) = signature.split_at(32);
    r.copy_from_slice(first);
    s.copy_from_slice(second);
    (r, s)
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;
    use crate::testing;

    const SEED: [u8; 32] = [5; 32];

    /// Two signatures of one author and one of another's, wrong by opposite amounts.
    fn cancelling() -> Vec<testing::Signed> {
        let mut signed: Vec<_> = (0..20).map(|n| testing::Signed::by(n % 3, n)).collect();
        let [one, .., other] = &mut signed[..] else {
            unreachable!("there are 20")
        };
        // Middle bytes: neither overflows in these.
        one.signature[40] += 1;
        other.signature[40] -= 1;
        signed
    }

    #[test]
    fn without_randomizers_opposite_errors_cancel_and_with_them_they_do_not() {
        let signed = cancelling();
        let items: Vec<_> = signed.iter().map(testing::Signed::item).collect();
        assert_eq!(items.iter().filter(|item| !item.is_valid()).count(), 2);
        let mut verifier = BatchVerifier::new();
        let read = verifier.read(&items);
        assert_eq!(read.signed.len(), 20);
        let plain = iter::repeat(1);
        let equations = &mut verifier.equations;
        assert!(equations.hold(&read.signed, &read.authors, plain));
        assert!(!verifier.holds(&read, &read.signed, &SEED));
        assert!(!verifier.verify(&items, &SEED));
    }

    #[test]
    fn randomizers_differ_with_the_seed_and_with_any_part_of_the_batch() {
        let mut signed: Vec<_> = (0..21).map(|n| testing::Signed::by(n % 3, n)).collect();
        let drawn = |signed: &[testing::Signed], seed: [u8; 32]| -> Vec<u128> {
            let items: Vec<_> = signed.iter().map(testing::Signed::item).collect();
            let read = BatchVerifier::new().read(&items);
            let drawn: Vec<_> = randomizers(&seed, &read.signed).take(21).collect();
            assert_eq!(drawn.len(), 21);
            drawn
        };
        let first = drawn(&signed, SEED);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 21, "no two are the same");
        assert_eq!(drawn(&signed, SEED), first);
        let differs = |other: &[u128]| first.iter().zip(other).all(|(one, other)| one != other);
        assert!(differs(&drawn(&signed, [6; 32])));
        signed[20].message[31] ^= 1;
        assert!(differs(&drawn(&signed, SEED)));
        signed[20].message[31] ^= 1;
        signed[3].signature[63] ^= 1;
        assert!(differs(&drawn(&signed, SEED)));
    }

    #[test]
    fn too_few_randomizers_prove_nothing() {
        let signed: Vec<_> = (0..20).map(|n| testing::Signed::by(n % 3, n)).collect();
        let items: Vec<_> = signed.iter().map(testing::Signed::item).collect();
        let mut verifier = BatchVerifier::new();
        let read = verifier.read(&items);
        let few = iter::repeat_n(1, 19);
        assert!(!verifier.equations.hold(&read.signed, &read.authors, few));
    }

    /// A search is bounded: at most three times the batch goes into equations.
    #[test]
    fn one_bad_signature_costs_less_than_three_batches() {
        for place in [0, 100, 255] {
            let mut signed: Vec<_> = (0..256).map(|n| testing::Signed::by(n, n)).collect();
            signed[place].message[0] ^= 1;
            let items: Vec<_> = signed.iter().map(testing::Signed::item).collect();
            let mut verifier = BatchVerifier::new();
            let read = verifier.read(&items);
            let mut search = Search {
                verifier: &mut verifier,
                read: &read,
                seed: &SEED,
                valid: vec![false; 256],
                left: EQUATIONS_MAX * 256,
            };
            assert!(!search.among(&read.signed, false));
            assert!(search.left > 0);
            let alone = search.valid.iter().filter(|valid| !**valid).count();
            assert!(alone <= 16, "{alone} are checked alone");
        }
    }
}
