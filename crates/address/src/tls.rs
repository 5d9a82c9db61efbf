//! TLS to the database, as libpq's `sslmode` has it.

use std::{net::IpAddr, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use tokio_postgres::{
    Config,
    config::{Host, SslMode, SslNegotiation},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::parameters::TlsParameters;
use crate::AddressError;

/// What is spoken in TLS (ALPN), as PostgreSQL has registered it.
const PROTOCOL: &[u8] = b"postgresql";

/// How much of the server's certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checked {
    /// Nothing: what is sent is encrypted, to whomever.
    Nothing,
    /// Who has signed it.
    Signer,
    /// That, and that it is for this host.
    SignerAndHost,
}

/// Sets how a database is spoken to; returns what speaks TLS, if anything does.
pub(super) fn configure(
    config: &mut Config,
    parameters: &TlsParameters,
) -> Result<Option<MakeRustlsConnect>, AddressError> {
    let has_roots = parameters.root_certificates.is_some();
    let (mode, checked) = match parameters.mode.as_deref() {
        // A database on this machine is not worth the price of it, unless it is asked for.
        None if is_here(config) => (SslMode::Disable, Checked::Nothing),
        Some("disable") => (SslMode::Disable, Checked::Nothing),
        None | Some("prefer" | "allow") => (SslMode::Prefer, Checked::Nothing),
        // As in libpq: who names signers wants them checked.
        Some("require") if has_roots => (SslMode::Require, Checked::Signer),
        Some("require") => (SslMode::Require, Checked::Nothing),
        Some("verify-ca") => (SslMode::Require, Checked::Signer),
        Some("verify-full") => (SslMode::Require, Checked::SignerAndHost),
        Some(other) => {
            return Err(AddressError(format!(
                "sslmode={other}: it can be disable, prefer, require, verify-ca or verify-full"
            )));
        }
    };
    config.ssl_mode(mode);
    let is_direct = config.get_ssl_negotiation() == SslNegotiation::Direct;
    if is_direct && mode != SslMode::Require {
        // As in libpq: there is nothing to fall back to.
        return Err(AddressError(
            "sslnegotiation=direct goes with sslmode=require, verify-ca or verify-full".to_owned(),
        ));
    }
    if mode == SslMode::Disable {
        return Ok(None);
    }
    let mut client = client(parameters, checked)?;
    if is_direct {
        // A server takes nobody in who does not say what is spoken.
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
    }
    Ok(Some(MakeRustlsConnect::new(client)))
}

/// Tells whether all of the hosts are this machine.
fn is_here(config: &Config) -> bool {
    let local = |host: &Host| match host {
        Host::Tcp(name) => {
            let address = name.parse::<IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => true,
    };
    match config.get_hostaddrs() {
        [] => config.get_hosts().iter().all(local),
        // The hosts are their names.
        addresses => addresses.iter().all(IpAddr::is_loopback),
    }
}

fn client(parameters: &TlsParameters, checked: Checked) -> Result<ClientConfig, AddressError> {
    let provider = Arc::new(ring::default_provider());
    let refused = |error: Error| AddressError(format!("TLS to the database: {error}"));
    let verifier = Verifier::new(parameters, checked, Arc::clone(&provider))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    match (&parameters.certificate, &parameters.key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(certificate), Some(key)) => {
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| unreadable("sslkey", key, &error))?;
            builder
                .with_client_auth_cert(certificates("sslcert", certificate)?, key)
                .map_err(refused)
        }
        _ => Err(AddressError("sslcert and sslkey go together".to_owned())),
    }
}

fn certificates(name: &str, file: &str) -> Result<Vec<CertificateDer<'static>>, AddressError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let found: Vec<_> = read.map_err(|error| unreadable(name, file, &error))?;
    if found.is_empty() {
        return Err(unreadable(name, file, &"there is no certificate in it"));
    }
    Ok(found)
}

fn unreadable(name: &str, file: &str, error: &dyn std::fmt::Display) -> AddressError {
    AddressError(format!("{name}={file} can't be used: {error}"))
}

/// Checks the server's certificate as far as the operator wants it.
#[derive(Debug)]
struct Verifier {
    checked: Checked,
    /// None where nothing is checked.
    signers: Option<Arc<WebPkiServerVerifier>>,
    /// Certificates that are trusted as they are: who has signed his own has no other signer.
    trusted: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(
        parameters: &TlsParameters,
        checked: Checked,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, AddressError> {
        let mut verifier = Self {
            checked,
            signers: None,
            trusted: Vec::new(),
            provider,
        };
        if checked == Checked::Nothing {
            return Ok(verifier);
        }
        let mut roots = RootCertStore::empty();
        let file = parameters.root_certificates.as_deref();
        match file.filter(|file| *file != "system") {
            Some(file) => verifier.trusted = certificates("sslrootcert", file)?,
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        for certificate in &verifier.trusted {
            // One that may not sign others can still be the server's own.
            let _ = roots.add(certificate.clone());
        }
        if roots.is_empty() {
            return Err(AddressError(
                "no certificates to check the database's with: name a file of them with sslrootcert"
                    .to_owned(),
            ));
        }
        let provider = Arc::clone(&verifier.provider);
        let signers =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        verifier.signers =
            Some(signers.map_err(|error| {
                AddressError(format!("the certificates can't be used: {error}"))
            })?);
        Ok(verifier)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(signers) = &self.signers else {
            return Ok(ServerCertVerified::assertion());
        };
        if self.trusted.iter().any(|trusted| trusted == certificate) {
            if self.checked == Checked::SignerAndHost {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, host)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        match signers.verify_server_cert(certificate, between, host, ocsp, now) {
            // The host is looked at last: everything else is right.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.checked == Checked::Signer => Ok(ServerCertVerified::assertion()),
            end => end,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
