//! Incoming connections. A peer may connect and send nothing, so a TLS handshake must not block other peers:
//! each runs in its own task with a timeout, and a listener admits a bounded number of unfinished ones, with
//! a limit per address.

use super::{Stream, TlsSettings};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpStream;

/// Time limit of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most unfinished handshakes per listener.
const PENDING_MAX: usize = 256;
/// Most unfinished handshakes of one address at one listener.
const PENDING_PER_ADDRESS_MAX: usize = 16;

/// An incoming connection.
pub struct Incoming(State);

enum State {
    Ready(Stream),
    Greeting { stream: TcpStream, peer: IpAddr },
}

impl Incoming {
    /// A connection without a handshake.
    pub fn ready(stream: Stream) -> Incoming {
        Incoming(State::Ready(stream))
    }

    /// A connection before its TLS handshake.
    pub fn greeting(stream: TcpStream, peer: IpAddr) -> Incoming {
        Incoming(State::Greeting { stream, peer })
    }

    /// Makes the handshake, if one is needed, with the current settings.
    ///
    /// # Errors
    /// The handshake fails or takes too long, too many are unfinished, or the settings are invalid.
    pub async fn finish(self, admission: &Admission, tls: &TlsSettings) -> io::Result<Stream> {
        let (stream, peer) = match self.0 {
            State::Ready(stream) => return Ok(stream),
            State::Greeting { stream, peer } => (stream, peer),
        };
        let Some(_place) = admission.admit(peer) else {
            let text = format!("{peer}: too many unfinished TLS handshakes");
            return Err(io::Error::other(text));
        };
        let acceptor = tls.acceptor().map_err(io::Error::other)?;
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => Ok(Stream::Tls(Box::new(stream.into()))),
            Ok(Err(error)) => Err(io::Error::other(format!("{peer}: {error}"))),
            Err(_) => Err(io::Error::other(format!("{peer}: no TLS handshake in time"))),
        }
    }
}

/// Counts the unfinished handshakes of a listener.
#[derive(Clone, Default, Debug)]
pub struct Admission(Rc<RefCell<Pending>>);

#[derive(Default, Debug)]
struct Pending {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The entry of one unfinished handshake.
struct Place(Admission, IpAddr);

impl Admission {
    fn admit(&self, peer: IpAddr) -> Option<Place> {
        let mut pending = self.0.borrow_mut();
        let of_address = pending.by_address.get(&peer).copied().unwrap_or(0);
        if pending.all >= PENDING_MAX || of_address >= PENDING_PER_ADDRESS_MAX {
            return None;
        }
        pending.all += 1;
        pending.by_address.insert(peer, of_address + 1);
        Some(Place(self.clone(), peer))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut pending = self.0.0.borrow_mut();
        pending.all -= 1;
        let of_address = pending.by_address.get(&self.1).copied().unwrap_or(0);
        match of_address {
            0 | 1 => drop(pending.by_address.remove(&self.1)),
            more => drop(pending.by_address.insert(self.1, more - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_gets_a_share_and_places_come_back() {
        let admission = Admission::default();
        let peer = |n: u8| IpAddr::from([10, 0, 0, n]);
        let mut places: Vec<_> =
            (0..PENDING_PER_ADDRESS_MAX).map(|_| admission.admit(peer(1)).unwrap()).collect();
        assert!(admission.admit(peer(1)).is_none());
        assert!(admission.admit(peer(2)).is_some());
        places.pop();
        assert!(admission.admit(peer(1)).is_some());
        drop(places);
        assert_eq!(admission.0.borrow().all, 0);
        assert!(admission.0.borrow().by_address.is_empty());
        let all: Vec<_> = (0..=255).filter_map(|n| admission.admit(peer(n))).collect();
        assert_eq!(all.len(), PENDING_MAX);
        assert!(admission.admit(IpAddr::from([10, 0, 1, 0])).is_none());
    }
}
