//! Division modulo p: Bernstein's and Yang's division steps ("Fast constant-time gcd computation and
//! modular inversion", 2019), here in variable time and 62 of them at a time.
//!
//! (f, g) begins as (p, x). Each step halves g, after an odd multiple of f has made it even; the bits
//! that decide 62 steps are the lowest ones, so the steps are gathered in a matrix of small numbers
//! which is then applied to the long ones: to (f, g) exactly, to (d, e) with d x = f, e x = g modulo p.

#![allow(
    clippy::cast_sign_loss,
    reason = "the low bits of a signed number are what they are"
)]

/// A signed number of limbs of 62 bits, lowest first; the last one has the sign.
type Long = [i64; 5];

const LIMB: u64 = u64::MAX >> 2;
/// p = 2^256 - 2^32 - 977.
const P: Long = [-0x1_0000_03D1, 0, 0, 0, 256];
/// 1 / p modulo 2^62.
const P_INVERSE: u64 = {
    let p = 0u64.wrapping_sub(0x1_0000_03D1);
    let mut inverse = 1u64;
    let mut round = 0;
    // Each round doubles the bits that are right.
    while round < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(p.wrapping_mul(inverse)));
        round += 1;
    }
    inverse & LIMB
};

/// 2^62 times the linear map of 62 steps: f' = u f + v g, g' = q f + r g.
#[derive(Clone, Copy)]
struct Steps {
    u: i64,
    v: i64,
    q: i64,
    r: i64,
}

/// Returns 1 / x modulo p, and 0 for 0. Words are lowest first, x is below p.
pub(crate) fn modulo_p([a, b, c, d]: [u64; 4]) -> [u64; 4] {
    let (mut f, mut g): (Long, Long) = (
        P,
        [
            (a & LIMB).cast_signed(),
            ((a >> 62 | b << 2) & LIMB).cast_signed(),
            ((b >> 60 | c << 4) & LIMB).cast_signed(),
            ((c >> 58 | d << 6) & LIMB).cast_signed(),
            (d >> 56).cast_signed(),
        ],
    );
    let (mut of_f, mut of_g): (Long, Long) = ([0; 5], [1, 0, 0, 0, 0]);
    let mut eta = -1;
    while g != [0; 5] {
        let steps = steps(&mut eta, f[0].cast_unsigned(), g[0].cast_unsigned());
        (of_f, of_g) = carried_out_modulo_p(steps, &of_f, &of_g);
        (f, g) = carried_out(steps, &f, &g);
    }
    // f is 1 or -1 now, or p if x was 0 and of_f with it.
    below_p(&of_f, f[4] < 0)
}

/// Works out 62 steps from the lowest bits. `eta` is minus the difference of the lengths, as it were.
fn steps(eta: &mut i64, mut f: u64, mut g: u64) -> Steps {
    let (mut u, mut v, mut q, mut r) = (1u64, 0u64, 0u64, 1u64);
    let mut left = 62u32;
    loop {
        // As many halvings as there are; a bit above those that are left stops the count.
        let zeros = (g | u64::MAX << left).trailing_zeros();
        g >>= zeros;
        u <<= zeros;
        v <<= zeros;
        *eta -= i64::from(zeros);
        left -= zeros;
        if left == 0 {
            break;
        }
        if *eta < 0 {
            *eta = -*eta;
            (f, g) = (g, f.wrapping_neg());
            (u, q) = (q, u.wrapping_neg());
            (v, r) = (r, v.wrapping_neg());
        }
        // The multiple of f that clears as many low bits of g as may be before f and g change places.
        let limit = (*eta + 1).min(i64::from(left)).min(6);
        let mask = u64::MAX >> (64 - limit);
        let multiple = f
            .wrapping_mul(g)
            .wrapping_mul(f.wrapping_mul(f).wrapping_sub(2))
            & mask;
        g = g.wrapping_add(f.wrapping_mul(multiple));
        q = q.wrapping_add(u.wrapping_mul(multiple));
        r = r.wrapping_add(v.wrapping_mul(multiple));
    }
    Steps {
        u: u.cast_signed(),
        v: v.cast_signed(),
        q: q.cast_signed(),
        r: r.cast_signed(),
    }
}

/// Applies steps to (f, g); the division by 2^62 leaves no rest.
fn carried_out(steps: Steps, f: &Long, g: &Long) -> (Long, Long) {
    let row = |x, y| {
        let mut sum = wide(x, f[0]) + wide(y, g[0]);
        let mut long = [0; 5];
        for ((limb, f), g) in long.iter_mut().zip(&f[1..]).zip(&g[1..]) {
            sum = (sum >> 62) + wide(x, *f) + wide(y, *g);
            *limb = (sum as u64 & LIMB).cast_signed();
        }
        long[4] = (sum >> 62) as i64;
        long
    };
    (row(steps.u, steps.v), row(steps.q, steps.r))
}

/// Applies steps to (d, e), which stay between -2p and p: adds the multiples of p that leave no rest.
fn carried_out_modulo_p(steps: Steps, d: &Long, e: &Long) -> (Long, Long) {
    let row = |x: i64, y: i64| {
        // A negative number gets p first.
        let mut multiple = (x & d[4] >> 63) + (y & e[4] >> 63);
        let mut sum = wide(x, d[0]) + wide(y, e[0]);
        let rest = P_INVERSE
            .wrapping_mul(sum as u64)
            .wrapping_add(multiple.cast_unsigned())
            & LIMB;
        multiple -= rest.cast_signed();
        sum += wide(P[0], multiple);
        let mut long = [0; 5];
        for (((limb, d), e), p) in long.iter_mut().zip(&d[1..]).zip(&e[1..]).zip(&P[1..]) {
            sum = (sum >> 62) + wide(x, *d) + wide(y, *e) + wide(*p, multiple);
            *limb = (sum as u64 & LIMB).cast_signed();
        }
        long[4] = (sum >> 62) as i64;
        long
    };
    (row(steps.u, steps.v), row(steps.q, steps.r))
}

/// Returns the number or minus it, which are between -2p and 2p, as what is from 0 to p.
fn below_p(number: &Long, negate: bool) -> [u64; 4] {
    let sign = if negate { -1 } else { 1 };
    let carried = |multiple: i64, from: &Long, sign: i64| {
        let mut sum = 0;
        let mut long = [0; 5];
        for ((limb, from), p) in long.iter_mut().zip(from).zip(&P) {
            sum += i128::from(sign * from) + wide(*p, multiple);
            *limb = (sum as u64 & LIMB).cast_signed();
            sum >>= 62;
        }
        // The last limb keeps its sign.
        long[4] |= (sum << 62) as i64;
        long
    };
    let mut long = carried(0, number, sign);
    while long[4] < 0 {
        long = carried(1, &long, 1);
    }
    loop {
        let less = carried(-1, &long, 1);
        if less[4] < 0 {
            break;
        }
        long = less;
    }
    let [a, b, c, d, e] = long.map(i64::cast_unsigned);
    [
        a | b << 62,
        b >> 2 | c << 60,
        c >> 4 | d << 58,
        d >> 6 | e << 56,
    ]
}

#[inline(always)]
fn wide(a: i64, b: i64) -> i128 {
    i128::from(a) * i128::from(b)
}
