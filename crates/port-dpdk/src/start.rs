//! DPDK's start, once per process, and its log.

use crate::ffi;
use crate::{DpdkError, EalOptions};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::sync::{Mutex, PoisonError};

/// The result of the only attempt to start it.
static ATTEMPT: Mutex<Attempt> = Mutex::new(Attempt::None);
/// Maximum bytes kept of the errors that DPDK logs during one call.
const WORDS_MAX: usize = 300;

thread_local! {
    /// The errors that DPDK logged on this thread, so that those of another thread are not mistaken for the
    /// result of a call.
    static WORDS: RefCell<String> = const { RefCell::new(String::new()) };
}

#[derive(PartialEq, Eq)]
enum Attempt {
    None,
    Running,
    Failed { why: String },
}

/// Starts DPDK and returns its version; if it is running already, only returns it. By default its threads run
/// on `cpu`. Its messages are logged with the target `dpdk`.
///
/// # Errors
/// The start fails: there are no huge pages, an option is wrong, or it failed before.
pub fn start(options: &EalOptions, cpu: usize) -> Result<String, DpdkError> {
    let mut attempt = ATTEMPT.lock().unwrap_or_else(PoisonError::into_inner);
    match &*attempt {
        Attempt::Running => return Ok(version().unwrap_or_default()),
        Attempt::Failed { why } => return Err(DpdkError::FailedBefore { why: why.clone() }),
        Attempt::None => {}
    }
    let (words, warnings) = options.command_line(cpu);
    for warning in warnings {
        log::warn!(target: "dpdk", "{warning}");
    }
    log::info!(target: "dpdk", "EAL ARGS: {}", words.join(" "));
    take_words();
    let result =
        start_with(&words).map_err(|source| DpdkError::Start { source, words: take_words() });
    *attempt = match &result {
        Ok(()) => Attempt::Running,
        Err(error) => Attempt::Failed { why: error.to_string() },
    };
    result.map(|()| version().unwrap_or_default())
}

fn start_with(words: &[String]) -> io::Result<()> {
    let words: Result<Vec<CString>, _> = words.iter().map(|word| CString::new(&**word)).collect();
    let words = words.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // DPDK keeps pointers to its arguments while it runs.
    let mut pointers: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
    let count = pointers.len() as c_int;
    pointers.push(std::ptr::null_mut());
    let pointers = Box::leak(pointers.into_boxed_slice());
    // SAFETY: there is no way to start DPDK but by its C function; it gets `count` writable
    // strings and a null, none of which is ever freed, and a function that is always there.
    check(unsafe { ffi::tidegate_dpdk_start(count, pointers.as_mut_ptr(), log_line) })
}

/// The version of DPDK in this build, such as "DPDK 22.11.11".
pub fn version() -> Option<String> {
    // SAFETY: the string is a constant of the library.
    let text = unsafe { CStr::from_ptr(ffi::tidegate_dpdk_version()) };
    Some(text.to_string_lossy().into_owned())
}

/// Whether DPDK runs.
pub fn is_running() -> bool {
    *ATTEMPT.lock().unwrap_or_else(PoisonError::into_inner) == Attempt::Running
}

/// The errors that DPDK logged on this thread since the last call; may be empty. The first ones tell the
/// cause, later ones its consequences.
pub(crate) fn take_words() -> String {
    WORDS.with_borrow_mut(std::mem::take)
}

fn keep_words(text: &str) {
    WORDS.with_borrow_mut(|words| {
        if words.len() + text.len() <= WORDS_MAX && !words.contains(text) {
            words.push_str(if words.is_empty() { "" } else { "; " });
            words.push_str(text);
        }
    });
}

/// Converts the shim's result: errors are negative.
pub(crate) fn check(answer: c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(()) }
}

/// A line of DPDK's log, on the thread that logged it.
extern "C" fn log_line(level: c_int, text: *const c_char, bytes: usize) {
    // SAFETY: the C library's stream hands over `bytes` bytes that stay there during the call.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), bytes) };
    let text = String::from_utf8_lossy(text);
    let text = text.trim_end();
    // DPDK's levels (rte_log.h): 1 to 4 are emergency to error, 5 is warning, 8 is debug.
    let level = match level {
        ..=4 => log::Level::Error,
        5 => log::Level::Warn,
        6 | 7 => log::Level::Info,
        _ => log::Level::Debug,
    };
    if text.is_empty() {
        return;
    }
    let is_error = level == log::Level::Error;
    if is_error {
        keep_words(text);
    }
    log::log!(target: "dpdk", level, "{text}");
}

/// An error, with the messages that DPDK logged about it.
pub(crate) fn with_words(error: &io::Error) -> String {
    match take_words().as_str() {
        "" => error.to_string(),
        words => format!("{error} ({words})"),
    }
}
