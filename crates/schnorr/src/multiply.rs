//! Sums of many points, each times a number of 128 bits: Pippenger's buckets.
//!
//! Each number is written with signed digits of c bits. For each place of the digits (a *window*) there
//! is a bucket for each absolute value of a digit, into which the points with that digit are added.
//! The buckets of a window, weighed by their digits, are then summed, and the windows joined by
//! doubling.
//!
//! Nearly all of it is additions of points by their coordinates, 5 multiplications and a squaring
//! each, because one division serves hundreds of them. So everything is arranged in rounds of
//! additions that do not need each other: see [`Rounds`].

#![expect(
    clippy::indexing_slicing,
    reason = "places that were counted here, from the same lengths"
)]

use crate::{
    field::Field,
    point::{Affine, Jacobian},
    scalar::Half,
};

/// Points whose buckets are filled at the same time: about what the second-level cache holds.
const POINTS_AT_ONCE: usize = 2048;

/// Memory that is used again for each sum.
#[derive(Default)]
pub(crate) struct Sums {
    rounds: Rounds,
    /// For each window the digits of all numbers.
    digits: Vec<i16>,
    /// Runs of points to be added up, one behind another, and how long each is.
    points: Vec<Affine>,
    runs: Vec<u32>,
    /// What becomes of them in a round.
    added: Vec<Affine>,
    /// The buckets of all windows.
    buckets: Vec<Affine>,
    /// Where the next point of a bucket belongs.
    places: Vec<u32>,
}

impl Sums {
    /// Tells whether the sum of all points times their numbers is the infinite point.
    pub(crate) fn is_infinite(&mut self, terms: &[(Affine, Half)]) -> bool {
        self.of(terms).is_infinite()
    }

    /// Returns the sum of all points times their numbers.
    pub(crate) fn of(&mut self, terms: &[(Affine, Half)]) -> Jacobian {
        self.of_width(terms, width(terms.len()))
    }

    /// The same, with digits of so many bits (2 to 14).
    pub(crate) fn of_width(&mut self, terms: &[(Affine, Half)], bits: usize) -> Jacobian {
        // One bit more than the numbers have: the last digit's sign.
        let windows = 128 / bits + 1;
        self.write_digits(terms, bits, windows);
        self.buckets.clear();
        let at_once = (POINTS_AT_ONCE / terms.len().max(1)).max(1);
        let mut first = 0;
        while first < windows {
            let end = (first + at_once).min(windows);
            self.fill_buckets(terms, bits, first..end);
            first = end;
        }
        self.weigh_buckets(bits - 1);
        // For each window now: what the bits of (digit - 1) are worth, lowest first, and the 1.
        let mut sum = Jacobian::INFINITE;
        for window in self.buckets.chunks_exact(bits).rev() {
            let Some((units, weighed)) = window.split_last() else {
                break;
            };
            sum = sum.doubled();
            for part in weighed.iter().rev() {
                sum = sum.doubled().plus(part);
            }
            sum = sum.plus(units);
        }
        sum
    }

    /// Writes the numbers with digits from -2^(bits - 1) to 2^(bits - 1).
    fn write_digits(&mut self, terms: &[(Affine, Half)], bits: usize, windows: usize) {
        let (mask, half) = ((1u128 << bits) - 1, 1i16 << (bits - 1));
        self.digits.clear();
        self.digits.resize(terms.len() * windows, 0);
        for (at, (_, number)) in terms.iter().enumerate() {
            let (mut rest, mut carry) = (number.magnitude, 0i16);
            for digit in self.digits.iter_mut().skip(at).step_by(terms.len()) {
                let mut value = (rest & mask) as i16 + carry;
                rest >>= bits;
                carry = i16::from(value > half);
                value -= carry << bits;
                *digit = if number.negative { -value } else { value };
            }
        }
    }

    /// Sorts the points of some windows by their digits and adds up what falls into one bucket.
    fn fill_buckets(
        &mut self,
        terms: &[(Affine, Half)],
        bits: usize,
        windows: std::ops::Range<usize>,
    ) {
        let buckets = 1usize << (bits - 1);
        self.runs.clear();
        self.runs.resize(windows.len() * buckets, 0);
        let digits = || {
            windows
                .clone()
                .flat_map(|window| &self.digits[window * terms.len()..][..terms.len()])
        };
        let bucket = |place: usize, digit: i16| {
            place / terms.len() * buckets + usize::from(digit.unsigned_abs()) - 1
        };
        for (place, digit) in digits().enumerate().filter(|(_, digit)| **digit != 0) {
            self.runs[bucket(place, *digit)] += 1;
        }
        self.places.clear();
        let mut end = 0;
        self.places.extend(self.runs.iter().map(|run| {
            end += run;
            end - run
        }));
        self.points.clear();
        self.points.resize(end as usize, Affine::INFINITE);
        for (place, digit) in digits().enumerate().filter(|(_, digit)| **digit != 0) {
            let point = &terms[place % terms.len()].0;
            let free = &mut self.places[bucket(place, *digit)];
            self.points[*free as usize] = if *digit < 0 { point.negated() } else { *point };
            *free += 1;
        }
        while self.runs.iter().any(|run| *run > 1) {
            self.halve_runs();
        }
        let mut points = self.points.iter();
        self.buckets.extend(self.runs.iter().map(|run| {
            let point = if *run == 1 { points.next() } else { None };
            point.copied().unwrap_or(Affine::INFINITE)
        }));
    }

    /// Adds the points of each run in pairs.
    fn halve_runs(&mut self) {
        let (mut from, mut to) = (0, 0);
        self.added.clear();
        self.added.resize(self.points.len(), Affine::INFINITE);
        for run in &mut self.runs {
            for _ in 0..*run / 2 {
                self.rounds.add(&self.points, from, to, &mut self.added);
                from += 2;
                to += 1;
            }
            if *run % 2 == 1 {
                self.added[to] = self.points[from];
                from += 1;
                to += 1;
            }
            *run = run.div_ceil(2);
        }
        self.rounds.finish(&self.points, &mut self.added);
        self.added.truncate(to);
        std::mem::swap(&mut self.points, &mut self.added);
    }

    /// Makes of the 2^`levels` buckets of each window, whose weights are 1, 2, 3, ..., the sums of
    /// those whose weight less 1 has bit 0, bit 1, ..., and the sum of all.
    ///
    /// With every level the buckets are added in pairs, and those at odd places, which have the bit of
    /// this level, begin a sum of their own; the sums begun before are added in pairs beside.
    fn weigh_buckets(&mut self, levels: usize) {
        for level in 0..levels {
            let size = 1 << (levels - level);
            let window = (level + 1) * size;
            self.added.clear();
            self.added.resize(
                self.buckets.len() / window * (level + 2) * size / 2,
                Affine::INFINITE,
            );
            let mut to = 0;
            for from in (0..self.buckets.len()).step_by(window) {
                for pair in (0..level * size).step_by(2) {
                    self.rounds
                        .add(&self.buckets, from + pair, to, &mut self.added);
                    to += 1;
                }
                for pair in (level * size..window).step_by(2) {
                    self.added[to] = self.buckets[from + pair + 1];
                    let joined = to + size / 2;
                    self.rounds
                        .add(&self.buckets, from + pair, joined, &mut self.added);
                    to += 1;
                }
                to += size / 2;
            }
            self.rounds.finish(&self.buckets, &mut self.added);
            std::mem::swap(&mut self.buckets, &mut self.added);
        }
    }
}

/// Returns the bits of a digit that cost least for so many points.
fn width(points: usize) -> usize {
    match points {
        0..12 => 3,
        12..40 => 4,
        40..120 => 5,
        120..300 => 6,
        300..1000 => 7,
        1000..2200 => 8,
        2200..5000 => 9,
        _ => 10,
    }
}

/// A round of additions of neighbours that do not need each other's results. They share one division:
/// of the product of all denominators, from which each one's inverse is got by multiplying with the
/// product of those before it.
#[derive(Default)]
struct Rounds {
    additions: Vec<Addition>,
}

struct Addition {
    from: u32,
    to: u32,
    is_doubling: bool,
    denominator: Field,
    /// The product of the denominators before this one.
    before: Field,
}

impl Rounds {
    /// Has points `from` and `from` + 1 added into `to`: at once if that takes no division.
    #[inline]
    fn add(&mut self, points: &[Affine], from: usize, to: usize, sums: &mut [Affine]) {
        let (a, b) = (&points[from], &points[from + 1]);
        if a.is_infinite() || b.is_infinite() {
            sums[to] = if a.is_infinite() { *b } else { *a };
            return;
        }
        let mut denominator = b.x.minus::<1>(&a.x);
        let is_doubling = denominator.is_zero();
        if is_doubling {
            if !b.y.minus::<1>(&a.y).is_zero() {
                sums[to] = Affine::INFINITE;
                return;
            }
            denominator = a.y.times(2);
        }
        let before = self
            .additions
            .last()
            .map_or(Field::ONE, |last| last.before.mul(&last.denominator));
        self.additions.push(Addition {
            from: from as u32,
            to: to as u32,
            is_doubling,
            denominator,
            before,
        });
    }

    /// Carries the additions out.
    fn finish(&mut self, points: &[Affine], sums: &mut [Affine]) {
        let Some(last) = self.additions.last() else {
            return;
        };
        let mut inverse = last.before.mul(&last.denominator).inverse();
        for addition in self.additions.drain(..).rev() {
            let from = addition.from as usize;
            let (a, b) = (&points[from], &points[from + 1]);
            let over = inverse.mul(&addition.before);
            inverse = inverse.mul(&addition.denominator);
            let rise = if addition.is_doubling {
                a.x.squared().times(3)
            } else {
                b.y.minus::<1>(&a.y)
            };
            let slope = rise.mul(&over);
            let x = slope.squared().minus::<2>(&a.x.plus(&b.x)).carried();
            let y = slope.mul(&a.x.minus::<1>(&x)).minus::<1>(&a.y).carried();
            sums[addition.to as usize] = Affine { x, y };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use secp256k1::{PublicKey, SecretKey, scalar};

    use super::*;
    use crate::scalar::Scalar;

    fn bytes(words: [u64; 4]) -> [u8; 32] {
        let bytes: Vec<_> = words.iter().rev().flat_map(|w| w.to_be_bytes()).collect();
        bytes.try_into().unwrap()
    }

    fn number(magnitude: u128, negative: bool) -> Half {
        Half {
            negative,
            magnitude,
        }
    }

    /// The generator times a small number, as libsecp256k1 has it.
    fn multiple(of: u8) -> (Affine, PublicKey) {
        let mut secret = [0; 32];
        secret[31] = of;
        let theirs = PublicKey::from_secret_key(&SecretKey::from_secret_bytes(secret).unwrap());
        let all = theirs.serialize_uncompressed();
        let coordinate = |from: usize| Field::from_bytes(all[from..from + 32].try_into().unwrap());
        let (x, y) = (coordinate(1).unwrap(), coordinate(33).unwrap());
        (Affine { x, y }, theirs)
    }

    fn uncompressed(point: Jacobian) -> Option<Vec<u8>> {
        let point = point.to_affine();
        (!point.is_infinite()).then(|| {
            let (x, y) = (bytes(point.x.to_words()), bytes(point.y.to_words()));
            [&[4], &x[..], &y[..]].concat()
        })
    }

    /// The sum by libsecp256k1; none if it is infinite.
    fn sum(terms: &[(u8, u128, bool)]) -> Option<Vec<u8>> {
        let parts: Vec<_> = terms
            .iter()
            .filter(|(_, by, _)| *by != 0)
            .map(|(of, by, negative)| {
                let mut words = [0; 32];
                words[16..].copy_from_slice(&by.to_be_bytes());
                let by = scalar::Scalar::from_be_bytes(words).unwrap();
                let point = multiple(*of).1.mul_tweak(&by).unwrap();
                if *negative { point.negate() } else { point }
            })
            .collect();
        // libsecp256k1 has no infinite point: it refuses to make one.
        let keys: Vec<_> = parts.iter().collect();
        let sum = (!keys.is_empty()).then(|| PublicKey::combine_keys(&keys).ok())??;
        Some(sum.serialize_uncompressed().to_vec())
    }

    fn ours(terms: &[(u8, u128, bool)], bits: usize) -> Option<Vec<u8>> {
        let terms: Vec<_> = terms
            .iter()
            .map(|(of, by, negative)| (multiple(*of).0, number(*by, *negative)))
            .collect();
        uncompressed(Sums::default().of_width(&terms, bits))
    }

    /// Few points and few numbers, so that points meet themselves and their negatives in buckets and
    /// beyond; and numbers whose digits are at their ends.
    fn any_terms() -> impl Strategy<Value = Vec<(u8, u128, bool)>> {
        let by = prop_oneof![
            2 => any::<u128>(),
            3 => 0u128..5,
            1 => Just(u128::MAX),
            1 => (0u32..128).prop_map(|bit| 1 << bit),
            1 => (0u32..128).prop_map(|bit| (1 << bit) - 1),
            1 => Just(0x8080_8080_8080_8080_8080_8080_8080_8080),
        ];
        prop::collection::vec((1u8..6, by, any::<bool>()), 0..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn sums_are_those_of_libsecp256k1(terms in any_terms(), bits in 2usize..12) {
            prop_assert_eq!(ours(&terms, bits), sum(&terms));
        }
    }

    #[test]
    fn points_that_meet_themselves_or_their_negatives_add_up() {
        let cases: [&[(u8, u128, bool)]; 7] = [
            &[],
            &[(1, 0, false)],
            &[(1, 5, false), (1, 5, true)],
            &[(1, 5, false), (1, 5, false)],
            &[(1, 5, false), (1, 5, false), (1, 5, true), (1, 5, true)],
            &[
                (3, 7, false),
                (3, 7, true),
                (2, 7, false),
                (2, 7, false),
                (4, 7, true),
            ],
            // 2 + 4 = 6 only after two rounds; 1 * 6 in the same bucket.
            &[
                (2, 1, false),
                (4, 1, false),
                (6, 1, true),
                (1, u128::MAX, false),
                (1, u128::MAX, true),
            ],
        ];
        for terms in cases {
            for bits in 2..12 {
                assert_eq!(ours(terms, bits), sum(terms), "{terms:?}, {bits} bits");
            }
        }
    }

    #[test]
    fn memory_used_again_does_not_matter() {
        let mut sums = Sums::default();
        for of in [200, 3, 70, 1, 0] {
            let terms: Vec<_> = (0..of)
                .map(|i| {
                    (
                        multiple(i + 1).0,
                        number(u128::MAX / 201 * u128::from(i), i % 3 == 0),
                    )
                })
                .collect();
            let fresh = uncompressed(Sums::default().of_width(&terms, 4));
            assert_eq!(uncompressed(sums.of(&terms)), fresh);
        }
    }

    #[test]
    fn lambda_multiplies_points_as_it_does_numbers() {
        let (point, theirs) = multiple(7);
        let scalar = Scalar::from_bytes_reduced(&[0xAB; 32]);
        let [one, lambda] = scalar.split();
        let by = scalar::Scalar::from_be_bytes(bytes(scalar.to_words())).unwrap();
        let expected = theirs.mul_tweak(&by).unwrap();
        let terms = [(point, one), (point.times_lambda(), lambda)];
        assert_eq!(
            uncompressed(Sums::default().of(&terms)),
            Some(expected.serialize_uncompressed().to_vec())
        );
    }
}
