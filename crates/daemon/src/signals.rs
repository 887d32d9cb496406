//! Signals that end the program.

use super::exit_file;
use std::fmt;
use std::io;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// The signals that request the program to end (ovs: lib/fatal-signal.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // signal(7) says it.
pub enum FatalSignal {
    Hangup,
    Interrupt,
    Alarm,
    Terminate,
}

impl FatalSignal {
    /// Returns the signal's number (signal(7)).
    pub fn number(self) -> i32 {
        match self {
            FatalSignal::Hangup => libc::SIGHUP,
            FatalSignal::Interrupt => libc::SIGINT,
            FatalSignal::Alarm => libc::SIGALRM,
            FatalSignal::Terminate => libc::SIGTERM,
        }
    }
}

impl fmt::Display for FatalSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name(self.number()).unwrap_or("unknown signal"))
    }
}

/// Waits for fatal signals, which then no longer kill the process.
#[derive(Debug)]
pub struct FatalSignals {
    hangup: Stream,
    interrupt: Stream,
    alarm: Stream,
    terminate: Stream,
}

impl FatalSignals {
    /// Installs the handlers. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// As sigaction(2).
    pub fn listen() -> io::Result<Self> {
        Ok(FatalSignals {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            alarm: signal(SignalKind::alarm())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal. Cancellation-safe.
    pub async fn next(&mut self) -> FatalSignal {
        tokio::select! {
            _ = self.hangup.recv() => FatalSignal::Hangup,
            _ = self.interrupt.recv() => FatalSignal::Interrupt,
            _ = self.alarm.recv() => FatalSignal::Alarm,
            _ = self.terminate.recv() => FatalSignal::Terminate,
        }
    }
}

/// Ends the program by the signal that it received, so that its parent sees the cause. Removes exit files
/// first.
pub fn die_of(signal: FatalSignal) -> ! {
    let number = signal.number();
    log::warn!(target: "fatal_signal", "terminating with signal {number} ({signal})");
    exit_file::remove_all();
    // SAFETY: both calls are always allowed; SIG_DFL is a valid disposition for these signals. No running
    // code depends on the old handler any more.
    unsafe {
        libc::signal(number, libc::SIG_DFL);
        libc::raise(number);
    }
    // Reached only if the signal is blocked.
    std::process::exit(128 + number)
}

/// From now on a panic of any thread is logged and ends the program by SIGABRT: a switch that lost a thread
/// would be half dead, while `--monitor` can restart it.
pub fn abort_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        match vlog::installed() {
            Some(vlog) => vlog.fatal("daemon_unix", &panic.to_string()),
            None => eprintln!("{panic}"),
        }
        exit_file::remove_all();
        std::process::abort();
    }));
}

/// Lets SIGSEGV and SIGBUS kill the process at once, even if another process sent them. The Rust runtime
/// handles them to report stack overflows, and swallows the first one sent.
pub(super) fn let_crashes_through() {
    // SAFETY: SIG_DFL is a valid disposition for both. The runtime's handler only prints the overflow before
    // the process dies, and nothing depends on that.
    unsafe {
        libc::signal(libc::SIGSEGV, libc::SIG_DFL);
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
    }
}

/// Returns the C library's name of a signal.
pub(super) fn name(number: i32) -> Option<&'static str> {
    Some(match number {
        libc::SIGHUP => "Hangup",
        libc::SIGINT => "Interrupt",
        libc::SIGQUIT => "Quit",
        libc::SIGILL => "Illegal instruction",
        libc::SIGTRAP => "Trace/breakpoint trap",
        libc::SIGABRT => "Aborted",
        libc::SIGBUS => "Bus error",
        libc::SIGFPE => "Floating point exception",
        libc::SIGKILL => "Killed",
        libc::SIGUSR1 => "User defined signal 1",
        libc::SIGSEGV => "Segmentation fault",
        libc::SIGUSR2 => "User defined signal 2",
        libc::SIGPIPE => "Broken pipe",
        libc::SIGALRM => "Alarm clock",
        libc::SIGTERM => "Terminated",
        libc::SIGXCPU => "CPU time limit exceeded",
        libc::SIGXFSZ => "File size limit exceeded",
        libc::SIGSYS => "Bad system call",
        _ => return None,
    })
}
