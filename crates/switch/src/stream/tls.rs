//! TLS as Open vSwitch's tools do it: both sides show a certificate, and each checks that the
//! other's was signed by the configured authority, whatever name it bears.
//!
//! `ovs-pki` writes names into its certificates that are no host names, and Open vSwitch never
//! looks at them (ovs: `lib/stream-ssl.c`), so neither does this: the chain is verified, the name
//! is not.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::server::WebPkiClientVerifier;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Where the key, the certificate and the authority's certificate lie.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// `-p`, or the SSL row's `private_key`.
    pub private_key: Option<PathBuf>,
    /// `-c`, or `certificate`.
    pub certificate: Option<PathBuf>,
    /// `-C`, or `ca_cert`.
    pub ca_cert: Option<PathBuf>,
}

/// Why TLS can't be had.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Not configured.
    #[error("{0} is not configured; set it with ovs-vsctl set-ssl or the options -p, -c and -C")]
    Missing(&'static str),
    /// A file that can't be used.
    #[error("{file}: {reason}")]
    File {
        /// Which.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The key and certificates don't go together.
    #[error("the key and certificates cannot be used: {0}")]
    Refused(String),
}

impl TlsFiles {
    /// For connections that we open.
    pub fn connector(&self) -> Result<TlsConnector, TlsError> {
        let (chain, key, roots) = self.load()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots.clone()), provider)
            .build()
            .map_err(|error| TlsError::Refused(error.to_string()))?;
        let config = rustls::ClientConfig::builder()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ChainOnly { inner, roots }))
            .with_client_auth_cert(chain, key)
            .map_err(|error| TlsError::Refused(error.to_string()))?;
        Ok(TlsConnector::from(Arc::new(config)))
    }

    /// For connections that others open.
    pub fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let (chain, key, roots) = self.load()?;
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
            .build()
            .map_err(|error| TlsError::Refused(error.to_string()))?;
        let config = rustls::ServerConfig::builder()
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|error| TlsError::Refused(error.to_string()))?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    #[allow(clippy::type_complexity)]
    fn load(
        &self,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>, RootCertStore), TlsError>
    {
        let given = |file: &Option<PathBuf>, what| file.clone().ok_or(TlsError::Missing(what));
        let key_file = given(&self.private_key, "the private key")?;
        let key = PrivateKeyDer::from_pem_file(&key_file).map_err(|e| wrong(&key_file, &e))?;
        let chain = certificates(&given(&self.certificate, "the certificate")?)?;
        let ca_file = given(&self.ca_cert, "the certificate authority's certificate")?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&ca_file)? {
            roots.add(certificate).map_err(|e| wrong(&ca_file, &e))?;
        }
        Ok((chain, key, roots))
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(file).map_err(|e| wrong(file, &e))?;
    let list: Result<Vec<_>, _> = read.collect();
    match list.map_err(|e| wrong(file, &e))? {
        list if list.is_empty() => Err(TlsError::File {
            file: file.display().to_string(),
            reason: "holds no certificate in PEM form".to_owned(),
        }),
        list => Ok(list),
    }
}

fn wrong(file: &Path, error: &dyn std::fmt::Display) -> TlsError {
    TlsError::File { file: file.display().to_string(), reason: error.to_string() }
}

/// Verifies that a server's certificate was signed by the authority, and not its name.
#[derive(Debug)]
struct ChainOnly {
    inner: Arc<WebPkiServerVerifier>,
    roots: RootCertStore,
}

impl ServerCertVerifier for ChainOnly {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = rustls::server::ParsedCertificate::try_from(end_entity)?;
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        rustls::client::verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            algorithms.all,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
