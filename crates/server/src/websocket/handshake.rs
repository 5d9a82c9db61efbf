//! The one computation of the opening handshake (RFC 6455 section 4.2.2).

use data_encoding::BASE64;
use sha1::{Digest, Sha1};

/// Computes `Sec-WebSocket-Accept` from `Sec-WebSocket-Key`. `None` if the key is not 16 bytes in
/// base64.
pub fn accept_key(key: &[u8]) -> Option<String> {
    if BASE64.decode(key).ok()?.len() != 16 {
        return None;
    }
    let mut hash = Sha1::new();
    hash.update(key);
    hash.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    Some(BASE64.encode(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::accept_key;

    #[test]
    fn the_rfcs_example_gives_its_answer() {
        assert_eq!(
            accept_key(b"dGhlIHNhbXBsZSBub25jZQ==").as_deref(),
            Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        );
    }

    #[test]
    fn a_key_of_another_length_is_refused() {
        for key in [
            "",
            "dGhl",
            "not base64 at all!!!!!!!",
            "AAAAAAAAAAAAAAAAAAAAAAA=",
        ] {
            assert_eq!(accept_key(key.as_bytes()), None, "{key}");
        }
    }
}
