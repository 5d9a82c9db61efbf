//! The simulation's dice: all it does follows from its seed.

/// A seeded generator (splitmix64, Steele et al. 2014).
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number up to and including `max`.
    pub(super) fn up_to(&mut self, max: u64) -> u64 {
        let drawn = self.next();
        max.checked_add(1).map_or(drawn, |count| drawn % count)
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.up_to(99) < percent
    }

    /// Returns how likely (in percent) something survives: often none or all of it, to reach the
    /// clean cases as well as the torn ones.
    pub(super) fn survival_percent(&mut self) -> u64 {
        match self.up_to(3) {
            0 => 0,
            1 => 100,
            _ => self.up_to(100),
        }
    }
}
