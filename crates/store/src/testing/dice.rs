//! Chance that a seed repeats: xorshift, so that no test needs a random source.

/// A stream of random numbers, the same for the same seed.
#[derive(Debug, Clone)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Starts the stream of this seed.
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds must not start alike, and the state must not be zero.
        let mixed = (seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self {
            state: (mixed ^ (mixed >> 29)).max(1),
        }
    }

    /// Returns the next number of 64 bits.
    pub fn roll(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.roll()) * end as u128) >> 64) as usize
    }

    /// Tells true so many times in a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
