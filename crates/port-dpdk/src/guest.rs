//! What guests behind vhost-user did wrong, for their port's `Interface.error`.
//!
//! DPDK serves guests on a thread of its own and hangs up on those that break the protocol; all that it
//! says of either is its log, whose lines name the guest's socket (since DPDK 22.07). Memory that is
//! shorter than a guest says is found out by whichever thread looks at it (`guard.rs`), so each
//! remembers whom it serves.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// How DPDK's vhost library begins what it says of a guest: the socket follows, and a bracket.
const SPEAKS_OF: &str = "VHOST_CONFIG: (";
/// What it says when a guest is there, before it has said anything.
const CONNECTED: &str = "new vhost user connection";
/// What it says when a guest's rings are in use.
const READY: &str = "virtio is now ready";
/// More ports than DPDK has (RTE_MAX_ETHPORTS, 32 in Debian's); beyond, none is blamed.
const PORTS: usize = 256;
const NO_PORT: u16 = u16::MAX;

/// Pages that guests said to have and had not, by their port.
static GIVEN: [AtomicU32; PORTS] = [const { AtomicU32::new(0) }; PORTS];
static GUESTS: Mutex<Vec<Guest>> = Mutex::new(Vec::new());

thread_local! {
    /// The port that this thread serves or served last. A signal's handler reads it, so it is a
    /// plain number that needs no set-up.
    static SERVED: Cell<u16> = const { Cell::new(NO_PORT) };
}

/// What is known of the guest of a port. A fault outlives its guest, until another does better.
#[derive(Debug)]
struct Guest {
    port: u16,
    socket: String,
    /// The first error since the guest connected, or the last guest's.
    words: Option<String>,
    /// Whether that was this guest's.
    is_at_fault: bool,
    /// Pages given when the guest connected.
    given_when_connected: u32,
    /// Pages given to guests whose fault is forgotten.
    given_before: u32,
}

/// From now on there may be a guest at a port, if it has a socket.
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

/// What the last guest of a port did wrong.
pub fn fault(port: u16) -> Option<String> {
    with_guests(|guests| guests.iter().find(|guest| guest.port == port).and_then(Guest::fault))
}

/// This thread receives from a port or sends to it.
#[inline]
pub fn serve(port: u16) {
    SERVED.set(port);
}

/// A page was given to whom this thread serves. Called by a signal's handler.
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

        // The thread that heard of the guest last is the one that finds out.
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
