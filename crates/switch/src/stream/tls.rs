//! TLS as Open vSwitch's tools do it: both sides show a certificate, and each checks that the
//! other's was signed by the configured authority, whatever name it bears.
//!
//! `ovs-pki` writes names into its certificates that are no host names, and Open vSwitch never
//! looks at them (ovs: `lib/stream-ssl.c`), so neither does this: the chain is verified, the name
//! is not. Files are read for every connection, so that a renewed certificate counts at once.

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

/// The longest file of a key or of certificates.
const PEM_BYTES: u64 = 1 << 20;
/// In place of the file of the authority's certificate: peers are not verified.
pub const NO_AUTHORITY: &str = "none";

/// Where the key and the certificates lie, and what a connection may use.
#[derive(Clone, Default, Debug)]
pub struct TlsSettings {
    /// `-p`, or the SSL row's `private_key`.
    pub private_key: Option<PathBuf>,
    /// `-c`, or `certificate`.
    pub certificate: Option<PathBuf>,
    /// `-C`, or `ca_cert`; [`NO_AUTHORITY`] for none.
    pub ca_cert: Option<PathBuf>,
    /// Whether a missing `ca_cert` is written from what the first server shows.
    pub bootstrap_ca_cert: bool,
    /// `--peer-ca-cert`: shown to peers behind the certificate.
    pub peer_ca_cert: Option<PathBuf>,
    /// Versions and ciphers.
    pub policy: TlsPolicy,
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
    Refused(#[from] rustls::Error),
    /// The versions and ciphers that are allowed leave nothing.
    #[error("--ssl-protocols, --ssl-ciphers and --ssl-ciphersuites leave no version with a cipher")]
    NothingAllowed,
}

/// A private key with the chain of its certificate.
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl TlsSettings {
    /// Begins TLS on a connection that we opened.
    ///
    /// # Errors
    /// The settings cannot be used, or the server fails the handshake. Where its authority's
    /// certificate was missing, it is stored, and the connection has to be made again.
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

    /// Says so where peers are not verified.
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

    /// For connections that others open. No peer's word is taken for the authority's certificate here:
    /// the first to connect would choose it.
    ///
    /// # Errors
    /// The settings cannot be used.
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

    /// Our key, and what we show of ourselves.
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

    /// Whom to trust; None is anybody.
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

/// Whether nothing has this name.
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

/// Reads a key or certificates. A pipe is refused: to open it would wait for a writer.
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
