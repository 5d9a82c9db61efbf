//! The little of `FlatBuffers` that strfry's own tables need: one field of a root table.
//!
//! FORMAT (little-endian): u32 at 0 leads to the root table. A table begins with an i32; the table's
//! place minus it is its vtable: u16 bytes of the vtable, u16 bytes of the table, then for each field
//! a u16, its place within the table, 0 if it has its default. A vector field is a u32 that leads,
//! from its own place on, to a u32 count and the elements.

/// Returns an integer field of a root table; a missing one is 0, the default. `None` if the bytes
/// are no such table.
pub(super) fn integer(buffer: &[u8], field: usize) -> Option<u64> {
    match place(buffer, field)? {
        DEFAULT => Some(0),
        at => Some(u64::from_le_bytes(bytes(buffer, at)?)),
    }
}

/// Returns a vector of bytes that is a field of a root table. `None` if the bytes are no such table,
/// or have no such field.
pub(super) fn vector(buffer: &[u8], field: usize) -> Option<&[u8]> {
    let at = place(buffer, field).filter(|at| *at != DEFAULT)?;
    let start = at.checked_add(number(buffer, at)?)?;
    let count = number(buffer, start)?;
    let start = start.checked_add(4)?;
    buffer.get(start..start.checked_add(count)?)
}

/// In the place of a field: it has its default. No field is at the beginning of a buffer.
const DEFAULT: usize = 0;

/// Returns where a field is.
fn place(buffer: &[u8], field: usize) -> Option<usize> {
    let table = number(buffer, 0)?;
    let back = i32::from_le_bytes(bytes(buffer, table)?);
    let vtable = i64::try_from(table).ok()?.checked_sub(back.into())?;
    let vtable = usize::try_from(vtable).ok()?;
    let vtable_bytes = usize::from(u16::from_le_bytes(bytes(buffer, vtable)?));
    let entry = 4 + 2 * field;
    if entry + 2 > vtable_bytes {
        // Written before the field was thought of.
        return Some(DEFAULT);
    }
    let offset = u16::from_le_bytes(bytes(buffer, vtable.checked_add(entry)?)?);
    if offset == 0 {
        return Some(DEFAULT);
    }
    table.checked_add(offset.into())
}

fn number(buffer: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(bytes(buffer, at)?)).ok()
}

fn bytes<const N: usize>(buffer: &[u8], at: usize) -> Option<[u8; N]> {
    buffer.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // As the FlatBuffers library for Python (25.12.19) writes them.

    /// `{ dbVersion: 3, endianness: 1, negentropyModificationCounter: 5 }`.
    const META: [u8; 48] = [
        20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 28, 0, 20, 0, 12, 0, 4, 0, 10, 0, 0, 0, 5, 0, 0, 0,
        0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
    ];
    /// `{ dbVersion: 3, endianness: 1 }`.
    const SHORT_META: [u8; 32] = [
        12, 0, 0, 0, 8, 0, 20, 0, 12, 0, 4, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0,
        0, 0, 0,
    ];
    /// `{ dict: "dictionary" }`.
    const DICTIONARY: [u8; 36] = [
        12, 0, 0, 0, 0, 0, 6, 0, 8, 0, 4, 0, 6, 0, 0, 0, 4, 0, 0, 0, 10, 0, 0, 0, 100, 105, 99,
        116, 105, 111, 110, 97, 114, 121, 0, 0,
    ];

    #[test]
    fn fields_are_found_where_the_library_puts_them() {
        assert_eq!(
            [0, 1, 2, 3].map(|field| integer(&META, field)),
            [3, 1, 5, 0].map(Some)
        );
        assert_eq!(
            [0, 1, 2].map(|field| integer(&SHORT_META, field)),
            [3, 1, 0].map(Some)
        );
        assert_eq!(vector(&DICTIONARY, 0), Some(b"dictionary".as_slice()));
        assert_eq!(vector(&DICTIONARY, 1), None);
    }

    #[test]
    fn bytes_that_are_no_table_are_refused() {
        for buffer in [META.as_slice(), &DICTIONARY] {
            for length in 0..=buffer.len() {
                let mut buffer = buffer[..length].to_vec();
                for position in 0..length {
                    let kept = std::mem::replace(&mut buffer[position], 0xff);
                    let _ = (integer(&buffer, 0), vector(&buffer, 0));
                    buffer[position] = kept;
                }
            }
        }
        for length in 0..META.len() {
            assert_eq!(integer(&META[..length], 0), None, "{length}");
        }
        // The last two bytes fill up a word.
        for length in 0..DICTIONARY.len() - 2 {
            assert_eq!(vector(&DICTIONARY[..length], 0), None, "{length}");
        }
    }
}
