//! The sockets of OpenFlow: one task for each listener, each outgoing controller connection, and each
//! session.

use super::{Shared, Switch};
use crate::stream::{Admission, Listener, Stream, Target, TlsSettings};
use ofproto::BridgeId;
use ofproto::connection::{ConnId, Settings};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// The wait before listening is retried.
const LISTEN_AGAIN: Duration = Duration::from_secs(8);
/// The first wait between two attempts to connect to a controller; it doubles with each attempt (ovs:
/// `lib/rconn.c`).
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// How long a rejected peer may take to read the reason.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes read from a connection at once.
const READ_BYTES: usize = 64 * 1024;

/// The purpose of connections on one target.
#[derive(Clone, Debug)]
pub struct Service {
    /// The bridge.
    pub bridge: BridgeId,
    /// Settings of the sessions.
    pub settings: Settings,
    /// The controller's configured target, for its status.
    pub target: Option<String>,
}

/// Listens until the handle is aborted. The socket exists on return; if it cannot be created yet, that is
/// retried.
pub fn listen(
    shared: &Shared,
    target: Target,
    tls: &TlsSettings,
    service: Service,
) -> JoinHandle<()> {
    let shared = Rc::downgrade(shared);
    let mut bound = Listener::bind(&target, tls);
    tokio::task::spawn_local(async move {
        let listener = loop {
            match bound {
                Ok(listener) => break listener,
                Err(error) => log::error!(target: "vconn", "{target}: cannot listen: {error}"),
            }
            tokio::time::sleep(LISTEN_AGAIN).await;
            let Some(tls) = with(&shared, |switch| switch.tls().clone()) else { return };
            bound = Listener::bind(&target, &tls);
        };
        let admission = Admission::default();
        loop {
            match listener.accept().await {
                Ok(incoming) => {
                    let (shared, service) = (shared.clone(), service.clone());
                    let (admission, target) = (admission.clone(), target.clone());
                    let Some(tls) = with(&shared, |switch| switch.tls().clone()) else { return };
                    tokio::task::spawn_local(async move {
                        match incoming.finish(&admission, &tls).await {
                            Ok(stream) => serve(shared, stream, service).await,
                            Err(error) => log::warn!(target: "stream_ssl", "{target}: {error}"),
                        }
                    });
                }
                Err(error) => {
                    // The process is out of descriptors or memory for some time.
                    log::warn!(target: "vconn", "{target}: cannot accept: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    })
}

/// Maintains a connection to a controller until the handle is aborted.
pub fn connect(shared: &Shared, target: Target, service: Service) -> JoinHandle<()> {
    let shared = Rc::downgrade(shared);
    tokio::task::spawn_local(async move {
        let mut wait = BACKOFF_MIN;
        loop {
            let Some(tls) = with(&shared, |switch| switch.tls().clone()) else { return };
            match Stream::connect(&target, &tls).await {
                Ok(stream) => {
                    log::info!(target: "rconn", "{target}: connected");
                    let began = clock::now();
                    serve(shared.clone(), stream, service.clone()).await;
                    if clock::now() - began > wait {
                        wait = BACKOFF_MIN;
                    }
                }
                Err(error) => {
                    let why = base::reason(&error);
                    log::info!(target: "rconn", "{target}: connection failed ({why})");
                    with(&shared, |switch| switch.controller_failed(&service, why));
                }
            }
            let Some(most) = with(&shared, |switch| switch.backoff_max(&service)) else { return };
            tokio::time::sleep(wait.min(most)).await;
            wait = (wait * 2).min(most);
        }
    })
}

/// Serves one connection from hello to its end. The switch's state is borrowed only between awaits, never
/// across one.
async fn serve(shared: Weak<RefCell<Switch>>, stream: Stream, service: Service) {
    let Some(session) = with(&shared, |switch| switch.open_session(&service)).flatten() else {
        return;
    };
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let Some((bytes, closing)) = with(&shared, |switch| switch.session_output(session.id))
        else {
            return;
        };
        if !bytes.is_empty() {
            if writer.write_all(&bytes).await.is_err() {
                break;
            }
            // Paused flow monitors resume once all is written.
            session.output.notify_one();
        }
        if closing {
            with(&shared, |switch| switch.close_session(session.id));
            linger(&mut reader, &mut writer, &mut buffer).await;
            return;
        }
        let wants_input = with(&shared, |switch| switch.session_wants_input(session.id));
        tokio::select! {
            read = reader.read(&mut buffer), if wants_input == Some(true) => match read {
                Ok(n) if n > 0 => {
                    let received = with(&shared, |switch| {
                        switch.session_input(session.id, &buffer[..n]);
                    });
                    if received.is_none() {
                        return;
                    }
                }
                _ => break,
            },
            () = session.output.notified() => {}
        }
    }
    with(&shared, |switch| switch.close_session(session.id));
}

/// Gives a rejected peer time to read the reason. If the socket were closed while input of the peer is unread
/// or arriving, the connection would be reset, and the reason lost.
async fn linger(reader: &mut ReadHalf<Stream>, writer: &mut WriteHalf<Stream>, buffer: &mut [u8]) {
    let read_on = async {
        let _ = writer.shutdown().await;
        while matches!(reader.read(buffer).await, Ok(bytes) if bytes > 0) {}
    };
    let _ = tokio::time::timeout(LINGER, read_on).await;
}

/// A session, as its task holds it.
pub struct Session {
    /// Its number.
    pub id: ConnId,
    /// Notified when there is output.
    pub output: Rc<tokio::sync::Notify>,
}

/// Calls `f` with the switch, if it still exists.
pub fn with<R>(shared: &Weak<RefCell<Switch>>, f: impl FnOnce(&mut Switch) -> R) -> Option<R> {
    shared.upgrade().map(|switch| f(&mut switch.borrow_mut()))
}
