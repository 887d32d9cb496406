//! Signals that end the program.

use super::exit_file;
use std::fmt;
use std::io;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// The signals that ask the program to end (ovs: lib/fatal-signal.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // signal(7) says it.
pub enum FatalSignal {
    Hangup,
    Interrupt,
    Alarm,
    Terminate,
}

impl FatalSignal {
    /// The number of signal(7).
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

/// Waits for such a signal, in place of dying at once.
#[derive(Debug)]
pub struct FatalSignals {
    hangup: Stream,
    interrupt: Stream,
    alarm: Stream,
    terminate: Stream,
}

impl FatalSignals {
    /// Begins to listen. To be called inside a tokio runtime.
    ///
    /// # Errors
    /// Those of sigaction(2).
    pub fn listen() -> io::Result<Self> {
        Ok(FatalSignals {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            alarm: signal(SignalKind::alarm())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next signal. It may be given up at any time.
    pub async fn next(&mut self) -> FatalSignal {
        tokio::select! {
            _ = self.hangup.recv() => FatalSignal::Hangup,
            _ = self.interrupt.recv() => FatalSignal::Interrupt,
            _ = self.alarm.recv() => FatalSignal::Alarm,
            _ = self.terminate.recv() => FatalSignal::Terminate,
        }
    }
}

/// Ends the program by the signal it got, so that its parent sees what it died of. Files that
/// must not outlive it are removed.
pub fn die_of(signal: FatalSignal) -> ! {
    let number = signal.number();
    log::warn!(target: "fatal_signal", "terminating with signal {number} ({signal})");
    exit_file::remove_all();
    // SAFETY: both calls are always allowed; SIG_DFL is a valid disposition for these signals.
    // Nothing of the program runs any more that would depend on the old handler.
    unsafe {
        libc::signal(number, libc::SIG_DFL);
        libc::raise(number);
    }
    // Only where the signal is blocked.
    std::process::exit(128 + number)
}

/// From now on a panic of any thread is logged, and ends the program by SIGABRT: a switch that
/// lost a thread would go on half dead, where `--monitor` could start it anew.
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

/// Lets SIGSEGV and SIGBUS kill at once, also where a process sends them. The Rust runtime takes
/// them to report a stack overflow, and swallows the first one that was sent.
pub(super) fn let_crashes_through() {
    // SAFETY: SIG_DFL is a valid disposition for both, and what the runtime's handler would do,
    // which is to name the overflow before the process dies, nothing depends on.
    unsafe {
        libc::signal(libc::SIGSEGV, libc::SIG_DFL);
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
    }
}

/// What the C library calls a signal.
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
