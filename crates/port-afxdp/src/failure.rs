//! Explanations of the kernel's errors, with advice.

use crate::options::XdpMode;
use port::PortError;
use std::io;
use std::time::Duration;

/// The step that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Opening a socket, sharing memory or mapping a ring.
    Socket,
    /// Creating the map or loading the program.
    Load,
    /// Attaching the program to the device.
    Attach(XdpMode),
    /// Binding a socket to a queue of the device.
    Bind { queue: u16, mode: XdpMode },
}

/// The kernel releases a device and its queues some time after they were closed, on a busy machine some
/// hundred milliseconds later.
const ATTEMPTS: u32 = 200;
const AGAIN: Duration = Duration::from_millis(5);

/// Repeats an operation while its object is busy, for about a second, if `waits`.
pub(crate) fn patiently<T>(
    waits: bool,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(error) if waits && error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(AGAIN);
            }
            result => return result,
        }
    }
    attempt()
}

/// Returns the error of a step that failed on `device`.
pub(crate) fn describe(device: &str, step: Step, source: io::Error) -> PortError {
    let gone = matches!(source.raw_os_error(), Some(libc::ENODEV | libc::ENXIO));
    if gone && !matches!(step, Step::Bind { .. }) {
        return PortError::Gone { device: device.to_owned() };
    }
    match reason(step, source.raw_os_error().unwrap_or(0)) {
        Some(reason) => PortError::Invalid { device: device.to_owned(), reason },
        None => PortError::System { device: device.to_owned(), what: what(step), source },
    }
}

fn what(step: Step) -> &'static str {
    match step {
        Step::Socket => "set up an AF_XDP socket",
        Step::Load => "load the XDP program",
        Step::Attach(_) => "attach the XDP program",
        Step::Bind { .. } => "bind an AF_XDP socket",
    }
}

fn reason(step: Step, errno: i32) -> Option<String> {
    let text = match (step, errno) {
        (_, libc::EPERM | libc::EACCES) => {
            "AF_XDP needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF; run as root or grant them"
                .to_owned()
        }
        (Step::Socket, libc::EAFNOSUPPORT) => {
            "the kernel has no AF_XDP; use one with CONFIG_XDP_SOCKETS".to_owned()
        }
        (Step::Socket, libc::ENOBUFS | libc::ENOMEM) => {
            "not enough memory may be locked for its frames; raise the limit (ulimit -l), or \
             lower options:n_rxq"
                .to_owned()
        }
        (Step::Load, libc::ENOSYS | libc::EINVAL) => {
            "the kernel cannot run the XDP program; use Linux 5.9 or newer".to_owned()
        }
        (Step::Attach(_), libc::EBUSY | libc::EEXIST) => {
            "another XDP program is attached already; remove it (ip link set dev DEVICE xdp off)"
                .to_owned()
        }
        (Step::Attach(mode), libc::EOPNOTSUPP) => format!(
            "its driver does not run XDP programs, which xdp-mode {} needs; use generic",
            mode.name()
        ),
        (Step::Attach(_), libc::ERANGE) => {
            "its MTU, or its peer's, is too large for XDP; lower it".to_owned()
        }
        (Step::Attach(mode), libc::EINVAL | libc::ENOSPC | libc::ENOMEM) => format!(
            "its driver refuses an XDP program as it is set up now (MTU, queues, offloads), in \
             xdp-mode {}; change those, or use generic",
            mode.name()
        ),
        (Step::Bind { queue, .. }, libc::EBUSY) => format!(
            "another AF_XDP socket has its queue {queue} already; stop that program, or lower \
             options:n_rxq"
        ),
        (Step::Bind { queue, .. }, libc::EINVAL) => {
            format!("it has no queue {queue}; lower options:n_rxq, or add queues (ethtool -L)")
        }
        (Step::Bind { mode: XdpMode::NativeWithZerocopy, .. }, libc::EOPNOTSUPP) => {
            "its driver has no zero-copy AF_XDP; use xdp-mode native or best-effort".to_owned()
        }
        (Step::Bind { .. }, libc::ENETDOWN) => {
            "it is down, and its driver wants it up for that; bring it up".to_owned()
        }
        _ => return None,
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_to_do() {
        let check = |step, errno, expect: &str| {
            let error = describe("eth7", step, io::Error::from_raw_os_error(errno));
            assert!(error.to_string().contains(expect), "{error}");
        };
        let zerocopy = XdpMode::NativeWithZerocopy;
        check(Step::Load, libc::EPERM, "eth7: AF_XDP needs CAP_NET_RAW");
        check(Step::Socket, libc::ENOBUFS, "raise the limit");
        check(Step::Attach(XdpMode::Native), libc::ERANGE, "eth7: its MTU");
        check(Step::Attach(XdpMode::Native), libc::EBUSY, "another XDP program");
        check(Step::Attach(XdpMode::Native), libc::EOPNOTSUPP, "use generic");
        check(Step::Attach(XdpMode::Native), libc::ENODEV, "eth7: no such device");
        check(Step::Bind { queue: 3, mode: zerocopy }, libc::EBUSY, "has its queue 3");
        check(Step::Bind { queue: 3, mode: zerocopy }, libc::EINVAL, "no queue 3");
        check(Step::Bind { queue: 0, mode: zerocopy }, libc::EOPNOTSUPP, "no zero-copy");
        check(Step::Bind { queue: 0, mode: zerocopy }, libc::EIO, "could not bind an AF_XDP");
    }
}
