//! Copies between memory that other threads are changing and memory of our own.
//!
//! Each copy stands for one relaxed atomic access per byte, in no particular order: a copy that races
//! with another one may see some of its bytes, never undefined behaviour. What is seen must be
//! checked by other means (a sequence counter).
#![expect(
    unsafe_code,
    reason = "Rust has no copy of bytes that may race; this is it"
)]

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) use wide::{is_one_move, load, load_u8, load_u64, prefetch, store, store_u64};

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(super) use bytewise::{is_one_move, load, load_u8, load_u64, prefetch, store, store_u64};

/// Wide moves, written in assembly: a relaxed atomic access of a byte is a plain move on this
/// processor, and a move of many bytes is as good as moves of each. The compiler sees neither a
/// data race nor atomic accesses of mixed sizes, as it does not look inside.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide {
    use std::{
        arch::{
            asm,
            x86_64::{__m128i, _MM_HINT_ET0, _mm_prefetch},
        },
        ptr,
    };

    macro_rules! moves {
        ($load:ident, $store:ident, $type:ty, $class:ident, $modifier:literal, $size:literal, $mov:literal) => {
            /// # Safety
            /// `from` must be readable.
            #[inline]
            unsafe fn $load(from: *const u8) -> $type {
                let value: $type;
                // SAFETY: reads these bytes only; the caller says that they can be read.
                unsafe {
                    asm!(
                        concat!($mov, " {value", $modifier, "}, ", $size, " ptr [{from}]"),
                        from = in(reg) from,
                        value = out($class) value,
                        options(nostack, preserves_flags, readonly)
                    );
                }
                value
            }

            /// # Safety
            /// `to` must be writable.
            #[inline]
            unsafe fn $store(to: *mut u8, value: $type) {
                // SAFETY: writes these bytes only; the caller says that they can be written.
                unsafe {
                    asm!(
                        concat!($mov, " ", $size, " ptr [{to}], {value", $modifier, "}"),
                        to = in(reg) to,
                        value = in($class) value,
                        options(nostack, preserves_flags)
                    );
                }
            }
        };
    }

    moves!(load_1, store_1, u8, reg_byte, "", "byte", "mov");
    moves!(load_2, store_2, u16, reg, ":x", "word", "mov");
    moves!(load_4, store_4, u32, reg, ":e", "dword", "mov");
    moves!(load_8, store_8, u64, reg, ":r", "qword", "mov");
    moves!(load_16, store_16, __m128i, xmm_reg, "", "xmmword", "movups");

    /// Copies as many whole blocks of 64 bytes as there are, and returns their length: two instructions
    /// for 16 bytes, and three for each block.
    ///
    /// # Safety
    /// `len` bytes must be readable at `from` and writable at `to`.
    #[inline]
    unsafe fn copy_blocks(from: *const u8, to: *mut u8, len: usize) -> usize {
        let end = len & !63;
        if end > 0 {
            // SAFETY: reads and writes the first `end` bytes only, which are at most `len`.
            unsafe {
                asm!(
                    "2:",
                    "movups {a}, xmmword ptr [{from} + {at}]",
                    "movups {b}, xmmword ptr [{from} + {at} + 16]",
                    "movups {c}, xmmword ptr [{from} + {at} + 32]",
                    "movups {d}, xmmword ptr [{from} + {at} + 48]",
                    "movups xmmword ptr [{to} + {at}], {a}",
                    "movups xmmword ptr [{to} + {at} + 16], {b}",
                    "movups xmmword ptr [{to} + {at} + 32], {c}",
                    "movups xmmword ptr [{to} + {at} + 48], {d}",
                    "add {at}, 64",
                    "cmp {at}, {end}",
                    "jb 2b",
                    from = in(reg) from,
                    to = in(reg) to,
                    end = in(reg) end,
                    at = inout(reg) 0_usize => _,
                    a = out(xmm_reg) _,
                    b = out(xmm_reg) _,
                    c = out(xmm_reg) _,
                    d = out(xmm_reg) _,
                    options(nostack)
                );
            }
        }
        end
    }

    /// Tells whether [`store`] writes so many bytes by one instruction.
    #[inline]
    pub(in super::super) const fn is_one_move(len: usize) -> bool {
        matches!(len, 1 | 2 | 4 | 8 | 16)
    }

    /// Copies `to.len()` bytes.
    ///
    /// # Safety
    /// The bytes at `from` must be readable all the while.
    #[inline]
    pub(in super::super) unsafe fn load(from: *const u8, to: &mut [u8]) {
        if to.len() == 8 {
            // SAFETY: the caller's, and these bytes are ours.
            unsafe { ptr::write_unaligned(to.as_mut_ptr().cast(), load_8(from)) }
        } else {
            // SAFETY: the caller's.
            unsafe { load_any(from, to) }
        }
    }

    /// Apart, so that numbers are copied where the caller is.
    unsafe fn load_any(from: *const u8, to: &mut [u8]) {
        let (len, to) = (to.len(), to.as_mut_ptr());
        // Ends overlap rather than loop: a byte may be read twice, and the later one counts.
        macro_rules! ends {
            ($load:ident, $size:literal) => {{
                // SAFETY: both ends are within `len` bytes of `from`, which the caller vouches for,
                // and of `to`, which is ours.
                unsafe {
                    let (head, tail) = ($load(from), $load(from.add(len - $size)));
                    ptr::write_unaligned(to.cast(), head);
                    ptr::write_unaligned(to.add(len - $size).cast(), tail);
                }
            }};
        }
        match len {
            0 => {}
            // SAFETY: as for the ends.
            1 => unsafe { ptr::write(to, load_1(from)) },
            2..4 => ends!(load_2, 2),
            4..8 => ends!(load_4, 4),
            8..=16 => ends!(load_8, 8),
            _ => {
                // SAFETY: as for the ends.
                let mut at = unsafe { copy_blocks(from, to, len) };
                while at + 16 < len {
                    // SAFETY: as for the ends: `at + 16` is below `len`.
                    unsafe { ptr::write_unaligned(to.add(at).cast(), load_16(from.add(at))) };
                    at += 16;
                }
                ends!(load_16, 16);
            }
        }
    }

    /// Copies `from.len()` bytes.
    ///
    /// # Safety
    /// The bytes at `to` must be writable all the while.
    #[inline]
    pub(in super::super) unsafe fn store(from: &[u8], to: *mut u8) {
        if from.len() == 8 {
            // SAFETY: the caller's, and these bytes are ours.
            unsafe { store_8(to, ptr::read_unaligned(from.as_ptr().cast())) }
        } else {
            // SAFETY: the caller's.
            unsafe { store_any(from, to) }
        }
    }

    /// Apart, as [`load_any`].
    unsafe fn store_any(from: &[u8], to: *mut u8) {
        let (len, from) = (from.len(), from.as_ptr());
        macro_rules! ends {
            ($store:ident, $size:literal) => {{
                // SAFETY: both ends are within `len` bytes of `to`, which the caller vouches for,
                // and of `from`, which is ours.
                unsafe {
                    $store(to, ptr::read_unaligned(from.cast()));
                    $store(
                        to.add(len - $size),
                        ptr::read_unaligned(from.add(len - $size).cast()),
                    );
                }
            }};
        }
        match len {
            0 => {}
            // SAFETY: as for the ends.
            1 => unsafe { store_1(to, ptr::read(from)) },
            // SAFETY: as for the ends.
            2 => unsafe { store_2(to, ptr::read_unaligned(from.cast())) },
            // SAFETY: as for the ends.
            4 => unsafe { store_4(to, ptr::read_unaligned(from.cast())) },
            // SAFETY: as for the ends.
            16 => unsafe { store_16(to, ptr::read_unaligned(from.cast())) },
            3 => ends!(store_2, 2),
            5..8 => ends!(store_4, 4),
            8..16 => ends!(store_8, 8),
            _ => {
                // SAFETY: as for the ends.
                let mut at = unsafe { copy_blocks(from, to, len) };
                while at + 16 < len {
                    // SAFETY: as for the ends: `at + 16` is below `len`.
                    unsafe { store_16(to.add(at), ptr::read_unaligned(from.add(at).cast())) };
                    at += 16;
                }
                ends!(store_16, 16);
            }
        }
    }

    /// Tells the processor that a byte is going to be read and written, wherever it is.
    #[inline]
    pub(in super::super) fn prefetch(place: *mut u8) {
        // SAFETY: a hint, which has no effect on memory.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(place.cast()) }
    }

    /// Reads a byte.
    ///
    /// # Safety
    /// The byte at `from` must be readable all the while.
    #[inline]
    pub(in super::super) unsafe fn load_u8(from: *const u8) -> u8 {
        // SAFETY: the caller's.
        unsafe { load_1(from) }
    }

    /// Reads a number, at any address.
    ///
    /// # Safety
    /// The 8 bytes at `from` must be readable all the while.
    #[inline]
    pub(in super::super) unsafe fn load_u64(from: *const u8) -> u64 {
        // SAFETY: the caller's.
        u64::from_le(unsafe { load_8(from) })
    }

    /// Writes a number, at any address.
    ///
    /// # Safety
    /// The 8 bytes at `to` must be writable all the while.
    #[inline]
    pub(in super::super) unsafe fn store_u64(to: *mut u8, value: u64) {
        // SAFETY: the caller's.
        unsafe { store_8(to, value.to_le()) }
    }
}

/// The same, byte by byte, for other processors.
#[cfg(any(test, not(all(target_arch = "x86_64", not(miri)))))]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(dead_code, reason = "compared with the other in a test")
)]
mod bytewise {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    /// See [`super::wide::is_one_move`].
    pub(in super::super) const fn is_one_move(len: usize) -> bool {
        len == 1
    }

    /// See [`super::wide::load_u8`].
    pub(in super::super) unsafe fn load_u8(from: *const u8) -> u8 {
        let mut byte = [0];
        // SAFETY: the caller's.
        unsafe { load(from, &mut byte) };
        u8::from_le_bytes(byte)
    }

    /// See [`super::wide::load`].
    pub(in super::super) unsafe fn load(from: *const u8, to: &mut [u8]) {
        for (at, byte) in to.iter_mut().enumerate() {
            // SAFETY: the caller says that these bytes can be read, and all accesses to them are
            // atomic ones of a byte.
            *byte = unsafe { AtomicU8::from_ptr(from.add(at).cast_mut()) }.load(Relaxed);
        }
    }

    /// See [`super::wide::store`].
    pub(in super::super) unsafe fn store(from: &[u8], to: *mut u8) {
        for (at, byte) in from.iter().enumerate() {
            // SAFETY: as above, for writing.
            unsafe { AtomicU8::from_ptr(to.add(at)) }.store(*byte, Relaxed);
        }
    }

    /// See [`super::wide::prefetch`].
    pub(in super::super) fn prefetch(_place: *mut u8) {}

    /// See [`super::wide::load_u64`].
    pub(in super::super) unsafe fn load_u64(from: *const u8) -> u64 {
        let mut bytes = [0; 8];
        // SAFETY: the caller's.
        unsafe { load(from, &mut bytes) };
        u64::from_le_bytes(bytes)
    }

    /// See [`super::wide::store_u64`].
    pub(in super::super) unsafe fn store_u64(to: *mut u8, value: u64) {
        // SAFETY: the caller's.
        unsafe { store(&value.to_le_bytes(), to) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole_and_no_byte_beside_it() {
        let source: Vec<u8> = (0..200_u8).map(|byte| byte | 1).collect();
        for len in 0..=150 {
            for at in 0..17 {
                let mut read = vec![0; len];
                // SAFETY: 17 + 150 bytes are within the 200.
                unsafe { load(source.as_ptr().add(at), &mut read) };
                assert_eq!(read, source[at..at + len]);
                let mut bytewise_read = vec![0; len];
                // SAFETY: as above.
                unsafe { bytewise::load(source.as_ptr().add(at), &mut bytewise_read) };
                assert_eq!(bytewise_read, read);
                let mut written = [0; 200];
                // SAFETY: as above.
                unsafe { store(&read, written.as_mut_ptr().add(at)) };
                let mut expected = [0; 200];
                expected[at..at + len].copy_from_slice(&read);
                assert_eq!(written, expected);
            }
        }
    }

    #[test]
    fn numbers_are_little_endian_at_any_address() {
        let mut bytes = [0; 24];
        for at in 0..16 {
            // SAFETY: 16 + 8 bytes are within the 24.
            unsafe { store_u64(bytes.as_mut_ptr().add(at), 0x0102_0304_0506_0708) };
            assert_eq!(bytes[at..at + 8], [8, 7, 6, 5, 4, 3, 2, 1]);
            // SAFETY: as above.
            let read = unsafe { load_u64(bytes.as_ptr().add(at)) };
            assert_eq!(read, 0x0102_0304_0506_0708);
        }
    }
}
