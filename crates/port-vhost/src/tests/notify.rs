//! Notifications, and front-ends that try to make the switch wait.

use super::guest::{BASE, BUFFERS, Guest};
use crate::counters::{Burst, RingCounters};
use crate::doorbell::Doorbell;
use crate::notifier::Notifier;
use crate::pace::{Clocks, Pace};
use crate::port::{VhostConfig, VhostPort, VhostRole};
use ::port::vnet::Backlog;
use base::Instant;
use packet::{Batch, Pool};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::cell::Cell;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;

/// Longer than anything that does not wait, on a busy machine.
const LONG: Duration = Duration::from_secs(20);
/// Requests.
const GET_FEATURES: u32 = 1;
const SET_VRING_KICK: u32 = 12;

/// Clocks that stand still, unless a test sets them for its thread.
const CLOCKS: Clocks = Clocks { now: || NOW.get(), thread_time: || TIME.get() };
thread_local! {
    static NOW: Cell<Instant> = const { Cell::new(Instant::ZERO) };
    static TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// One for all tests, since the kernel takes a while to end it.
pub fn notifier() -> Arc<Notifier> {
    static NOTIFIER: LazyLock<Arc<Notifier>> =
        LazyLock::new(|| Arc::new(Notifier::new(event(), CLOCKS).unwrap()));
    Arc::clone(&NOTIFIER)
}

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).unwrap()
}

/// Reads an eventfd's counter, which must not be zero.
fn count(event: &OwnedFd) -> u64 {
    let mut bytes = [0; 8];
    rustix::io::read(event, &mut bytes).unwrap();
    u64::from_ne_bytes(bytes)
}

/// Runs something on another thread, which must end.
fn ends<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(run()));
    result.recv_timeout(LONG).ok()
}

#[test]
fn each_notification_is_counted() {
    for (threads, each) in [(1, 1), (1, 1000), (4, 5000)] {
        let event = event();
        let bell = Arc::new(Doorbell::new(event.try_clone().unwrap(), notifier()).unwrap());
        let all: Vec<_> = (0..threads)
            .map(|_| {
                let bell = Arc::clone(&bell);
                std::thread::spawn(move || (0..each).for_each(|_| bell.ring()))
            })
            .collect();
        all.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(count(&event), threads * each);
    }
}

#[test]
fn a_full_counter_that_blocks_does_not_hold_up_a_notification() {
    for (flags, room) in
        [(OFlags::empty(), 0), (OFlags::empty(), 1), (OFlags::NONBLOCK, 0), (OFlags::NONBLOCK, 1)]
    {
        let event = event();
        let bell = Doorbell::new(event.try_clone().unwrap(), notifier()).unwrap();
        // The other side clears the flag after the switch has the descriptor, and fills the counter.
        fcntl_setfl(&event, flags).unwrap();
        rustix::io::write(&event, &(u64::MAX - 1 - room).to_ne_bytes()).unwrap();
        let rings = ends(move || (0..500).for_each(|_| bell.ring()));
        assert!(rings.is_some(), "it waits: {flags:?}, room for {room}");
        assert_eq!(count(&event), u64::MAX, "{flags:?}, room for {room}");
    }
}

/// A notification writes to eventfds only, and those are told from all other kinds of files.
#[test]
fn only_eventfds_are_doorbells() {
    use rustix::event::epoll;
    use rustix::fs::{MemfdFlags, Mode, memfd_create, open};
    use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
    let path = |path: &str| open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let (reading, writing) = rustix::pipe::pipe().unwrap();
    let (socket, _other) = UnixStream::pair().unwrap();
    let named = tempfile::tempdir().unwrap();
    let named = std::fs::File::create(named.path().join("anon_inode:[eventfd]")).unwrap();
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).unwrap();
    for (what, file) in [
        ("a pipe to read", reading),
        ("a pipe to write", writing),
        ("a socket", socket.into()),
        ("a file", named.into()),
        ("memory", memfd_create("anon_inode:[eventfd]", MemfdFlags::CLOEXEC).unwrap()),
        ("a device", path("/dev/null")),
        ("a terminal", path("/dev/ptmx")),
        ("a timer", timer),
        ("an epoll", epoll::create(epoll::CreateFlags::CLOEXEC).unwrap()),
    ] {
        assert!(Doorbell::new(file, notifier()).is_err(), "{what}");
    }
    assert!(Doorbell::new(event(), notifier()).is_ok());
}

/// The bytes of a message.
fn message(request: u32, payload: &[u8]) -> Vec<u8> {
    let header = [request, 1, payload.len() as u32].into_iter().flat_map(u32::to_le_bytes);
    header.chain(payload.iter().copied()).collect()
}

/// A TCP socket with data that the other side does not take. Closing its last descriptor waits for a minute.
fn slow_to_close() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::from_secs(60))).unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 65536]).is_ok() {}
    (socket.into(), other)
}

#[test]
fn a_descriptor_that_is_slow_to_close_holds_up_only_its_port() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("guest");
    let config = VhostConfig {
        socket: socket.clone(),
        role: VhostRole::Server,
        rx_queues: 1,
        mtu: None,
        tx_retries: 0,
    };
    let open = {
        let config = config.clone();
        move || VhostPort::open("guest", config.clone(), CLOCKS, Box::new(|| ())).unwrap()
    };
    let (port, queues) = open();
    let mut front_end = UnixStream::connect(&socket).unwrap();
    front_end.write_all(&message(GET_FEATURES, &[])).unwrap();
    front_end.read_exact(&mut [0; 20]).unwrap();
    // A kick, which the switch does not need, with such a file. The switch closes it when it has the whole message,
    // and nothing else has it then.
    let (file, _other) = slow_to_close();
    let message = message(SET_VRING_KICK, &[0; 8]);
    let (header, payload) = message.split_at(12);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(&front_end, &[IoSlice::new(header)], &mut ancillary, SendFlags::empty()).unwrap();
    drop(file);
    front_end.write_all(payload).unwrap();
    assert!(ends(move || drop((port, queues))).is_some(), "the port is not removed");
    // Another one may have its place.
    let (_port, _queues) = open();
    let answered = ends(move || {
        let mut again = UnixStream::connect(&socket).unwrap();
        again.write_all(&self::message(GET_FEATURES, &[])).unwrap();
        again.read_exact(&mut [0; 20]).unwrap();
    });
    assert!(answered.is_some(), "the socket is dead");
}

#[test]
fn notifications_are_counted_as_the_guest_wants_them() {
    for (has_bell, is_wanted, frame_bytes, expect) in [
        (true, true, 60, [1, 0]),
        (true, false, 60, [0, 1]),
        (false, true, 60, [0, 0]),
        // An invalid frame comes back, too.
        (true, true, 5, [1, 0]),
    ] {
        let mut guest = Guest::new(0, 8);
        let mut ring = guest.ring();
        let event = event();
        let bell = Doorbell::new(event.try_clone().unwrap(), notifier()).unwrap();
        ring.set_call(has_bell.then(|| Arc::new(bell)));
        guest.want_notifications(is_wanted);
        guest.post(&[(BASE + BUFFERS, 10 + frame_bytes, false)], false);
        let (counters, mut burst) = (RingCounters::default(), Burst::default());
        let (mut pool, mut batch) = (Pool::new(1), Batch::new());
        ring.receive(&mut pool, &mut batch, &mut Backlog::default(), &mut burst).unwrap();
        counters.add(&burst);
        let counts = counters.read();
        assert_eq!([counts.notifications, counts.suppressed], expect, "{has_bell} {is_wanted}");
        fcntl_setfl(&event, OFlags::NONBLOCK).unwrap();
        assert_eq!(rustix::io::read(&event, &mut [0; 8]).is_ok(), expect == [1, 0]);
    }
}

/// Signals that take these microseconds, interruptions and processor time, after pauses of milliseconds.
#[test]
fn slow_signals_are_left_to_another_thread() {
    let normal = (0, 2, 2);
    let interrupted = (0, 4000, 2);
    let (slow, after_a_while) = ((0, 4000, 4000), (1000, 4000, 4000));
    for (what, signals, expect) in [
        ("quick ones", vec![normal; 10_000], None),
        ("a worker that is interrupted", vec![interrupted; 10_000], None),
        ("a slow one now and then", vec![after_a_while; 1000], None),
        // The first only raises suspicion.
        ("a second each", vec![(0, 1_000_000, 1_000_000); 5], Some(2)),
        ("slow ones one after the other", vec![slow; 10], Some(4)),
        ("a bit too slow", vec![(0, 60, 60); 10_000], Some(177)),
        ("more than a twentieth of the time", vec![(50, 4000, 4000); 100], Some(7)),
        ("less than that", vec![(100, 4000, 4000); 100], None),
    ] {
        let pace = Pace::new(CLOCKS);
        let mut done = 0;
        for (pause, time, own) in &signals {
            NOW.set(NOW.get() + Duration::from_millis(*pause));
            let ran = pace.run(|| {
                NOW.set(NOW.get() + Duration::from_micros(*time));
                TIME.set(TIME.get() + Duration::from_micros(*own));
            });
            if !ran {
                break;
            }
            done += 1;
        }
        assert_eq!((done < signals.len()).then_some(done), expect, "{what}");
        assert_eq!(pace.is_deferred(), expect.is_some(), "{what}");
    }
}

#[test]
fn the_thread_of_the_port_notifies_where_workers_must_not() {
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    // Each reading is a second later.
    let now = || NOW.replace(NOW.get() + Duration::from_secs(1));
    let thread_time = || TIME.replace(TIME.get() + Duration::from_secs(1));
    let clocks = Clocks { now, thread_time };
    let notifier = Arc::new(Notifier::new(wake.try_clone().unwrap(), clocks).unwrap());
    let event = event();
    let bell = Doorbell::new(event.try_clone().unwrap(), Arc::clone(&notifier)).unwrap();
    for _ in 0..2 {
        assert!(!notifier.is_deferred());
        bell.ring();
    }
    assert!(notifier.is_deferred());
    assert_eq!(count(&event), 2);
    (0..5).for_each(|_| bell.ring());
    assert_eq!(count(&wake), 5);
    // However often it was left to the thread, once is enough.
    (0..2).for_each(|_| bell.ring_if_due());
    assert_eq!(count(&event), 1);
}
