//! Certificates that are trusted in addition to the usual ones.
//!
//! A file may contain authorities, and also a server's own certificate: what `openssl req -x509`
//! makes calls itself an authority, and the usual verifier does not accept an authority as a
//! server's certificate. Invariant: such a certificate is accepted only if the server presents
//! exactly that one, it is currently valid, and it is for the requested name.

use std::path::Path;
use std::sync::Arc;

use reqwest::blocking::ClientBuilder;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// The most bytes that a file of certificates may have.
const LONGEST_BUNDLE: u64 = 16 << 20;

/// Also trusts the certificates in a file.
pub fn trusting(client: ClientBuilder, file: Option<&Path>) -> Result<ClientBuilder, String> {
    let Some(path) = file else { return Ok(client) };
    let pem = files::read(path, LONGEST_BUNDLE).map_err(|error| {
        format!("cannot read the certificates in `{}`: {error}", path.display())
    })?;
    let bad = |why: String| format!("`{}` holds no certificates: {why}", path.display());
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| bad(error.to_string()))?;
    if found.is_empty() {
        return Err(bad("nothing in it begins like one".to_owned()));
    }
    let config = config(found).map_err(|error| bad(error.to_string()))?;
    Ok(client.use_preconfigured_tls(config))
}

fn config(named: Vec<CertificateDer<'static>>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for certificate in &named {
        roots.add(certificate.clone())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let usual = usual.build().map_err(|error| Error::General(error.to_string()))?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { usual, named }))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The usual verifier, with an exception for servers whose own certificate is in the file.
#[derive(Debug)]
struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let judged = self.usual.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match judged {
            Err(error) if is_an_authority(&error) && self.named.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// Whether that is all that is wrong. The validity period was checked before that; the name was
/// not.
fn is_an_authority(error: &Error) -> bool {
    matches!(error, Error::InvalidCertificate(CertificateError::Other(why))
        if why.to_string() == "CaUsedAsEndEntity")
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;
