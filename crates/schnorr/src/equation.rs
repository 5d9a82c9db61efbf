//! The equation that holds for a batch: with s G = R + e P for each valid signature,
//!
//! -(sum of a s) G + sum of a R + sum over authors of (sum of a e) P = 0
//!
//! for any numbers a. If a signature is wrong, its side differs, and differences may cancel only if
//! they fit the a's: these are 128 random bits each, which nobody can know who makes the signatures.
//! An author's signatures share one point.

use sha2::{Digest, Sha256};

use crate::{
    multiply::Sums,
    point::Affine,
    scalar::{Half, Scalar},
};

/// A signature whose numbers are in range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signed {
    /// Its place in the batch.
    pub(crate) place: usize,
    /// Its author's place among the authors.
    pub(crate) author: usize,
    pub(crate) r: Affine,
    pub(crate) s: Scalar,
    /// The challenge: what its author had to answer.
    pub(crate) e: Scalar,
}

/// Checks equations, in memory that is used again.
#[derive(Default)]
pub(crate) struct Equations {
    sums: Sums,
    terms: Vec<(Affine, Half)>,
}

impl Equations {
    /// Tells whether the equation holds for signatures, those of one author side by side.
    pub(crate) fn hold(
        &mut self,
        signed: &[Signed],
        authors: &[Affine],
        randomizers: impl IntoIterator<Item = u128>,
    ) -> bool {
        let mut answers = Scalar::ZERO;
        self.terms.clear();
        let mut randomizers = randomizers.into_iter();
        for of_author in signed.chunk_by(|one, next| one.author == next.author) {
            let mut challenges = Scalar::ZERO;
            let mut author = Affine::INFINITE;
            for signature in of_author {
                let Some(magnitude) = randomizers.next() else {
                    return false;
                };
                answers = answers.plus(&signature.s.mul_short(magnitude));
                challenges = challenges.plus(&signature.e.mul_short(magnitude));
                let number = Half {
                    negative: false,
                    magnitude,
                };
                self.terms.push((signature.r, number));
                author = authors.get(signature.author).copied().unwrap_or(author);
            }
            self.push(author, &challenges);
        }
        self.push(Affine::GENERATOR, &answers.negated());
        self.sums.is_infinite(&self.terms)
    }

    fn push(&mut self, point: Affine, number: &Scalar) {
        let [one, lambda] = number.split();
        self.terms
            .extend([(point, one), (point.times_lambda(), lambda)]);
    }
}

/// Draws a number for each of the signatures: a stream that the seed, which nobody else knows, and
/// the whole batch decide.
pub(crate) fn randomizers(seed: &[u8; 32], signed: &[Signed]) -> impl Iterator<Item = u128> {
    let mut hash = Sha256::new_with_prefix(seed);
    for signature in signed {
        // The challenge is a hash of the key, the message and R.
        for word in signature
            .e
            .to_words()
            .into_iter()
            .chain(signature.s.to_words())
        {
            hash.update(word.to_le_bytes());
        }
    }
    let key: [u8; 32] = hash.finalize().into();
    (0..signed.len().div_ceil(2) as u64).flat_map(move |block| {
        let mut hash = Sha256::new_with_prefix(key);
        hash.update(block.to_le_bytes());
        let block: [u8; 32] = hash.finalize().into();
        let (halves, _) = block.as_chunks::<16>();
        let [one, two] = [halves.first(), halves.last()];
        [one, two].map(|half| half.map_or(0, |half| u128::from_le_bytes(*half)))
    })
}
