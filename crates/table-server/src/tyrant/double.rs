//! A real number on the wire: its integral part and its fraction in trillionths, 64 bits each.

const TRILLION: f64 = 1e12;

/// Writes a number; what is no number is both parts at their smallest.
pub(super) fn pack(number: f64) -> [u8; 16] {
    let (integral, fraction) = if number.is_nan() {
        (i64::MIN, i64::MIN)
    } else if number.is_infinite() {
        let end = if number > 0.0 { i64::MAX } else { i64::MIN };
        (end, 0)
    } else {
        // Both conversions cut towards zero and stop at the ends, as the original's do on x86 and ARM.
        (number.trunc() as i64, (number.fract() * TRILLION) as i64)
    };
    let mut bytes = [0; 16];
    let (first, second) = bytes.split_at_mut(8);
    first.copy_from_slice(&integral.to_be_bytes());
    second.copy_from_slice(&fraction.to_be_bytes());
    bytes
}

/// Reads a number.
pub(super) fn unpack(integral: i64, fraction: i64) -> f64 {
    match (integral, fraction) {
        (i64::MIN, i64::MIN) => f64::NAN,
        (i64::MAX, _) => f64::INFINITY,
        (i64::MIN, _) => f64::NEG_INFINITY,
        _ => integral as f64 + fraction as f64 / TRILLION,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(number: f64) -> f64 {
        let packed = pack(number);
        let (integral, fraction) = packed.split_at(8);
        let part = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().unwrap());
        unpack(part(integral), part(fraction))
    }

    #[test]
    fn a_number_comes_back() {
        for number in [0.0, 1.0, -1.5, 12_345.678, -0.25, 1e15] {
            assert!((again(number) - number).abs() < 1e-11, "{number}");
        }
        assert!(again(f64::NAN).is_nan());
        assert!(again(f64::INFINITY) > f64::MAX);
        assert!(again(f64::NEG_INFINITY) < f64::MIN);
    }

    #[test]
    fn the_bytes_are_the_documents() {
        let (integral, fraction) = (2_i64, 500_000_000_000_i64);
        let expected = [integral.to_be_bytes(), fraction.to_be_bytes()].concat();
        assert_eq!(pack(2.5).to_vec(), expected);
    }
}
