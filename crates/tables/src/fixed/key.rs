//! Keys: natural numbers, as bytes in decimal digits.

use crate::TableError;

/// Reads a number that may be 0: decimal digits and nothing else. `None` is more than 64 bits.
pub(super) fn number(key: &[u8]) -> Result<Option<u64>, TableError> {
    if key.is_empty() || !key.iter().all(u8::is_ascii_digit) {
        return Err(TableError::KeyNotANumber);
    }
    Ok(key.iter().try_fold(0_u64, |number, digit| {
        let digit = u64::from(digit - b'0');
        number.checked_mul(10)?.checked_add(digit)
    }))
}

/// A number in decimal digits.
pub(super) struct Digits {
    bytes: [u8; 20],
    start: usize,
}

impl Digits {
    pub(super) fn of(mut number: u64) -> Self {
        let mut digits = Self {
            bytes: [b'0'; 20],
            start: 20,
        };
        for (at, byte) in digits.bytes.iter_mut().enumerate().rev() {
            *byte = b'0' + (number % 10) as u8;
            digits.start = at;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        digits
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_digits_and_nothing_else() {
        assert_eq!(number(b"42").unwrap(), Some(42));
        assert_eq!(number(b"00000042").unwrap(), Some(42));
        assert_eq!(number(b"0").unwrap(), Some(0));
        assert_eq!(number(b"18446744073709551615").unwrap(), Some(u64::MAX));
        // Where the original wraps onto record 1.
        assert_eq!(number(b"18446744073709551617").unwrap(), None);
        for wrong in ["", "+1", "-1", " 1", "1 ", "1a", "a1", "0x1", "1.0", "min"] {
            assert!(number(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn digits_are_as_the_standard_library_has_them() {
        for number in [0, 1, 9, 10, 12_345, u64::MAX] {
            assert_eq!(Digits::of(number).as_bytes(), number.to_string().as_bytes());
        }
    }
}
