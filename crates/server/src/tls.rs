//! TLS on the clients' address: the certificate in force, which can be replaced while the server runs,
//! and the handshake. Whose files it is read from is the program's business.

use std::{fmt, io, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::stream::Stream;

/// What begins a handshake: the type of its record (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;

/// What a client hears that speaks plain HTTP.
const NOT_PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\
    content-length: 41\r\nconnection: close\r\n\r\nthis port speaks TLS: use https or wss.\r\n";

/// The name of HTTP/2 in a handshake (RFC 9113 section 3.2).
pub(crate) const HTTP_2: &[u8] = b"h2";

/// Why a certificate can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The text of the certificate is damaged, or none.
    #[error("the certificate is no PEM of a certificate and those above it")]
    Certificate(#[source] pem::Error),
    /// There is no certificate in it.
    #[error("there is no certificate in it (`-----BEGIN CERTIFICATE-----`)")]
    NoCertificate,
    /// The text of the key is damaged, or has no key.
    #[error("the key is no PEM of a private key")]
    Key(#[source] pem::Error),
    /// The two do not go together, or are of a kind that TLS has no use for.
    #[error("the certificate and the key can't be used together")]
    Together(#[source] rustls::Error),
}

/// A server's certificate and key. All clones are the same one.
#[derive(Clone)]
pub struct Tls {
    config: Arc<rustls::ServerConfig>,
    current: Arc<Current>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads a certificate, followed by those that vouch for it, and its key, all as PEM.
    pub fn new(certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let current = Arc::new(Current(ArcSwap::from_pointee(read(certificate, key)?)));
        let builder =
            rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(TlsError::Together)?;
        let mut config = builder
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![HTTP_2.to_vec(), b"http/1.1".to_vec()];
        // Who comes again brings what is needed to go on: nothing is kept here for each client.
        config.ticketer = ring::Ticketer::new().map_err(TlsError::Together)?;
        Ok(Self {
            config: Arc::new(config),
            current,
        })
    }

    /// Uses these from the next handshake on. If they can't be used the old ones stay.
    pub fn replace(&self, certificate: &[u8], key: &[u8]) -> Result<(), TlsError> {
        self.current.0.store(Arc::new(read(certificate, key)?));
        Ok(())
    }

    /// Does the handshake, within a time; `None` if the client does not.
    pub(crate) async fn accept(&self, stream: TcpStream, time_max: Duration) -> Option<Stream> {
        let handshake = async {
            let mut first = [0];
            if stream.peek(&mut first).await? == 1 && first != [HANDSHAKE] {
                // A courtesy: whether it arrives is not our concern.
                let _ = stream.try_write(NOT_PLAIN);
                return Err(io::Error::new(io::ErrorKind::InvalidData, "not TLS"));
            }
            TlsAcceptor::from(Arc::clone(&self.config))
                .accept(stream)
                .await
        };
        match tokio::time::timeout(time_max, handshake).await {
            Ok(Ok(stream)) => Some(Stream::Tls(Box::new(stream))),
            Ok(Err(error)) => {
                tracing::debug!(%error, "handshake failed");
                None
            }
            Err(_) => {
                tracing::debug!("handshake given up: it took too long");
                None
            }
        }
    }
}

/// What is shown to clients.
#[derive(Debug)]
struct Current(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

fn read(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(TlsError::Certificate)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(TlsError::Together)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_said() {
        let (certificate, key) = pair();
        let (other, _) = pair();
        let cut = &certificate[..certificate.len() / 2];
        for (certificate, key, expected) in [
            ("", key.as_str(), "NoCertificate"),
            ("hello", &key, "NoCertificate"),
            (cut, &key, "Certificate("),
            (&certificate, "", "Key("),
            (&certificate, &certificate, "Key("),
            (&other, &key, "Together("),
        ] {
            let error = Tls::new(certificate.as_bytes(), key.as_bytes()).unwrap_err();
            assert!(format!("{error:?}").starts_with(expected), "{error:?}");
        }
    }

    #[test]
    fn a_certificate_that_can_not_be_used_leaves_the_old_one() {
        let (certificate, key) = pair();
        let tls = Tls::new(certificate.as_bytes(), key.as_bytes()).unwrap();
        let before = tls.current.0.load_full().cert.clone();
        let (next, next_key) = pair();
        assert!(tls.replace(next.as_bytes(), key.as_bytes()).is_err());
        assert_eq!(tls.current.0.load().cert, before);
        tls.replace(next.as_bytes(), next_key.as_bytes()).unwrap();
        assert_ne!(tls.current.0.load().cert, before);
    }
}
