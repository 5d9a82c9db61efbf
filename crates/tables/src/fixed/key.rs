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

/// Room for a number in decimal digits.
#[derive(Default)]
pub(super) struct Digits(itoa::Buffer);

impl Digits {
    /// Writes a number down.
    pub(super) fn of(&mut self, number: u64) -> &[u8] {
        self.0.format(number).as_bytes()
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
            assert_eq!(Digits::default().of(number), number.to_string().as_bytes());
        }
    }
}
