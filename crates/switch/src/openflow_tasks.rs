//! The sockets of OpenFlow: one task for each listener, each outgoing controller connection, and each
//! session.

use super::{Shared, Switch};
use crate::stream::{Admission, Listener, Outgoing, Stream, Target, TlsSettings};
use log::Level;
use ofproto::BridgeId;
use ofproto::connection::{CloseReason, ConnId, Settings};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The wait before listening is retried.
const LISTEN_AGAIN: Duration = Duration::from_secs(8);
/// The first wait between two attempts to connect to a controller; it doubles with each attempt (ovs:
/// `lib/rconn.c`).
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// How long a rejected peer may take to read the reason, and one that has shut down its side the last answers.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes read from a connection at once.
const READ_BYTES: usize = 64 * 1024;

/// Logs the beginning or the end of a connection.
macro_rules! log_end {
    ($level:expr, $($words:tt)+) => {
        vlog::limited!((10, 25), clock::now(), target: "rconn", $level, $($words)+)
    };
}

/// The purpose of connections on one target.
#[derive(Clone, Debug)]
pub struct Service {
    /// The bridge.
    pub bridge: BridgeId,
    /// Its name.
    pub name: String,
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
                            Ok(stream) => {
                                let end = serve(shared, stream, &service).await;
                                end.tell(&format!("{}<->{target}", service.name), Level::Debug);
                            }
                            Err(error) => vlog::limited!(
                                (10, 25), clock::now(), target: "stream_ssl", Level::Warn,
                                "{target}: {error}"
                            ),
                        }
                    });
                }
                Err(error) => {
                    // The process is out of descriptors or memory for some time.
                    vlog::limited!(
                        (5, 5), clock::now(), target: "vconn", Level::Warn,
                        "{target}: cannot accept: {error}"
                    );
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    })
}

/// Maintains a connection to a controller until the handle is aborted. The log has the first attempts only (ovs:
/// `lib/rconn.c`, `rconn_logging_connection_attempts__`).
pub fn connect(shared: &Shared, target: Target, service: Service) -> JoinHandle<()> {
    let shared = Rc::downgrade(shared);
    tokio::task::spawn_local(async move {
        let mut wait = BACKOFF_MIN;
        let name = format!("{}<->{target}", service.name);
        loop {
            let Some(tls) = with(&shared, |switch| switch.tls().clone()) else { return };
            let Some(most) = with(&shared, |switch| switch.backoff_max(&service)) else { return };
            coverage::count(coverage::Event::VconnOpen);
            let error = match Stream::connect(&target, &tls).await {
                Ok(stream) => {
                    log_end!(Level::Info, "{name}: connected");
                    let began = clock::now();
                    let end = serve(shared.clone(), stream, &service).await;
                    end.tell(&name, Level::Info);
                    if clock::now() - began > wait {
                        wait = BACKOFF_MIN;
                    }
                    end.error()
                }
                Err(error) => {
                    let why = base::reason(&error);
                    if wait < most {
                        log_end!(Level::Info, "{name}: connection failed ({why})");
                    }
                    Some(why)
                }
            };
            with(&shared, |switch| switch.controller_failed(&service, error));
            tokio::time::sleep(wait.min(most)).await;
            let next = (wait * 2).min(most);
            if wait < most && next == most {
                log_end!(
                    Level::Info,
                    "{name}: continuing to retry connections in the background but suppressing further \
                     logging"
                );
            }
            wait = next;
        }
    })
}

/// Serves one connection from hello to its end. The switch's state is borrowed only between awaits, never
/// across one.
async fn serve(shared: Weak<RefCell<Switch>>, stream: Stream, service: &Service) -> End {
    let Some(session) = Session::open(&shared, service) else { return End::Removed };
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut buffer = vec![0; READ_BYTES];
    let mut outgoing = Outgoing::default();
    loop {
        let turn = with(&shared, |switch| switch.session_turn(session.id, outgoing.is_empty()));
        let Some(turn) = turn else { return End::Removed };
        outgoing.push(turn.output);
        if let Some(reason) = turn.closing {
            drop(session);
            if reason.lingers() {
                linger(&mut reader, &mut writer, &mut outgoing, &mut buffer).await;
            }
            return End::Closed(reason);
        }
        tokio::select! {
            read = reader.read(&mut buffer), if turn.wants_input => match read {
                Ok(0) => {
                    answer_rest(&shared, &session, &mut writer, &mut outgoing).await;
                    return End::Peer(None);
                }
                Ok(n) => {
                    let received = buffer.get(..n).unwrap_or_default();
                    with(&shared, |switch| switch.session_input(session.id, received));
                }
                Err(error) => return End::Peer(Some(error)),
            },
            written = outgoing.advance(&mut writer) => match written {
                Ok(()) => drop(with(&shared, |switch| switch.session_written(session.id))),
                Err(error) => return End::Peer(Some(error)),
            },
            () = session.output.notified() => {}
        }
    }
}

/// Why a connection ended.
enum End {
    /// The peer closed it, or it failed.
    Peer(Option<std::io::Error>),
    /// The switch closed it.
    Closed(CloseReason),
    /// The bridge does not exist any more, or has no controller to snoop.
    Removed,
}

impl End {
    /// Logs it, in the words of Open vSwitch (ovs: `lib/rconn.c`). `closed` is the level at which a peer's closing is
    /// logged.
    fn tell(&self, name: &str, closed: Level) {
        match self {
            End::Peer(None) => log_end!(closed, "{name}: connection closed by peer"),
            End::Peer(Some(error)) => {
                let why = base::reason(error);
                log_end!(Level::Warn, "{name}: connection dropped ({why})");
            }
            End::Closed(CloseReason::Silent(patience)) => log_end!(
                Level::Error,
                "{name}: no response to inactivity probe after {} seconds, disconnecting",
                patience.as_secs()
            ),
            End::Closed(reason) => log_end!(Level::Info, "{name}: disconnecting ({reason})"),
            End::Removed => {}
        }
    }

    /// Returns the text for `last_error` in `Controller.status`.
    fn error(&self) -> Option<String> {
        match self {
            End::Peer(None) => Some("End of file".to_owned()),
            End::Peer(Some(error)) => Some(base::reason(error)),
            End::Closed(CloseReason::Silent(_)) => Some("Connection timed out".to_owned()),
            End::Closed(_) | End::Removed => None,
        }
    }
}

/// Gives a rejected peer time to read the reason. If the socket were closed while input of the peer is unread
/// or arriving, the connection would be reset, and the reason lost.
async fn linger(
    reader: &mut ReadHalf<Stream>,
    writer: &mut WriteHalf<Stream>,
    outgoing: &mut Outgoing,
    buffer: &mut [u8],
) {
    let read_on = async {
        if outgoing.finish(writer).await.is_err() {
            return;
        }
        let _ = writer.shutdown().await;
        while matches!(reader.read(buffer).await, Ok(bytes) if bytes > 0) {}
    };
    let _ = tokio::time::timeout(LINGER, read_on).await;
}

/// Answers what a peer sent before it shut down its side of the connection: it may still read. One that has closed
/// both sides ends this with the first write.
async fn answer_rest(
    shared: &Weak<RefCell<Switch>>,
    session: &Session,
    writer: &mut WriteHalf<Stream>,
    outgoing: &mut Outgoing,
) {
    let rest = async {
        loop {
            let turn = with(shared, |switch| switch.session_turn(session.id, outgoing.is_empty()));
            let Some(turn) = turn else { return };
            outgoing.push(turn.output);
            if outgoing.is_empty() && (turn.is_idle || turn.closing.is_some()) {
                return;
            }
            tokio::select! {
                written = outgoing.advance(writer) => match written {
                    Ok(()) => drop(with(shared, |switch| switch.session_written(session.id))),
                    Err(_) => return,
                },
                () = session.output.notified() => {}
            }
        }
    };
    let _ = tokio::time::timeout(LINGER, rest).await;
}

/// A session, as its task holds it. It ends with the task, also if that is aborted.
struct Session {
    id: ConnId,
    /// Notified when there is output.
    output: Rc<Notify>,
    switch: Weak<RefCell<Switch>>,
}

impl Session {
    fn open(switch: &Weak<RefCell<Switch>>, service: &Service) -> Option<Session> {
        let (id, output) = with(switch, |switch| switch.open_session(service)).flatten()?;
        Some(Session { id, output, switch: switch.clone() })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // While the program exits, the switch may be borrowed, and does not need its sessions any more.
        let switch = self.switch.upgrade();
        if let Some(mut switch) = switch.as_ref().and_then(|switch| switch.try_borrow_mut().ok()) {
            switch.close_session(self.id);
        }
    }
}

/// Calls `f` with the switch, if it still exists.
pub fn with<R>(shared: &Weak<RefCell<Switch>>, f: impl FnOnce(&mut Switch) -> R) -> Option<R> {
    shared.upgrade().map(|switch| f(&mut switch.borrow_mut()))
}
