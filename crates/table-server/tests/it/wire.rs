//! What clients of both protocols say, byte by byte.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

/// Sends a request and hears its answer, which must be this.
pub(crate) fn say(stream: &mut (impl Read + Write), request: &[u8], answer: &[u8]) {
    stream.write_all(request).unwrap();
    let mut heard = vec![0; answer.len()];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(
        heard.escape_ascii().to_string(),
        answer.escape_ascii().to_string(),
        "to {}",
        request.get(..200).unwrap_or(request).escape_ascii()
    );
}

/// Reads to the end.
pub(crate) fn ends(stream: &mut impl Read) -> Vec<u8> {
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    heard
}

/// A request of Tokyo Tyrant's protocol: the command, numbers of four bytes, strings.
pub(crate) fn tyrant(command: u8, numbers: &[u32], strings: &[&[u8]]) -> Vec<u8> {
    let numbers: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
    [&[0xc8, command][..], &numbers, &strings.concat()].concat()
}

/// A request whose numbers are its strings' lengths.
pub(crate) fn tyrant_strings(command: u8, strings: &[&[u8]]) -> Vec<u8> {
    let lengths: Vec<u32> = strings.iter().map(|string| string.len() as u32).collect();
    tyrant(command, &lengths, strings)
}

/// An answer that carries one string.
pub(crate) fn found(value: &[u8]) -> Vec<u8> {
    [&[0][..], &(value.len() as u32).to_be_bytes(), value].concat()
}

/// A call of one of `misc`'s functions.
pub(crate) fn misc(name: &[u8], arguments: &[&[u8]]) -> Vec<u8> {
    let numbers = [name.len() as u32, 0, arguments.len() as u32];
    let with_length = |string: &&[u8]| [&(string.len() as u32).to_be_bytes(), *string].concat();
    let arguments: Vec<u8> = arguments.iter().flat_map(with_length).collect();
    tyrant(0x90, &numbers, &[name, &arguments])
}

/// Asks why the last request was not done.
pub(crate) fn why(stream: &mut TcpStream) -> String {
    stream.write_all(&misc(b"error", &[])).unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    let mut text = vec![0; u32::from_be_bytes(*head.last_chunk().unwrap()) as usize];
    stream.read_exact(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}
