//! Numbers modulo n, the order of the curve's group: what points are multiplied by.

#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "words of fixed arrays, counted by loops of fixed ends"
)]

use crate::field::words;

/// n = 2^256 - `REST`.
const N: [u64; 4] = [
    0xBFD2_5E8C_D036_4141,
    0xBAAE_DCE6_AF48_A03B,
    0xFFFF_FFFF_FFFF_FFFE,
    0xFFFF_FFFF_FFFF_FFFF,
];
const REST: [u64; 3] = [0x402D_A173_2FC9_BEBF, 0x4551_2319_50B7_5FC4, 1];

/// A number modulo n: four words, lowest first, below n.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scalar([u64; 4]);

/// A number of 128 bits with a sign.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Half {
    pub(crate) negative: bool,
    pub(crate) magnitude: u128,
}

impl Scalar {
    pub(crate) const ZERO: Self = Self([0; 4]);
    /// The cube root of 1 by which a point is multiplied when its abscissa is multiplied by β.
    const LAMBDA: Self = Self([
        0xDF02_967C_1B23_BD72,
        0x122E_22EA_2081_6678,
        0xA526_1C02_8812_645A,
        0x5363_AD4C_C05C_30E0,
    ]);

    /// Reads 32 bytes, highest first; none if they are n or more.
    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        let words = words(bytes);
        is_below_n(&words).then_some(Self(words))
    }

    /// Reads 32 bytes, highest first, modulo n.
    pub(crate) fn from_bytes_reduced(bytes: &[u8; 32]) -> Self {
        Self::from_words_reduced(words(bytes))
    }

    fn from_words_reduced(mut words: [u64; 4]) -> Self {
        if !is_below_n(&words) {
            add_product(&mut words, &REST, &[1]);
        }
        Self(words)
    }

    /// Returns the words, lowest first.
    pub(crate) fn to_words(self) -> [u64; 4] {
        self.0
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut sum = self.0;
        if add_product(&mut sum, &other.0, &[1]) {
            // 2^256 is REST, and what is left over is far below n - REST.
            add_product(&mut sum, &REST, &[1]);
        }
        Self::from_words_reduced(sum)
    }

    pub(crate) fn negated(&self) -> Self {
        if *self == Self::ZERO {
            return *self;
        }
        let mut borrow = false;
        let mut words = N;
        for (word, own) in words.iter_mut().zip(self.0) {
            let (less, one) = word.overflowing_sub(own);
            let (less, two) = less.overflowing_sub(u64::from(borrow));
            (*word, borrow) = (less, one | two);
        }
        Self(words)
    }

    pub(crate) fn mul(&self, other: &Self) -> Self {
        self.mul_words(&other.0)
    }

    /// Multiplies by a number of 128 bits.
    pub(crate) fn mul_short(&self, short: u128) -> Self {
        self.mul_words(&[short as u64, (short >> 64) as u64])
    }

    fn mul_words<const WORDS: usize>(&self, other: &[u64; WORDS]) -> Self {
        let mut product = [0; 8];
        add_product(&mut product, &self.0, other);
        // 512 bits to 385, to 259, to 256: what is above 2^256 is worth REST times as much.
        let [low @ .., a, b, c, d] = product;
        let mut folded = [low[0], low[1], low[2], low[3], 0, 0, 0];
        add_product(&mut folded, &[a, b, c, d], &REST);
        let [low @ .., a, b, c] = folded;
        let mut folded = [low[0], low[1], low[2], low[3], 0];
        add_product(&mut folded, &[a, b, c], &REST);
        let [low @ .., top] = folded;
        let mut words = low;
        if add_product(&mut words, &REST, &[top]) {
            add_product(&mut words, &REST, &[1]);
        }
        Self::from_words_reduced(words)
    }

    /// Splits k into a and b of at most 128 bits such that k = a + b λ: (a, b) is k less the nearest
    /// point of the lattice of pairs that come to 0 (Hankerson, Menezes, Vanstone, "Guide to Elliptic
    /// Curve Cryptography", 3.5). The point is found by multiplying with rounded quotients of 2^384.
    pub(crate) fn split(&self) -> [Half; 2] {
        const QUOTIENTS: [[u64; 4]; 2] = [
            [
                0xE893_209A_45DB_B031,
                0x3DAA_8A14_71E8_CA7F,
                0xE86C_90E4_9284_EB15,
                0x3086_D221_A7D4_6BCD,
            ],
            [
                0x1571_B4AE_8AC4_7F71,
                0x2212_08AC_9DF5_06C6,
                0x6F54_7FA9_0ABF_E4C4,
                0xE443_7ED6_010E_8828,
            ],
        ];
        // Minus the second coordinates of the lattice's two short vectors.
        const SECONDS: [Scalar; 2] = [
            Scalar([0x6F54_7FA9_0ABF_E4C3, 0xE443_7ED6_010E_8828, 0, 0]),
            Scalar([
                0xD765_CDA8_3DB1_562C,
                0x8A28_0AC5_0774_346D,
                0xFFFF_FFFF_FFFF_FFFE,
                0xFFFF_FFFF_FFFF_FFFF,
            ]),
        ];
        let [first, second] = QUOTIENTS.map(|quotient| {
            let mut product = [0; 8];
            add_product(&mut product, &self.0, &quotient);
            let high = u128::from(product[6]) | u128::from(product[7]) << 64;
            high + u128::from(product[5] >> 63)
        });
        let b = SECONDS[0]
            .mul_short(first)
            .plus(&SECONDS[1].mul_short(second));
        let a = self.plus(&b.mul(&Self::LAMBDA).negated());
        [a.half(), b.half()]
    }

    /// Returns a number that is less than 2^128 away from 0.
    fn half(&self) -> Half {
        let negative = self.0[3] != 0;
        let [low, high, ..] = if negative { self.negated() } else { *self }.0;
        Half {
            negative,
            magnitude: u128::from(low) | u128::from(high) << 64,
        }
    }
}

fn is_below_n(words: &[u64; 4]) -> bool {
    words.iter().rev().lt(N.iter().rev())
}

/// Adds a product to a number, and tells what is carried out of it (at most 1, or nothing at all if
/// the number has room for it).
#[inline(always)]
fn add_product<const LEN: usize, const A: usize, const B: usize>(
    sum: &mut [u64; LEN],
    a: &[u64; A],
    b: &[u64; B],
) -> bool {
    let mut out = 0;
    for i in 0..B {
        let mut carry = 0;
        for j in 0..LEN - i {
            let product = if j < A {
                u128::from(a[j]) * u128::from(b[i])
            } else {
                0
            };
            let column = product + u128::from(sum[i + j]) + u128::from(carry);
            sum[i + j] = column as u64;
            carry = (column >> 64) as u64;
        }
        out |= carry;
    }
    out != 0
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;
    use proptest::prelude::*;

    use super::*;

    fn n() -> BigUint {
        model(&N)
    }

    fn model(words: &[u64]) -> BigUint {
        let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        BigUint::from_bytes_le(&bytes)
    }

    fn bytes(words: [u64; 4]) -> [u8; 32] {
        let bytes: Vec<_> = words.iter().rev().flat_map(|w| w.to_be_bytes()).collect();
        bytes.try_into().unwrap()
    }

    fn any_words() -> impl Strategy<Value = [u64; 4]> {
        let word = prop_oneof![4 => any::<u64>(), 1 => Just(0), 1 => Just(u64::MAX)];
        let near_n = (0u64..1000).prop_map(|less| [N[0] - less, N[1], N[2], N[3]]);
        prop_oneof![5 => prop::array::uniform4(word), 1 => near_n]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn sums_and_products_are_those_of_whole_numbers(
            a in any_words(), b in any_words(), short in any::<u128>(),
        ) {
            let (m, k) = (model(&a), model(&b));
            let (x, y) = (bytes(a), bytes(b));
            let (x, y) = (Scalar::from_bytes_reduced(&x), Scalar::from_bytes_reduced(&y));
            prop_assert_eq!(Scalar::from_bytes(&bytes(a)).is_some(), m < n());
            prop_assert_eq!(model(&x.0), &m % n());
            prop_assert_eq!(model(&x.plus(&y).0), (&m + &k) % n());
            prop_assert_eq!(model(&x.mul(&y).0), (&m * &k) % n());
            prop_assert_eq!(model(&x.mul_short(short).0), (&m * short) % n());
            prop_assert_eq!(x.plus(&x.negated()), Scalar::ZERO);
        }

        #[test]
        fn halves_come_to_the_whole(a in any_words()) {
            let whole = Scalar::from_bytes_reduced(&bytes(a));
            let [one, other] = whole.split().map(|half| {
                let words = [half.magnitude as u64, (half.magnitude >> 64) as u64, 0, 0];
                let number = Scalar(words);
                if half.negative { number.negated() } else { number }
            });
            prop_assert_eq!(one.plus(&other.mul(&Scalar::LAMBDA)), whole);
        }
    }

    #[test]
    fn lambda_is_a_cube_root_of_one() {
        let one = Scalar([1, 0, 0, 0]);
        let cube = Scalar::LAMBDA.mul(&Scalar::LAMBDA).mul(&Scalar::LAMBDA);
        assert_eq!(cube, one);
        assert_ne!(Scalar::LAMBDA, one);
    }
}
