//! Reproducible randomness: the same seed gives the same corpus and the same queries, everywhere
//! and with every version of every crate.

/// `SplitMix64` (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws from 0 (inclusive) to 1 (exclusive).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws from 0 to `bound` - 1; 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Draws from `low` to `high`, both inclusive.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high.saturating_sub(low) + 1)
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Draws a number whose tail falls like a power law: mostly near `low`, sometimes far above it,
    /// never above `high`. The larger `tail` (below 1), the heavier.
    #[expect(
        clippy::cast_sign_loss,
        reason = "a positive number to a negative power of a positive one"
    )]
    pub(crate) fn heavy(&mut self, low: usize, high: usize, tail: f64) -> usize {
        let drawn = low as f64 * (1.0 - self.unit()).powf(-tail);
        (drawn.min(high as f64)) as usize
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next() as u8)
    }
}

/// Ranks drawn by Zipf's law with exponent 1: rank r (from 0) as often as 1 / (r + 1).
#[derive(Debug)]
pub(crate) struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    pub(crate) fn new(ranks: usize) -> Self {
        Self::shifted(ranks, 0.0)
    }

    /// Flattens the first ranks (Mandelbrot): rank r as often as 1 / (r + 1 + `shift`).
    pub(crate) fn shifted(ranks: usize, shift: f64) -> Self {
        let mut sum = 0.0;
        let cumulative = (1..=ranks)
            .map(|rank| {
                sum += 1.0 / (rank as f64 + shift);
                sum
            })
            .collect();
        Self { cumulative }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        let total = self.cumulative.last().copied().unwrap_or(0.0);
        let point = random.unit() * total;
        self.cumulative.partition_point(|&sum| sum <= point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rank_is_drawn_twice_as_often_as_the_second() {
        let zipf = Zipf::new(1_000);
        let mut random = Random::new(1);
        let mut counts = [0_u32; 1_000];
        for _ in 0..200_000 {
            counts[zipf.draw(&mut random)] += 1;
        }
        let ratio = f64::from(counts[0]) / f64::from(counts[1]);
        assert!((1.9..2.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        assert_eq!(Random::new(1).next(), 0x910a_2dec_8902_5cc1);
    }
}
