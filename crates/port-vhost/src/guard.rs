//! Guest memory that becomes shorter than it was.
//!
//! A guest's side shares its memory as files, and may shorten a file after the switch has mapped it. The kernel
//! answers an access beyond a file's end with SIGBUS, which would end the switch and all its traffic. This
//! handler replaces the mapping by zeros and marks it as torn; its port then ends the connection. Signals for
//! other memory go to the handler that was there before.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of watched mappings of the process.
const MAPPINGS_MAX: usize = 8192;

/// Mappings that belong to guests. The handler reads them, so they are plain numbers; `length` is zero for a free
/// place.
static MAPPINGS: [Mapping; MAPPINGS_MAX] = [const { Mapping::free() }; MAPPINGS_MAX];
/// Held while a place is taken.
static TAKING: Mutex<()> = Mutex::new(());
/// The handler that was there before (`sa_sigaction`), and whether it takes three arguments.
static PREVIOUS_HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static PREVIOUS_FLAGS: AtomicI32 = AtomicI32::new(0);

struct Mapping {
    start: AtomicUsize,
    length: AtomicUsize,
    torn: AtomicBool,
}

impl Mapping {
    const fn free() -> Mapping {
        Mapping {
            start: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            torn: AtomicBool::new(false),
        }
    }

    fn contains(&self, address: usize) -> bool {
        let length = self.length.load(Ordering::Acquire);
        address.wrapping_sub(self.start.load(Ordering::Relaxed)) < length
    }
}

/// Watches one mapping while it lives.
#[derive(Debug)]
pub struct Watch {
    place: usize,
}

impl Watch {
    /// Watches `length` bytes at `start`, all of one mapping. It must be dropped before they are unmapped.
    ///
    /// # Errors
    /// The signal cannot be handled, or too many mappings are watched.
    pub fn new(start: usize, length: usize) -> io::Result<Watch> {
        let _taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
        install()?;
        let is_free = |place: &Mapping| place.length.load(Ordering::Relaxed) == 0;
        let Some(place) = MAPPINGS.iter().position(is_free) else {
            return Err(io::Error::other("too many regions of guests are mapped"));
        };
        MAPPINGS[place].start.store(start, Ordering::Relaxed);
        MAPPINGS[place].torn.store(false, Ordering::Relaxed);
        MAPPINGS[place].length.store(length, Ordering::Release);
        Ok(Watch { place })
    }

    /// Whether memory behind the mapping was missing.
    #[inline]
    pub fn is_torn(&self) -> bool {
        MAPPINGS[self.place].torn.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        MAPPINGS[self.place].length.store(0, Ordering::Release);
    }
}

/// Handles SIGBUS, if another handler does so now; that one is kept for other memory.
fn install() -> io::Result<()> {
    // SAFETY: needed because there is no safe way to handle a signal. Zeros are a valid `sigaction`, the calls
    // read and write locals, and `on_bus_error` does only what may be done in a handler (signal-safety(7)).
    unsafe {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), before.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let before = before.assume_init();
        let ours = on_bus_error as *const () as usize;
        if before.sa_sigaction == ours {
            return Ok(());
        }
        PREVIOUS_FLAGS.store(before.sa_flags, Ordering::Relaxed);
        PREVIOUS_HANDLER.store(before.sa_sigaction, Ordering::Release);
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = ours;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        if libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

extern "C" fn on_bus_error(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid `siginfo_t`, and that of SIGBUS has an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // Faulty hardware memory (`BUS_MCEERR_AR`) must not be hidden.
    if code == libc::BUS_ADRERR
        && let Some(mapping) = MAPPINGS.iter().find(|mapping| mapping.contains(address))
        && replace(mapping)
    {
        mapping.torn.store(true, Ordering::Relaxed);
        return;
    }
    pass_on(signal, info, context);
}

/// Replaces a mapping by zeros. The whole mapping, as a part of huge pages cannot be replaced.
fn replace(mapping: &Mapping) -> bool {
    let start = mapping.start.load(Ordering::Relaxed) as *mut libc::c_void;
    let length = mapping.length.load(Ordering::Relaxed);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the place is the thread's own; the interrupted code finds it as it was.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: these bytes are one mapping of guest memory that lives while it is watched. They are accessed only
    // as memory that another program may change at any time, so that any value may be there.
    let is_replaced = unsafe { libc::mmap(start, length, protection, flags, -1, 0) == start };
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    is_replaced
}

/// Calls the handler that was there before, or lets the signal end the process.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    type Simple = extern "C" fn(libc::c_int);
    type Informed = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    let handler = PREVIOUS_HANDLER.load(Ordering::Acquire);
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // The instruction is repeated, and ends the process as without this handler.
        // SAFETY: this only removes the handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    // SAFETY: needed to call it; sigaction(2) returned it as the handler of this signal, with the flag that tells
    // its arguments.
    unsafe {
        if PREVIOUS_FLAGS.load(Ordering::Relaxed) & libc::SA_SIGINFO != 0 {
            std::mem::transmute::<usize, Informed>(handler)(signal, info, context);
        } else {
            std::mem::transmute::<usize, Simple>(handler)(signal);
        }
    }
}
