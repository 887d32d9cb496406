//! The sockets of OpenFlow: a task for each listener, each controller that we connect to, and each
//! connection.

use super::{Shared, Switch};
use crate::stream::{Admission, Listener, Stream, Target, TlsSettings};
use ofproto::BridgeId;
use ofproto::connection::{ConnId, Settings};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// The wait between two attempts to listen.
const LISTEN_AGAIN: Duration = Duration::from_secs(8);
/// The first wait between two attempts to reach a controller; each next one is twice as long
/// (ovs: `lib/rconn.c`).
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// How long a peer that is turned away may take to read why.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes read from a connection at once.
const READ_BYTES: usize = 64 * 1024;

/// What connections on one target are.
#[derive(Clone, Debug)]
pub struct Service {
    /// The bridge.
    pub bridge: BridgeId,
    /// How the sessions are made.
    pub settings: Settings,
    /// The controller's target as it is configured, for its status.
    pub target: Option<String>,
}

/// Listens, for as long as the handle lives unaborted. The socket is there on return, unless it
/// cannot be made yet; then it is tried again and again.
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
                    // The system is out of descriptors or memory, which passes.
                    log::warn!(target: "vconn", "{target}: cannot accept: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    })
}

/// Keeps a connection to a controller, for as long as the handle lives unaborted.
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

/// One connection, from its greeting to its end. The switch's state is borrowed only between
/// awaits, never across one.
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
            // Flow monitors that paused go on once all is written.
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

/// Leaves the peer time to read why it is turned away. Were the socket closed while bytes of the
/// peer's are still to be read, or come in, it would be reset, and our last words with it.
async fn linger(reader: &mut ReadHalf<Stream>, writer: &mut WriteHalf<Stream>, buffer: &mut [u8]) {
    let read_on = async {
        let _ = writer.shutdown().await;
        while matches!(reader.read(buffer).await, Ok(bytes) if bytes > 0) {}
    };
    let _ = tokio::time::timeout(LINGER, read_on).await;
}

/// A session as its task holds it.
pub struct Session {
    /// Its number.
    pub id: ConnId,
    /// Told when there is something to write.
    pub output: Rc<tokio::sync::Notify>,
}

/// Does something with the switch, if it is still there.
pub fn with<R>(shared: &Weak<RefCell<Switch>>, f: impl FnOnce(&mut Switch) -> R) -> Option<R> {
    shared.upgrade().map(|switch| f(&mut switch.borrow_mut()))
}
