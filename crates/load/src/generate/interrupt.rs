//! Interrupts (Ctrl-C): the first prints the results so far, the second ends the program at once.

use crate::error::LoadError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tokio::signal::unix::{SignalKind, signal};

/// The exit status of an interrupted run, as in shells: 128 plus the number of SIGINT.
pub const INTERRUPTED: u8 = 130;

/// Whether the user interrupted.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Handles signals from now on, in a thread of its own.
    pub fn listen() -> Result<Interrupt, LoadError> {
        let interrupt = Interrupt::default();
        let seen = Arc::clone(&interrupt.0);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| LoadError::Ended(format!("cannot wait for signals: {error}")))?;
        let (ready, is_ready) = std::sync::mpsc::channel();
        thread::spawn(move || {
            runtime.block_on(async move {
                let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
                let [Ok(mut interrupt), Ok(mut terminate)] = kinds.map(signal) else { return };
                let _ = ready.send(());
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                    if seen.swap(true, Ordering::Relaxed) {
                        // The second interrupt ends the program at once, without results.
                        std::process::exit(INTERRUPTED.into());
                    }
                }
            });
        });
        // From here on a signal no longer ends the program.
        let _ = is_ready.recv();
        Ok(interrupt)
    }

    /// Returns whether the user interrupted.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
