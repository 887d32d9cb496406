//! Messages to the system's log.

use super::level::Level;
use std::io;
use std::net::{ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The port of RFC 5426.
const SYSLOG_PORT: u16 = 514;

/// How messages are sent to the system's log (`--syslog-method`).
#[derive(Debug)]
pub enum Method {
    /// Not at all.
    Null,
    /// Like syslog(3) of the C library: to `/dev/log`, with date and program.
    Libc(UnixSender),
    /// To a Unix domain socket, without a prefix.
    Unix(UnixSender),
    /// To `host:port`, without a prefix.
    Udp(UdpSender),
}

impl Method {
    /// Parses the argument of `--syslog-method`: `null`, `libc`, `unix:FILE` or `udp:HOST:PORT`. Returns
    /// `None` for anything else. An unreachable socket is not an error: every message tries again, as
    /// syslog(3) does.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "null" => Some(Method::Null),
            None if text == "libc" => Some(Method::default()),
            Some(("unix", path)) => Some(Method::Unix(UnixSender::new(path))),
            Some(("udp", target)) => Some(Method::Udp(UdpSender::new(target, SYSLOG_PORT))),
            _ => None,
        }
    }

    /// Returns the prefix of each message, as a pattern (`vlog/list-pattern`).
    pub fn prefix(&self) -> &'static str {
        match self {
            Method::Null => "",
            Method::Libc(_) => "<%B> %D{%h %e %T} %E %A:",
            Method::Unix(_) | Method::Udp(_) => "<%B>",
        }
    }

    /// Sends one line. `local_date` is "Mmm dd hh:mm:ss".
    pub fn send(&self, facility: u8, level: Level, program: &str, local_date: &str, line: &str) {
        let priority = facility | level.syslog_severity();
        match self {
            Method::Null => {}
            Method::Libc(sender) => {
                sender.send(format!("<{priority}>{local_date} {program}: {line}").as_bytes());
            }
            Method::Unix(sender) => sender.send(format!("<{priority}>{line}").as_bytes()),
            Method::Udp(sender) => sender.send(format!("<{priority}>{line}").as_bytes()),
        }
    }
}

impl Default for Method {
    fn default() -> Self {
        Method::Libc(UnixSender::new("/dev/log"))
    }
}

/// Sends datagrams to a Unix domain socket.
#[derive(Debug)]
pub struct UnixSender {
    path: PathBuf,
    socket: Mutex<Option<UnixDatagram>>,
    fits: Fits,
}

impl UnixSender {
    /// A sender to the socket `path`, which need not exist yet.
    pub fn new<P: AsRef<Path>>(path: P) -> Self {
        let path = path.as_ref().to_path_buf();
        UnixSender { path, socket: Mutex::new(None), fits: Fits::default() }
    }

    /// Sends a datagram, and reconnects once if the receiver went away. Failures are ignored.
    pub fn send(&self, bytes: &[u8]) {
        let mut place = self.socket.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for _ in 0..2 {
            if place.is_none() {
                *place = self.connect().ok();
            }
            match place.as_ref().map(|socket| self.fits.send(bytes, |part| socket.send(part))) {
                Some(Err(error)) if error.kind() != io::ErrorKind::WouldBlock => *place = None,
                _ => return,
            }
        }
    }

    fn connect(&self) -> io::Result<UnixDatagram> {
        let socket = UnixDatagram::unbound()?;
        // A log daemon that does not read must not block the switch.
        socket.set_nonblocking(true)?;
        socket.connect(&self.path)?;
        Ok(socket)
    }
}

/// Sends datagrams over UDP.
#[derive(Debug)]
pub struct UdpSender {
    socket: Option<UdpSocket>,
    fits: Fits,
}

impl UdpSender {
    /// A sender to `HOST:PORT`, or to `HOST` at `default_port`. Messages to an unreachable host are lost.
    pub fn new(target: &str, default_port: u16) -> Self {
        UdpSender { socket: UdpSender::connect(target, default_port).ok(), fits: Fits::default() }
    }

    /// Sends a datagram. Failures are ignored.
    pub fn send(&self, bytes: &[u8]) {
        if let Some(socket) = &self.socket {
            let _ = self.fits.send(bytes, |part| socket.send(part));
        }
    }

    fn connect(target: &str, default_port: u16) -> io::Result<UdpSocket> {
        let bare = || format!("{target}:{default_port}");
        let mut addresses = target.to_socket_addrs().or_else(|_| bare().to_socket_addrs())?;
        let address = addresses.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.set_nonblocking(true)?;
        socket.connect(address)?;
        Ok(socket)
    }
}

/// Length of the longest datagram that was accepted; longer messages are cut. As in Open vSwitch, the length
/// is reduced by a twentieth until a datagram is accepted (ovs: lib/syslog-direct.c).
#[derive(Debug)]
struct Fits(AtomicUsize);

impl Default for Fits {
    fn default() -> Self {
        Fits(AtomicUsize::new(usize::MAX))
    }
}

impl Fits {
    fn send(&self, bytes: &[u8], send: impl Fn(&[u8]) -> io::Result<usize>) -> io::Result<usize> {
        let mut length = bytes.len().min(self.0.load(Ordering::Relaxed));
        loop {
            match send(bytes.get(..length).unwrap_or(bytes)) {
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) && length / 20 > 0 => {
                    length -= length / 20;
                    self.0.store(length, Ordering::Relaxed);
                }
                other => return other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 4096];
        socket.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_receiver_that_comes_back_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let method = Method::parse(&format!("unix:{}", path.display())).unwrap();
        method.send(3 << 3, Level::Info, "p", "", "no listener");
        for _ in 0..2 {
            let receiver = UnixDatagram::bind(&path).unwrap();
            method.send(3 << 3, Level::Info, "p", "", "hello");
            assert_eq!(received(&receiver), "<29>hello");
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn libc_lines_carry_date_and_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let method = Method::Libc(UnixSender::new(&path));
        method.send(3 << 3, Level::Err, "ovs-vswitchd", "Nov  1 01:02:03", "ovs|1|x");
        assert_eq!(received(&receiver), "<27>Nov  1 01:02:03 ovs-vswitchd: ovs|1|x");
    }

    #[test]
    fn udp_lines_are_bare_and_long_ones_are_cut() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = format!("udp:{}", receiver.local_addr().unwrap());
        let method = Method::parse(&target).unwrap();
        method.send(16 << 3, Level::Dbg, "p", "", &"x".repeat(100_000));
        let mut buffer = vec![0; 200_000];
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let length = receiver.recv(&mut buffer).unwrap();
        assert!((50_000..65_536).contains(&length), "{length}");
        assert!(buffer.starts_with(b"<135>xxx"));
    }

    #[test]
    fn methods_are_known_by_name() {
        assert!(matches!(Method::parse("null"), Some(Method::Null)));
        assert!(matches!(Method::parse("libc"), Some(Method::Libc(_))));
        for wrong in ["", "tcp:1.2.3.4:5", "libc:", "unix"] {
            assert!(Method::parse(wrong).is_none(), "{wrong}");
        }
    }
}
