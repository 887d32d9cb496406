//! The thread that talks to the front-end of a port. It sleeps unless a message arrives.
//!
//! Each port has a thread of its own, so that a front-end with much to do, or one that does nonsense, delays only
//! its own port: mapping gigabytes of memory takes milliseconds.

use crate::fault::Fault;
use crate::message::Request;
use crate::notifier::Notifier;
use crate::session::Session;
use crate::shared::Shared;
use crate::socket::{Connection, Ended, accept, problem_of};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The interval of attempts to connect.
const CONNECT_EVERY: Duration = Duration::from_millis(50);
/// The pause before connecting to a front-end that did something wrong.
const CONNECT_AFTER_FAULT: Duration = Duration::from_secs(1);
/// The pause between two connections, so that they cannot occupy the machine.
const BETWEEN: Duration = Duration::from_millis(20);
/// Messages that are answered before the other descriptors are looked at.
const MESSAGES_AT_ONCE: usize = 64;

/// Which side creates the socket.
#[derive(Debug)]
pub enum Side {
    /// The front-end; the port connects to it.
    Client,
    /// The port; front-ends connect to this socket.
    Server(OwnedFd),
}

/// A thread's state.
pub struct FrontEnd {
    /// The port's name.
    pub name: String,
    /// The path of the socket.
    pub path: PathBuf,
    /// Which side creates it.
    pub side: Side,
    /// The features to offer.
    pub offered: u64,
    /// The port's state.
    pub shared: Arc<Shared>,
    /// Notifies guests.
    pub notifier: Arc<Notifier>,
    /// Whether the thread must end.
    pub stops: Arc<AtomicBool>,
    /// Closed when the thread is done with everything that the front-end passed.
    pub alive: mpsc::Sender<Infallible>,
    /// Called when the status of the port changed, and again only after [`Shared::has_news`] was cleared.
    pub notify: Box<dyn Fn() + Send>,
}

impl FrontEnd {
    /// Serves one front-end after the other.
    pub fn run(self) {
        while !self.stops() {
            let connection = match &self.side {
                Side::Client => self.connect(),
                Side::Server(listener) => {
                    let connection = accept(listener);
                    if connection.is_none() {
                        self.wait(&[listener], None);
                    }
                    connection
                }
            };
            let Some(connection) = connection else { continue };
            self.set_connected(true);
            let fault = self.serve(connection);
            self.set_connected(false);
            if let Some(fault) = fault {
                self.tell_fault(fault);
                if matches!(self.side, Side::Client) {
                    self.wait(&[], Some(CONNECT_AFTER_FAULT));
                }
            }
            self.wait(&[], Some(BETWEEN));
        }
        // Before the notifier, which takes a while.
        drop(self.alive);
    }

    /// Reports a fault; in the log only if it differs from the last one.
    fn tell_fault(&self, fault: Fault) {
        let before = self.shared.status().fault.replace(fault.clone());
        let is_new = before.as_ref() != Some(&fault);
        let level = if is_new { log::Level::Warn } else { log::Level::Debug };
        log::log!(target: "netdev_dpdk", level, "{}: {fault}", self.name);
        self.tell();
    }

    /// Calls back, unless the last call was not answered yet: a guest may change its state at any rate.
    fn tell(&self) {
        if !self.shared.has_news.swap(true, Ordering::AcqRel) {
            (self.notify)();
        }
    }

    fn stops(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }

    fn set_connected(&self, is_connected: bool) {
        let mut status = self.shared.status();
        status.is_connected = is_connected;
        status.problem = None;
        drop(status);
        self.tell();
    }

    fn connect(&self) -> Option<Connection> {
        match Connection::connect(&self.path) {
            Ok(connection) => return Some(connection),
            Err(error) => {
                let problem = problem_of(&self.path, error);
                let mut status = self.shared.status();
                if status.problem != problem {
                    status.problem = problem;
                    drop(status);
                    self.tell();
                }
            }
        }
        self.wait(&[], Some(CONNECT_EVERY));
        None
    }

    /// Waits until a descriptor is readable, the thread is woken or the time is over.
    fn wait(&self, readable: &[&OwnedFd], timeout: Option<Duration>) {
        let mut waiting = vec![PollFd::new(self.shared.wake_fd(), PollFlags::IN)];
        waiting.extend(readable.iter().map(|file| PollFd::new(*file, PollFlags::IN)));
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        });
        // An interrupted wait is only shorter.
        let _ = poll(&mut waiting, timeout.as_ref());
        self.clear_wake();
    }

    fn clear_wake(&self) {
        let _ = rustix::io::read(self.shared.wake_fd(), &mut [0u8; 8]);
    }

    /// Serves one front-end until it ends. Returns what it did wrong.
    fn serve(&self, mut connection: Connection) -> Option<Fault> {
        let mut session =
            Session::new(Arc::clone(&self.shared), Arc::clone(&self.notifier), self.offered);
        self.shared.take_fault();
        let mut is_deferred = false;
        let ended = loop {
            match &self.side {
                Side::Client => self.wait(&[connection.socket()], None),
                Side::Server(listener) => self.wait(&[connection.socket(), listener], None),
            }
            if self.stops() {
                break Ended::Closed;
            }
            if self.notifier.is_deferred() {
                if !std::mem::replace(&mut is_deferred, true) {
                    log::warn!(
                        target: "netdev_dpdk",
                        "{}: notifications of its guest take long, and no worker sends them any more", self.name
                    );
                }
                session.ring_due();
            }
            if let Some(fault) = self.shared.take_fault() {
                break Ended::Faulty(fault);
            }
            if let Err(ended) = self.answer_waiting(&mut session, &mut connection) {
                break ended;
            }
            if let Side::Server(listener) = &self.side {
                self.refuse_more(listener);
            }
        };
        let was_up = self.shared.link_up.load(Ordering::Relaxed);
        drop(session);
        if was_up {
            log::info!(
                target: "netdev_dpdk",
                "vHost Device '{}' has been removed", self.path.display()
            );
        }
        match ended {
            Ended::Closed => None,
            Ended::Faulty(fault) => Some(fault),
        }
    }

    /// Answers the requests that wait.
    fn answer_waiting(
        &self,
        session: &mut Session,
        connection: &mut Connection,
    ) -> Result<(), Ended> {
        for _ in 0..MESSAGES_AT_ONCE {
            let Some(message) = connection.receive()? else { break };
            let (number, wants_reply) = (message.header.request, message.header.wants_reply);
            let request = Request::read(number, &message.payload).map_err(Ended::Faulty)?;
            let result = session.execute(request, message.files);
            // The workers' view comes before the reply: a front-end may use a ring after it.
            let link_changed = session.publish();
            match result {
                Ok(Some(reply)) => connection.reply(number, &reply)?,
                Ok(None) if wants_reply && session.may_want_replies() => {
                    connection.reply(number, &0u64.to_le_bytes())?;
                }
                Ok(None) => {}
                Err(fault) => {
                    if wants_reply && session.may_want_replies() {
                        // The connection ends in any case.
                        let _ = connection.reply(number, &1u64.to_le_bytes());
                    }
                    return Err(Ended::Faulty(fault));
                }
            }
            if link_changed {
                self.tell_link();
            }
        }
        Ok(())
    }

    fn tell_link(&self) {
        if self.shared.link_up.load(Ordering::Relaxed) {
            let features = self.shared.features.load(Ordering::Relaxed);
            log::info!(
                target: "netdev_dpdk",
                "vHost Device '{}' has been added, with the features {features:#018x}",
                self.path.display()
            );
        }
        self.tell();
    }

    /// Closes further connections at once: a port has one guest.
    fn refuse_more(&self, listener: &OwnedFd) {
        if accept(listener).is_some() {
            log::warn!(
                target: "netdev_dpdk",
                "{}: refused a second connection to {}", self.name, self.path.display()
            );
        }
    }
}
