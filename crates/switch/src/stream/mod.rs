//! Connections by Open vSwitch's names for them: `unix:FILE`, `tcp:HOST:PORT`, `ssl:HOST:PORT`
//! to connect to, and `punix:FILE`, `ptcp:[PORT][:HOST]`, `pssl:[PORT][:HOST]` to listen on
//! (ovs: `lib/stream.c`, `lib/vconn.c`).

mod target;
mod tls;

pub use target::{Target, TargetError};
pub use tls::TlsFiles;

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsStream;

/// A connection, whatever it runs over.
pub enum Stream {
    /// A Unix domain socket.
    Unix(UnixStream),
    /// TCP.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
}

/// A socket that waits for connections.
pub enum Listener {
    /// A Unix domain socket; its file is removed when the listener goes.
    Unix(UnixListener, PathBuf),
    /// TCP.
    Tcp(TcpListener),
    /// TLS over TCP, with what is needed to accept.
    Tls(TcpListener, tokio_rustls::TlsAcceptor),
}

impl Stream {
    /// Connects to an active target.
    pub async fn connect(target: &Target, tls: &TlsFiles) -> io::Result<Stream> {
        match target {
            Target::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
            Target::Tcp(address) => Ok(Stream::Tcp(tcp(*address).await?)),
            Target::Tls(address) => {
                let connector = tls.connector().map_err(io::Error::other)?;
                let name = rustls_pki_types::ServerName::IpAddress(address.ip().into());
                let stream = connector.connect(name, tcp(*address).await?).await?;
                Ok(Stream::Tls(Box::new(stream.into())))
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "this target listens")),
        }
    }
}

async fn tcp(address: std::net::SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Listener {
    /// Listens on a passive target. A socket file left behind by a process that is gone is
    /// replaced.
    pub async fn bind(target: &Target, tls: &TlsFiles) -> io::Result<Listener> {
        match target {
            Target::ListenUnix(path) => match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(Listener::Unix(UnixListener::bind(path)?, path.clone())),
            },
            Target::ListenTcp(address) => Ok(Listener::Tcp(TcpListener::bind(address).await?)),
            Target::ListenTls(address) => {
                let acceptor = tls.acceptor().map_err(io::Error::other)?;
                Ok(Listener::Tls(TcpListener::bind(address).await?, acceptor))
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "this target connects")),
        }
    }

    /// The next connection.
    pub async fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Unix(listener, _) => Ok(Stream::Unix(listener.accept().await?.0)),
            Listener::Tcp(listener) => Ok(Stream::Tcp(listener.accept().await?.0)),
            Listener::Tls(listener, acceptor) => {
                let (stream, _) = listener.accept().await?;
                Ok(Stream::Tls(Box::new(acceptor.accept(stream).await?.into())))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // Somebody may have removed it already, which is as good.
            let _ = std::fs::remove_file(path);
        }
    }
}

macro_rules! each {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Unix($stream) => $call,
            Stream::Tcp($stream) => $call,
            Stream::Tls(boxed) => {
                let $stream = boxed.as_mut();
                $call
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
