//! Protocol errors of guests behind vhost-user, for the port's `Interface.error`.
//!
//! DPDK serves guests on its own thread and disconnects those that violate the protocol; it reports both only
//! in its log, whose lines contain the guest's socket (since DPDK 22.07). Guest memory that is shorter than
//! announced is detected by any thread that accesses it (`guard.rs`), so each thread records which guest it
//! serves.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The prefix of log lines of DPDK's vhost library about a guest; the socket and a bracket follow.
const SPEAKS_OF: &str = "VHOST_CONFIG: (";
/// The message when a guest connects.
const CONNECTED: &str = "new vhost user connection";
/// The message when a guest's rings are in use.
const READY: &str = "virtio is now ready";
/// An upper limit for DPDK's ports (RTE_MAX_ETHPORTS, 32 in Debian's).
const PORTS: usize = 256;
const NO_PORT: u16 = u16::MAX;

/// Missing pages of guests, by port.
static GIVEN: [AtomicU32; PORTS] = [const { AtomicU32::new(0) }; PORTS];
static GUESTS: Mutex<Vec<Guest>> = Mutex::new(Vec::new());

thread_local! {
    /// The port that this thread serves or served last. A signal handler reads it, so it is a plain number
    /// without initialisation.
    static SERVED: Cell<u16> = const { Cell::new(NO_PORT) };
}

/// The state of a port's guest. A fault is kept after its guest, until another guest has none.
#[derive(Debug)]
struct Guest {
    port: u16,
    socket: String,
    /// The first error since the guest connected, or of the previous guest.
    words: Option<String>,
    /// Whether the error is this guest's.
    is_at_fault: bool,
    /// Missing pages when the guest connected.
    given_when_connected: u32,
    /// Missing pages of guests whose fault was cleared.
    given_before: u32,
}

/// A guest may connect to this port from now on, if it has a socket.
pub fn expect(port: u16, socket: Option<&str>) {
    let Some(socket) = socket else { return };
    let given = given(port);
    let guest = Guest {
        port,
        socket: socket.to_owned(),
        words: None,
        is_at_fault: false,
        given_when_connected: given,
        given_before: given,
    };
    with_guests(|guests| guests.push(guest));
}

/// The port is closed.
pub fn forget(port: u16) {
    with_guests(|guests| guests.retain(|guest| guest.port != port));
}

/// The fault of the last guest of a port.
pub fn fault(port: u16) -> Option<String> {
    with_guests(|guests| guests.iter().find(|guest| guest.port == port).and_then(Guest::fault))
}

/// This thread receives from a port or sends to it.
#[inline]
pub fn serve(port: u16) {
    SERVED.set(port);
}

/// Counts a missing page for the port that this thread serves. Called by a signal handler.
pub fn blame() {
    let port = SERVED.try_with(Cell::get).unwrap_or(NO_PORT);
    if let Some(given) = GIVEN.get(usize::from(port)) {
        given.fetch_add(1, Relaxed);
    }
}

/// DPDK logged a line on this thread.
pub fn hear(line: &str, is_error: bool) {
    let Some((socket, words)) = line.strip_prefix(SPEAKS_OF).and_then(|line| line.split_once(')'))
    else {
        return;
    };
    with_guests(|guests| {
        if let Some(guest) = guests.iter_mut().find(|guest| guest.socket == socket) {
            SERVED.set(guest.port);
            guest.hear(words.trim(), is_error);
        }
    });
}

fn given(port: u16) -> u32 {
    GIVEN.get(usize::from(port)).map_or(0, |given| given.load(Relaxed))
}

fn with_guests<T>(act: impl FnOnce(&mut Vec<Guest>) -> T) -> T {
    act(&mut GUESTS.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Guest {
    fn hear(&mut self, words: &str, is_error: bool) {
        if words.starts_with(CONNECTED) {
            self.is_at_fault = false;
            self.given_when_connected = given(self.port);
        } else if is_error && !self.is_at_fault {
            self.is_at_fault = true;
            self.words = Some(words.to_owned());
        } else if words.starts_with(READY) && !self.is_at_fault {
            self.words = None;
            self.given_before = self.given_when_connected;
        }
    }

    fn fault(&self) -> Option<String> {
        let pages = given(self.port).wrapping_sub(self.given_before);
        if pages > 0 {
            return Some(format!(
                "its guest's memory is shorter than it says; {pages} pages that it has not were \
                 replaced with zeros, and its packets may be lost: look at the guest"
            ));
        }
        let words = self.words.as_ref()?;
        Some(format!("its guest broke the protocol of vhost-user: {words}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_told_until_a_better_guest_is_there() {
        const PORT: u16 = 200;
        let says = |words: &str, is_error| hear(&format!("{SPEAKS_OF}/run/a) {words}"), is_error);
        let told = || fault(PORT).unwrap_or_default();
        expect(PORT, None);
        says("too many regions", true);
        assert_eq!(told(), "", "a port without a socket has no guest");

        expect(PORT, Some("/run/a"));
        hear("VHOST_CONFIG: (/run/b) too many regions", true);
        hear("EAL: no memory", true);
        says("new vhost user connection is 7", false);
        says("reply is not needed", false);
        assert_eq!(told(), "", "others' faults, and what is none");
        says("too many regions", true);
        says("hung up", true);
        assert_eq!(told(), "its guest broke the protocol of vhost-user: too many regions");
        says("virtio is now ready for processing.", false);
        assert!(!told().is_empty(), "the same guest goes on");
        says("new vhost user connection is 8", false);
        assert!(!told().is_empty(), "the next one has shown nothing yet");
        says("virtio is now ready for processing.", false);
        assert_eq!(told(), "", "a better one");

        // The thread that logged about the guest last is the one that detects the fault.
        says("new vhost user connection is 9", false);
        blame();
        blame();
        says("virtio is now ready for processing.", false);
        assert!(
            told().starts_with("its guest's memory is shorter than it says; 2 pages"),
            "{}",
            told()
        );
        std::thread::spawn(blame).join().unwrap();
        assert!(told().contains(" 2 pages"), "a thread that serves no port blames none");
        says("new vhost user connection is 10", false);
        says("virtio is now ready for processing.", false);
        assert_eq!(told(), "");
        forget(PORT);
        says("too many regions", true);
        assert_eq!(told(), "");
    }
}
