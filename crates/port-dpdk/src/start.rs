//! DPDK's start, once a process, and its log.

use crate::ffi;
use crate::{DpdkError, EalOptions};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::sync::{Mutex, PoisonError};

/// What became of the one attempt to start it.
static ATTEMPT: Mutex<Attempt> = Mutex::new(Attempt::None);
/// What is kept of the errors that DPDK logs during one order, in bytes.
const WORDS_MAX: usize = 300;

thread_local! {
    /// The errors that DPDK logged on this thread, so that those of a guest's thread are not taken
    /// for the answer to an order.
    static WORDS: RefCell<String> = const { RefCell::new(String::new()) };
}

#[derive(PartialEq, Eq)]
enum Attempt {
    None,
    Running,
    Failed { why: String },
}

/// Starts DPDK and gives its version; where it runs already, only that. Its own threads go to
/// `cpu` where the options say nothing else. What it logs goes to the log's target `dpdk`.
///
/// # Errors
/// It refuses: there are no huge pages, an option is wrong, or it did so before.
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
    if let Err(error) = crate::guard::install() {
        log::warn!(target: "dpdk", "guests that lie about their memory can end the switch: {error}");
    }
    result.map(|()| version().unwrap_or_default())
}

fn start_with(words: &[String]) -> io::Result<()> {
    let words: Result<Vec<CString>, _> = words.iter().map(|word| CString::new(&**word)).collect();
    let words = words.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // DPDK keeps pointers to its arguments for as long as it runs.
    let mut pointers: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
    let count = pointers.len() as c_int;
    pointers.push(std::ptr::null_mut());
    let pointers = Box::leak(pointers.into_boxed_slice());
    // SAFETY: there is no way to start DPDK but by its C function; it gets `count` writable
    // strings and a null, none of which is ever freed, and a function that is always there.
    check(unsafe { ffi::tidegate_dpdk_start(count, pointers.as_mut_ptr(), log_line) })
}

/// The version of DPDK that is built in, such as "DPDK 22.11.11".
pub fn version() -> Option<String> {
    // SAFETY: the string is a constant of the library.
    let text = unsafe { CStr::from_ptr(ffi::tidegate_dpdk_version()) };
    Some(text.to_string_lossy().into_owned())
}

/// Whether DPDK runs.
pub fn is_running() -> bool {
    *ATTEMPT.lock().unwrap_or_else(PoisonError::into_inner) == Attempt::Running
}

/// The errors that DPDK logged on this thread since this was asked last; empty where there were
/// none. The first ones tell the cause, the later ones what it led to.
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

/// The shim's answer as a result: errors are negative.
pub(crate) fn check(answer: c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(()) }
}

/// A line of DPDK's log, on whichever thread wrote it.
extern "C" fn log_line(level: c_int, text: *const c_char, bytes: usize) {
    // SAFETY: the C library's stream hands over `bytes` bytes that stay there during the call.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), bytes) };
    let text = String::from_utf8_lossy(text);
    let text = text.trim_end();
    // DPDK's levels (rte_log.h): 1 to 4 are emergency to error, 5 warnings, 8 is for debugging.
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
    crate::guest::hear(text, is_error);
    log::log!(target: "dpdk", level, "{text}");
}
