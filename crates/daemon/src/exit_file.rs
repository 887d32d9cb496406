//! Files that must not outlive the program: the pidfile and the sockets.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A file that is removed when this is dropped, or when the program ends through
/// [`super::die_of`] or a panic.
#[derive(Debug)]
pub struct ExitFile {
    path: PathBuf,
}

/// All such files. A process that is killed leaves them behind; the next program removes them.
static FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

impl ExitFile {
    /// Registers the file `path`, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        files().push(path.clone());
        ExitFile { path }
    }

    /// Keeps the file when this is dropped.
    pub fn keep(self) {
        files().retain(|path| *path != self.path);
        std::mem::forget(self);
    }
}

impl Drop for ExitFile {
    fn drop(&mut self) {
        let mut files = files();
        if let Some(at) = files.iter().position(|path| *path == self.path) {
            files.swap_remove(at);
            // The file may be gone already, and an error cannot be reported here.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes every such file. It never waits for the list's lock, because a panicking thread may hold it.
pub(super) fn remove_all() {
    let mut files = match FILES.try_lock() {
        Ok(files) => files,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    for path in files.drain(..) {
        let _ = std::fs::remove_file(path);
    }
}

fn files() -> MutexGuard<'static, Vec<PathBuf>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_with_their_guard_unless_kept() {
        let folder = tempfile::tempdir().unwrap();
        let [gone, kept] = ["gone", "kept"].map(|name| folder.path().join(name));
        for path in [&gone, &kept] {
            std::fs::write(path, "").unwrap();
        }
        let guard = ExitFile::new(gone.clone());
        ExitFile::new(kept.clone()).keep();
        assert!(gone.exists());
        drop(guard);
        assert!(!gone.exists() && kept.exists());
    }
}
