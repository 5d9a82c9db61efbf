//! An event's JSON as strfry keeps it.
//!
//! FORMAT: a byte that tells the form. 0: the JSON follows. 1: the number of a dictionary (u32 of the
//! machine's order), then a zstd frame made with it, which begins with the length of the JSON.

use std::{
    collections::{HashMap, hash_map::Entry},
    error::Error,
};

use ruzstd::decoding::{Dictionary, FrameDecoder};

/// No event is longer (strfry's own limit is 64 kB, if not configured otherwise).
const EVENT_BYTES_MAX: usize = 16 << 20;

/// Unpacks payloads; keeps the dictionaries it has met, of which strfry makes few.
#[derive(Default)]
pub(super) struct Unpacker {
    decoders: HashMap<u32, FrameDecoder>,
    json: Vec<u8>,
}

impl Unpacker {
    /// Returns a payload's JSON, or why there is none. `find` fetches a dictionary by its number.
    pub(super) fn unpack<'a>(
        &'a mut self,
        payload: &'a [u8],
        find: impl Fn(u32) -> Option<Vec<u8>>,
    ) -> Result<&'a [u8], String> {
        match payload.split_first() {
            None => Err("its payload is empty".to_owned()),
            Some((0, json)) => Ok(json),
            Some((1, compressed)) => {
                let (number, frame) = compressed
                    .split_first_chunk()
                    .ok_or("its payload ends before the number of its dictionary")?;
                self.decompress(u32::from_ne_bytes(*number), frame, find)
            }
            Some((form, _)) => Err(format!("its payload has the unknown form {form}")),
        }
    }

    fn decompress(
        &mut self,
        number: u32,
        frame: &[u8],
        find: impl Fn(u32) -> Option<Vec<u8>>,
    ) -> Result<&[u8], String> {
        let decoder = match self.decoders.entry(number) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let dictionary =
                    find(number).ok_or_else(|| format!("its dictionary {number} is not there"))?;
                entry.insert(decoder(&dictionary).map_err(|error| {
                    format!("its dictionary {number} is not one of zstd's: {error}")
                })?)
            }
        };
        decoder
            .init(frame)
            .map_err(|_| "its payload is no zstd frame".to_owned())?;
        let length = match decoder.content_size() {
            0 => EVENT_BYTES_MAX,
            length if length <= EVENT_BYTES_MAX as u64 => length as usize,
            _ => return Err("it is longer than any event".to_owned()),
        };
        self.json.clear();
        self.json.reserve(length);
        decoder
            .decode_all_to_vec(frame, &mut self.json)
            .map_err(|error| format!("its payload can't be decompressed: {error}"))?;
        Ok(&self.json)
    }
}

fn decoder(dictionary: &[u8]) -> Result<FrameDecoder, Box<dyn Error>> {
    let mut decoder = FrameDecoder::new();
    decoder.add_dict(Dictionary::decode_dict(dictionary)?)?;
    Ok(decoder)
}
