//! Points of the curve y² = x³ + 7.

use crate::field::Field;

/// β, the cube root of 1 modulo p that belongs to λ.
const BETA: Field = Field::from_words([
    0xC139_6C28_7195_01EE,
    0x9CF0_4975_12F5_8995,
    0x6E64_479E_AC34_34E9,
    0x7AE9_6A2B_657C_0710,
]);

/// A point by its coordinates, of magnitude 1; or the infinite one, whose limbs are all zero (no point
/// of the curve has a coordinate 0).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Affine {
    pub(crate) x: Field,
    pub(crate) y: Field,
}

impl Affine {
    pub(crate) const INFINITE: Self = Self {
        x: Field::ZERO,
        y: Field::ZERO,
    };
    pub(crate) const GENERATOR: Self = Self {
        x: Field::from_words([
            0x59F2_815B_16F8_1798,
            0x029B_FCDB_2DCE_28D9,
            0x55A0_6295_CE87_0B07,
            0x79BE_667E_F9DC_BBAC,
        ]),
        y: Field::from_words([
            0x9C47_D08F_FB10_D4B8,
            0xFD17_B448_A685_5419,
            0x5DA4_FBFC_0E11_08A8,
            0x483A_DA77_26A3_C465,
        ]),
    };

    #[inline]
    pub(crate) fn is_infinite(&self) -> bool {
        self.x.is_blank()
    }

    pub(crate) fn negated(&self) -> Self {
        if self.is_infinite() {
            return *self;
        }
        Self {
            x: self.x,
            y: self.y.negated().carried(),
        }
    }

    /// Returns the point times λ.
    pub(crate) fn times_lambda(&self) -> Self {
        if self.is_infinite() {
            return *self;
        }
        Self {
            x: self.x.mul(&BETA),
            y: self.y,
        }
    }
}

/// A point (x / z², y / z³), for chains of additions without a division; infinite if z is 0.
/// Coordinates are of magnitude 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Jacobian {
    x: Field,
    y: Field,
    z: Field,
}

impl Jacobian {
    pub(crate) const INFINITE: Self = Self {
        x: Field::ONE,
        y: Field::ONE,
        z: Field::ZERO,
    };

    pub(crate) fn is_infinite(&self) -> bool {
        self.z.is_blank()
    }

    /// Doubles: no point of the curve is its own negative.
    pub(crate) fn doubled(&self) -> Self {
        if self.is_infinite() {
            return *self;
        }
        let xx = self.x.squared();
        let yy = self.y.squared();
        let yyyy = yy.squared();
        let slope = xx.times(3);
        let s = self.x.mul(&yy).times(4);
        let x = slope.squared().minus::<8>(&s.times(2)).carried();
        let y = slope
            .mul(&s.minus::<1>(&x).carried())
            .minus::<8>(&yyyy.times(8))
            .carried();
        let z = self.y.mul(&self.z).times(2).carried();
        Self { x, y, z }
    }

    pub(crate) fn plus(&self, other: &Affine) -> Self {
        if other.is_infinite() {
            return *self;
        }
        if self.is_infinite() {
            return Self {
                x: other.x,
                y: other.y,
                z: Field::ONE,
            };
        }
        let zz = self.z.squared();
        let h = other.x.mul(&zz).minus::<1>(&self.x);
        let r = other.y.mul(&zz.mul(&self.z)).minus::<1>(&self.y);
        if h.is_zero() {
            return if r.is_zero() {
                self.doubled()
            } else {
                Self::INFINITE
            };
        }
        let hh = h.squared();
        let hhh = h.mul(&hh);
        let v = self.x.mul(&hh);
        let x = r
            .squared()
            .minus::<1>(&hhh)
            .minus::<2>(&v.times(2))
            .carried();
        let y = r
            .mul(&v.minus::<1>(&x))
            .minus::<1>(&self.y.mul(&hhh))
            .carried();
        let z = self.z.mul(&h);
        Self { x, y, z }
    }

    #[cfg(test)]
    pub(crate) fn to_affine(self) -> Affine {
        if self.is_infinite() {
            return Affine::INFINITE;
        }
        let inverse = self.z.inverse();
        let square = inverse.squared();
        Affine {
            x: self.x.mul(&square),
            y: self.y.mul(&square.mul(&inverse)),
        }
    }
}
