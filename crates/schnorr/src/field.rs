//! Numbers modulo p = 2^256 - 2^32 - 977, in which the curve's coordinates are counted.
//!
//! Five limbs of 52 bits, so that sums need no carry: each limb has 12 bits of headroom. How much of
//! it a value may have used is its *magnitude* m: limbs up to 2m(2^52 - 1), the last one up to
//! 2m(2^48 - 1). Products take magnitudes up to 8 and have magnitude 1.

use crate::inverse;

const MASK: u64 = (1 << 52) - 1;
/// 2^260 modulo p: what a carry out of the fifth limb is worth.
const FOLD: u64 = 0x10_0000_3D10;
/// p in limbs.
const P: [u64; 5] = [0xF_FFFE_FFFF_FC2F, MASK, MASK, MASK, MASK >> 4];

/// A number modulo p.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field([u64; 5]);

impl Field {
    pub(crate) const ZERO: Self = Self([0; 5]);
    pub(crate) const ONE: Self = Self([1, 0, 0, 0, 0]);
    /// The curve: y² = x³ + 7.
    const SEVEN: Self = Self([7, 0, 0, 0, 0]);

    /// Makes a number of 64-bit words, lowest first. They are below p.
    pub(crate) const fn from_words([a, b, c, d]: [u64; 4]) -> Self {
        Self([
            a & MASK,
            (a >> 52 | b << 12) & MASK,
            (b >> 40 | c << 24) & MASK,
            (c >> 28 | d << 36) & MASK,
            d >> 16,
        ])
    }

    /// Reads 32 bytes, highest first; none if they are p or more.
    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        let number = Self::from_words(words(bytes));
        let [a, b, c, d, e] = number.0;
        let too_high = e == P[4] && b & c & d == MASK && a >= P[0];
        (!too_high).then_some(number)
    }

    /// Returns the reduced number as 64-bit words, lowest first.
    pub(crate) fn to_words(self) -> [u64; 4] {
        let [a, b, c, d, e] = self.reduced().0;
        [
            a | b << 52,
            b >> 12 | c << 40,
            c >> 24 | d << 28,
            d >> 36 | e << 16,
        ]
    }

    /// Tells whether all limbs are zero: not so for p itself.
    #[inline]
    pub(crate) fn is_blank(&self) -> bool {
        let [a, b, c, d, e] = self.0;
        a | b | c | d | e == 0
    }

    /// Tells whether the number is 0 modulo p, for any magnitude up to 32.
    #[inline]
    pub(crate) fn is_zero(&self) -> bool {
        // Nearly every number is told by its lowest limb.
        let low = (self.0[0] + (self.0[4] >> 48) * (FOLD >> 4)) & MASK;
        (low == 0 || low == P[0]) && self.reduced().is_blank()
    }

    /// Tells whether the reduced number is odd.
    pub(crate) fn is_odd(&self) -> bool {
        self.reduced().0[0] & 1 == 1
    }

    /// Brings any magnitude up to 32 back to 1.
    #[inline]
    pub(crate) fn carried(self) -> Self {
        let [a, b, c, d, e] = self.0;
        let a = a + (e >> 48) * (FOLD >> 4);
        let b = b + (a >> 52);
        let c = c + (b >> 52);
        let d = d + (c >> 52);
        let e = (e & MASK >> 4) + (d >> 52);
        Self([a & MASK, b & MASK, c & MASK, d & MASK, e])
    }

    /// Returns the one representation below p.
    fn reduced(self) -> Self {
        // The first carry leaves less than 2^256 + a little, the second less than 2^256.
        let once = self.carried().carried();
        let [a, b, c, d, e] = once.0;
        if e == P[4] && b & c & d == MASK && a >= P[0] {
            return Self([a - P[0], 0, 0, 0, 0]);
        }
        once
    }

    #[inline]
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let ([a, b, c, d, e], [f, g, h, i, j]) = (self.0, other.0);
        Self([a + f, b + g, c + h, d + i, e + j])
    }

    /// Returns the number times a small one; its magnitude grows as much.
    #[inline]
    pub(crate) fn times(&self, small: u64) -> Self {
        Self(self.0.map(|limb| limb * small))
    }

    /// Returns the number minus another of magnitude `M`; its magnitude grows by `M` + 1.
    #[inline]
    pub(crate) fn minus<const M: u64>(&self, other: &Self) -> Self {
        let ([a, b, c, d, e], [f, g, h, i, j]) = (self.0, other.0);
        let by = 2 * (M + 1);
        Self([
            a + (P[0] * by - f),
            b + (MASK * by - g),
            c + (MASK * by - h),
            d + (MASK * by - i),
            e + (P[4] * by - j),
        ])
    }

    /// Returns minus the number, which is of magnitude 1; the result is of magnitude 2.
    #[inline]
    pub(crate) fn negated(&self) -> Self {
        Self::ZERO.minus::<1>(self)
    }

    /// Multiplies column by column.
    #[inline(always)]
    pub(crate) fn mul(&self, other: &Self) -> Self {
        let [a0, a1, a2, a3, a4] = self.0.map(|limb| limb << 6);
        let [b0, b1, b2, b3, b4] = other.0.map(|limb| limb << 6);
        folded(|column| match column {
            0 => wide(a0, b0),
            1 => wide(a0, b1) + wide(a1, b0),
            2 => wide(a0, b2) + wide(a1, b1) + wide(a2, b0),
            3 => wide(a0, b3) + wide(a1, b2) + wide(a2, b1) + wide(a3, b0),
            4 => wide(a0, b4) + wide(a1, b3) + wide(a2, b2) + wide(a3, b1) + wide(a4, b0),
            5 => wide(a1, b4) + wide(a2, b3) + wide(a3, b2) + wide(a4, b1),
            6 => wide(a2, b4) + wide(a3, b3) + wide(a4, b2),
            7 => wide(a3, b4) + wide(a4, b3),
            _ => wide(a4, b4),
        })
    }

    #[inline(always)]
    pub(crate) fn squared(&self) -> Self {
        let [a0, a1, a2, a3, a4] = self.0.map(|limb| limb << 6);
        folded(|column| match column {
            0 => wide(a0, a0),
            1 => wide(2 * a0, a1),
            2 => wide(2 * a0, a2) + wide(a1, a1),
            3 => wide(2 * a0, a3) + wide(2 * a1, a2),
            4 => wide(a0, 2 * a4) + wide(2 * a1, a3) + wide(a2, a2),
            5 => wide(a1, 2 * a4) + wide(2 * a2, a3),
            6 => wide(a2, 2 * a4) + wide(a3, a3),
            7 => wide(a3, 2 * a4),
            _ => wide(a4, a4),
        })
    }

    /// Returns 1 / the number; 0 for 0.
    pub(crate) fn inverse(&self) -> Self {
        Self::from_words(inverse::modulo_p(self.to_words()))
    }
}

/// Carries the nine columns of a product, each below 2^(2 * 56 + 3) and here 2^12 times as much: so a
/// column's upper word is what it carries, its lower word is the limb times 2^12, and no 128-bit number
/// is shifted to the right.
///
/// The upper columns, from the fourth, and the lower ones are carried at the same time, so that the
/// upper are folded into the lower as they come.
#[inline(always)]
fn folded(column: impl Fn(u8) -> u128) -> Field {
    let last = column(8);
    let mut upper = column(3) + wide(FOLD, low(last));
    let t3 = low(upper) >> 12;
    upper = carry(upper) + column(4) + wide(FOLD << 12, high(last));
    let t4 = low(upper) >> 12;
    upper = carry(upper) + column(5);
    // From bit 48 of the fifth limb on a bit is worth 2^256 and more, and 2^256 is FOLD / 16.
    let top = (low(upper) >> 12) << 4 | t4 >> 48;
    let mut lower = column(0) + wide(top, FOLD << 8);
    let r0 = low(lower) >> 12;
    upper = carry(upper) + column(6);
    lower = carry(lower) + column(1) + wide(FOLD, low(upper));
    let r1 = low(lower) >> 12;
    upper = carry(upper) + column(7);
    lower = carry(lower) + column(2) + wide(FOLD, low(upper));
    let r2 = low(lower) >> 12;
    lower = carry(lower) + wide(FOLD << 12, high(upper)) + u128::from(t3 << 12);
    let r3 = low(lower) >> 12;
    let r4 = high(lower) + (t4 & MASK >> 4);
    Field([r0, r1, r2, r3, r4])
}

/// Finds for `LANES` abscissas (magnitude 1) the even ordinate of the curve's point there; none where
/// the curve has no such point.
///
/// A square root is 254 squarings, each of which waits for the one before; those of several lanes fill
/// the processor's pauses.
pub(crate) fn ordinates<const LANES: usize>(xs: &[Field; LANES]) -> [Option<Field>; LANES] {
    let squares = xs.map(|x| x.squared().mul(&x).plus(&Field::SEVEN));
    // The exponent (p + 1) / 4 is, in bits: 223 ones, 0, 22 ones, 0000, 11, 00.
    let ones_2 = raised(&squares, 1, &squares);
    let ones_3 = raised(&ones_2, 1, &squares);
    let ones_6 = raised(&ones_3, 3, &ones_3);
    let ones_9 = raised(&ones_6, 3, &ones_3);
    let ones_11 = raised(&ones_9, 2, &ones_2);
    let ones_22 = raised(&ones_11, 11, &ones_11);
    let ones_44 = raised(&ones_22, 22, &ones_22);
    let ones_88 = raised(&ones_44, 44, &ones_44);
    let ones_176 = raised(&ones_88, 88, &ones_88);
    let ones_220 = raised(&ones_176, 44, &ones_44);
    let ones_223 = raised(&ones_220, 3, &ones_3);
    let roots = raised(&ones_223, 23, &ones_22);
    let mut roots = raised(&roots, 6, &ones_2).map(|root| root.squared().squared());
    let mut exist = [false; LANES];
    for ((root, square), exists) in roots.iter_mut().zip(&squares).zip(&mut exist) {
        *exists = root.squared().minus::<2>(square).is_zero();
        if root.is_odd() {
            *root = root.negated().carried();
        }
    }
    let mut exist = exist.into_iter();
    roots.map(|root| exist.next().unwrap_or(false).then_some(root))
}

/// Squares each number so many times and multiplies by what belongs to it.
#[inline(always)]
fn raised<const LANES: usize>(
    numbers: &[Field; LANES],
    squarings: u32,
    by: &[Field; LANES],
) -> [Field; LANES] {
    let mut raised = *numbers;
    for _ in 0..squarings {
        for number in &mut raised {
            *number = number.squared();
        }
    }
    for (number, by) in raised.iter_mut().zip(by) {
        *number = number.mul(by);
    }
    raised
}

/// Reads four 64-bit words, lowest first, of 32 bytes, highest first.
pub(crate) fn words(bytes: &[u8; 32]) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().rev().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_be_bytes(*bytes);
    }
    words
}

#[inline(always)]
fn wide(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

#[inline(always)]
fn low(number: u128) -> u64 {
    number as u64
}

#[inline(always)]
fn high(number: u128) -> u64 {
    (number >> 64) as u64
}

/// Returns what a column carries, as the next one counts.
#[inline(always)]
fn carry(column: u128) -> u128 {
    u128::from(high(column)) << 12
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;
    use proptest::prelude::*;

    use super::*;

    fn p() -> BigUint {
        (BigUint::from(1u8) << 256) - 0x1_0000_03D1u64
    }

    /// Numbers with what carries are about: words that are all ones or nearly, and those next to p.
    pub(crate) fn any_words() -> impl Strategy<Value = [u64; 4]> {
        let word = prop_oneof![
            4 => any::<u64>(),
            1 => Just(0),
            1 => Just(u64::MAX),
            1 => (0u64..20).prop_map(|less| u64::MAX - less),
            1 => (0u32..64).prop_map(|bit| 1 << bit),
        ];
        let near_p = (0u64..1000)
            .prop_map(|less| [0xFFFF_FFFE_FFFF_FC2E - less, u64::MAX, u64::MAX, u64::MAX]);
        prop_oneof![5 => prop::array::uniform4(word), 1 => near_p]
    }

    fn below_p() -> impl Strategy<Value = Field> {
        any_words().prop_filter_map("p or more", |words| {
            (model(words) < p()).then(|| Field::from_words(words))
        })
    }

    /// Numbers of magnitude 8 and less, as they come out of sums and differences.
    fn of_magnitude_8() -> impl Strategy<Value = (Field, BigUint)> {
        (below_p(), below_p(), 0..5u8).prop_map(|(a, b, how)| {
            let (m, n) = (value(&a), value(&b));
            match how {
                0 => (a, m),
                1 => (a.times(8), m * 8u8),
                2 => (a.minus::<1>(&b), m + p() - n),
                3 => (a.minus::<6>(&b.times(6)), m + p() * 6u8 - n * 6u8),
                _ => (a.negated().plus(&b.times(6)), p() - m + n * 6u8),
            }
        })
    }

    fn model(words: [u64; 4]) -> BigUint {
        let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        BigUint::from_bytes_le(&bytes)
    }

    fn value(number: &Field) -> BigUint {
        model(number.to_words())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn sums_and_products_are_those_of_whole_numbers(
            (a, m) in of_magnitude_8(),
            (b, n) in of_magnitude_8(),
        ) {
            prop_assert_eq!(value(&a), &m % p());
            prop_assert_eq!(value(&a.carried()), &m % p());
            prop_assert_eq!(value(&a.plus(&b)), (&m + &n) % p());
            prop_assert_eq!(value(&a.minus::<8>(&b)), (&m + p() * 8u8 - &n) % p());
            prop_assert_eq!(value(&a.mul(&b)), (&m * &n) % p());
            prop_assert_eq!(value(&a.squared()), (&m * &m) % p());
            prop_assert_eq!(a.is_zero(), &m % p() == BigUint::ZERO);
            prop_assert!(a.minus::<8>(&a).is_zero());
            prop_assert_eq!(a.is_odd(), (&m % p()).bit(0));
            let twice = a.mul(&b).mul(&a.mul(&b).negated());
            prop_assert_eq!(value(&twice), (p() * p() - (&m * &n) % p() * ((&m * &n) % p())) % p());
        }

        #[test]
        fn inverses_are_powers_to_p_minus_2((a, m) in of_magnitude_8()) {
            prop_assert_eq!(value(&a.inverse()), m.modpow(&(p() - 2u8), &p()));
        }

        #[test]
        fn ordinates_are_even_roots_where_there_are_any(xs in prop::array::uniform4(below_p())) {
            let together = ordinates(&xs);
            for (x, y) in xs.iter().zip(together) {
                let square = (value(x).modpow(&3u8.into(), &p()) + 7u8) % p();
                let is_square = square.modpow(&((p() - 1u8) >> 1), &p()) == BigUint::from(1u8);
                prop_assert_eq!(y.is_some(), is_square);
                prop_assert_eq!(y.map(super::Field::to_words), ordinates(&[*x])[0].map(super::Field::to_words));
                if let Some(y) = y {
                    prop_assert_eq!(value(&y).modpow(&2u8.into(), &p()), square);
                    prop_assert!(!y.is_odd());
                }
            }
        }
    }

    #[test]
    fn numbers_from_p_on_are_refused() {
        let bytes = |number: &BigUint| <[u8; 32]>::try_from(number.to_bytes_be()).unwrap();
        assert!(Field::from_bytes(&bytes(&p())).is_none());
        assert!(Field::from_bytes(&bytes(&(p() + 1u8))).is_none());
        assert!(Field::from_bytes(&[0xFF; 32]).is_none());
        let highest = Field::from_bytes(&bytes(&(p() - 1u8))).unwrap();
        assert_eq!(value(&highest), p() - 1u8);
    }

    #[test]
    fn zero_has_many_faces_and_no_inverse() {
        let faces = [
            Field::ZERO,
            Field::ONE.minus::<1>(&Field::ONE),
            Field::from_words([0xFFFF_FFFE_FFFF_FC2F, u64::MAX, u64::MAX, u64::MAX]),
        ];
        for zero in faces {
            assert!(zero.is_zero());
            assert_eq!(value(&zero), BigUint::ZERO);
            assert_eq!(value(&zero.inverse()), BigUint::ZERO);
        }
    }
}
