//! Connections by Open vSwitch's names for them: `unix:FILE`, `tcp:HOST:PORT`, `ssl:HOST:PORT`
//! to connect to, and `punix:FILE`, `ptcp:[PORT][:HOST]`, `pssl:[PORT][:HOST]` to listen on
//! (ovs: `lib/stream.c`, `lib/vconn.c`).

mod accept;
mod outgoing;
mod target;
mod tls;

pub use accept::{Admission, Incoming};
pub use outgoing::Outgoing;
pub use target::{Target, TargetError};
pub use tls::{NO_AUTHORITY, TlsPolicy, TlsSettings};

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsStream;

/// A connection over any transport.
pub enum Stream {
    /// A Unix domain socket.
    Unix(UnixStream),
    /// TCP.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Time limit of connecting to a peer, its TLS handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum permissions of a bridge's sockets: the group may read if the umask permits it.
const SOCKET_MODE: u32 = 0o750;

/// A listening socket.
pub enum Listener {
    /// A Unix domain socket; its file is removed on drop.
    Unix(UnixListener, PathBuf),
    /// TCP.
    Tcp(TcpListener),
    /// TLS over TCP.
    Tls(TcpListener),
}

impl Stream {
    /// Connects to an active target.
    ///
    /// # Errors
    /// The peer refuses, does not answer in time, or fails the TLS handshake.
    pub async fn connect(target: &Target, tls: &TlsSettings) -> io::Result<Stream> {
        coverage::count(coverage::Event::StreamOpen);
        match tokio::time::timeout(CONNECT_TIMEOUT, Stream::open(target, tls)).await {
            Ok(opened) => opened,
            Err(_) => Err(timed_out()),
        }
    }

    async fn open(target: &Target, tls: &TlsSettings) -> io::Result<Stream> {
        match target {
            Target::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
            Target::Tcp(address) => Ok(Stream::Tcp(tcp(*address).await?)),
            Target::Tls(address) => {
                let stream = tls.connect(tcp(*address).await?, address.ip()).await?;
                Ok(Stream::Tls(Box::new(stream)))
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "this target listens")),
        }
    }
}

fn listen_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    // The standard library sets SO_REUSEADDR.
    let socket = std::net::TcpListener::bind(address)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

async fn tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Listener {
    /// Listens on a passive target. A stale socket file is replaced.
    ///
    /// # Errors
    /// The address or the file is in use, or TLS is not configured.
    pub fn bind(target: &Target, tls: &TlsSettings) -> io::Result<Listener> {
        coverage::count(coverage::Event::PstreamOpen);
        match target {
            Target::ListenUnix(path) => {
                let socket = daemon::listen_unix(path, SOCKET_MODE)?;
                Ok(Listener::Unix(UnixListener::from_std(socket)?, path.clone()))
            }
            Target::ListenTcp(address) => Ok(Listener::Tcp(listen_tcp(*address)?)),
            Target::ListenTls(address) => {
                tls.acceptor().map_err(io::Error::other)?;
                Ok(Listener::Tls(listen_tcp(*address)?))
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "this target connects")),
        }
    }

    /// Returns the next connection. [`Incoming::finish`] makes the TLS handshake.
    ///
    /// # Errors
    /// The process is out of descriptors or memory; the peer is not the cause.
    pub async fn accept(&self) -> io::Result<Incoming> {
        match self {
            Listener::Unix(listener, _) => {
                Ok(Incoming::ready(Stream::Unix(listener.accept().await?.0)))
            }
            Listener::Tcp(listener) => Ok(Incoming::ready(Stream::Tcp(listener.accept().await?.0))),
            Listener::Tls(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok(Incoming::greeting(stream, peer.ip()))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // The file may have been removed already.
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
