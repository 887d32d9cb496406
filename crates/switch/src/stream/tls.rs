//! TLS as in Open vSwitch's tools: both sides send a certificate, and each checks that the other's was signed
//! by the configured CA, whatever name it contains.
//!
//! `ovs-pki` writes names into its certificates that are not host names, and Open vSwitch ignores them (ovs:
//! `lib/stream-ssl.c`): the chain is verified, the name is not. Files are read for every connection, so that
//! a renewed certificate takes effect at once.

mod bootstrap;
mod policy;
mod verify;

pub use policy::TlsPolicy;

use daemon::bounded;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use verify::ChainOnly;

/// Maximum size of a file with a key or certificates.
const PEM_BYTES: u64 = 1 << 20;
/// Replaces the CA certificate's file name: peers are not verified.
pub const NO_AUTHORITY: &str = "none";

/// The files of the key and certificates, and the permitted versions and ciphers.
#[derive(Clone, Default, Debug)]
pub struct TlsSettings {
    /// `-p`, or the SSL row's `private_key`.
    pub private_key: Option<PathBuf>,
    /// `-c`, or `certificate`.
    pub certificate: Option<PathBuf>,
    /// `-C`, or `ca_cert`; [`NO_AUTHORITY`] for none.
    pub ca_cert: Option<PathBuf>,
    /// Whether a missing `ca_cert` is created from the first server's chain.
    pub bootstrap_ca_cert: bool,
    /// `--peer-ca-cert`: sent to peers after the certificate.
    pub peer_ca_cert: Option<PathBuf>,
    /// Versions and ciphers.
    pub policy: TlsPolicy,
}

/// Why TLS is not available.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Not configured.
    #[error("{0} is not configured; set it with ovs-vsctl set-ssl or the options -p, -c and -C")]
    Missing(&'static str),
    /// A file is invalid.
    #[error("{file}: {reason}")]
    File {
        /// The file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// The key does not match the certificate.
    #[error("the key and certificates cannot be used: {0}")]
    Refused(#[from] rustls::Error),
    /// The permitted versions and ciphers are empty.
    #[error("--ssl-protocols, --ssl-ciphers and --ssl-ciphersuites leave no version with a cipher")]
    NothingAllowed,
}

/// A private key with its certificate chain.
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl TlsSettings {
    /// Starts TLS on an outgoing connection.
    ///
    /// # Errors
    /// The settings are invalid, or the handshake fails. If the CA certificate was missing, it has been
    /// stored, and the connection must be made again.
    pub async fn connect(
        &self,
        stream: TcpStream,
        peer: IpAddr,
    ) -> io::Result<TlsStream<TcpStream>> {
        let bootstrap =
            self.ca_cert.as_ref().filter(|file| self.bootstrap_ca_cert && is_gone(file));
        let authority = match bootstrap {
            Some(_) => None,
            None => self.authority().map_err(io::Error::other)?,
        };
        let connector = self.connector(authority).map_err(io::Error::other)?;
        let stream = connector.connect(ServerName::IpAddress(peer.into()), stream).await?;
        if let Some(file) = bootstrap {
            bootstrap::store(file, stream.get_ref().1.peer_certificates().unwrap_or_default())?;
            return Err(io::Error::other("connecting again with the CA certificate of the peer"));
        }
        Ok(stream.into())
    }

    /// Logs that peers are not verified, if so.
    pub fn warn(&self) {
        if self.ca_cert.as_deref() == Some(Path::new(NO_AUTHORITY)) {
            let words = "Peer certificate validation disabled (this is a security risk)";
            log::warn!(target: "stream_ssl", "{words}");
        }
    }

    fn connector(&self, authority: Option<RootCertStore>) -> Result<TlsConnector, TlsError> {
        let Identity { chain, key } = self.identity()?;
        let provider = self.policy.provider();
        let authority = authority.map(Arc::new);
        let verifier = ChainOnly { authority, provider: Arc::clone(&provider) };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(self.policy.versions())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(chain, key)?;
        Ok(TlsConnector::from(Arc::new(config)))
    }

    /// Returns the acceptor for incoming connections. The CA certificate is never taken from a peer here: the
    /// first client could choose it.
    ///
    /// # Errors
    /// The settings are invalid.
    pub fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let Identity { chain, key } = self.identity()?;
        let provider = self.policy.provider();
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(self.policy.versions())?;
        let config = match self.authority()? {
            None => config.with_no_client_auth(),
            Some(roots) => config.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .build()
                    .map_err(|error| rustls::Error::General(error.to_string()))?,
            ),
        };
        Ok(TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key)?)))
    }

    /// Returns the switch's key and certificate chain.
    fn identity(&self) -> Result<Identity, TlsError> {
        if self.policy.versions().is_empty() {
            return Err(TlsError::NothingAllowed);
        }
        let key_file = given(&self.private_key, "the private key")?;
        let key = PrivateKeyDer::from_pem_slice(&read(key_file)?)
            .map_err(|error| wrong(key_file, &error))?;
        let mut chain = certificates(given(&self.certificate, "the certificate")?)?;
        if let Some(file) = &self.peer_ca_cert {
            chain.extend(certificates(file)?);
        }
        Ok(Identity { chain, key })
    }

    /// Returns the trusted CA certificates; `None` disables verification.
    fn authority(&self) -> Result<Option<RootCertStore>, TlsError> {
        let file = given(&self.ca_cert, "the certificate authority's certificate")?;
        if file == Path::new(NO_AUTHORITY) {
            return Ok(None);
        }
        let mut roots = RootCertStore::empty();
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| wrong(file, &error))?;
        }
        Ok(Some(roots))
    }
}

fn given<'a>(file: &'a Option<PathBuf>, what: &'static str) -> Result<&'a Path, TlsError> {
    file.as_deref().ok_or(TlsError::Missing(what))
}

/// Returns whether the file does not exist.
fn is_gone(file: &Path) -> bool {
    file.metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(file)?;
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match list.map_err(|error| wrong(file, &error))? {
        list if list.is_empty() => Err(wrong(file, &"holds no certificate in PEM form")),
        list => Ok(list),
    }
}

/// Reads a key or certificates. A pipe is rejected, because opening it would block.
fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let metadata = file.metadata().map_err(|error| wrong(file, &base::reason(&error)))?;
    if !metadata.is_file() {
        return Err(wrong(file, &"is no ordinary file"));
    }
    bounded::read(file, PEM_BYTES).map_err(|error| wrong(file, &base::reason(&error)))
}

fn wrong(file: &Path, error: &dyn std::fmt::Display) -> TlsError {
    TlsError::File { file: file.display().to_string(), reason: error.to_string() }
}
