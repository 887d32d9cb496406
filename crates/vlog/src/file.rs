//! The log file: opening, closing, and reopening after rotation.

use super::{Level, Vlog, lock};
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The log file of a program. A closed one keeps its name and can be reopened.
#[derive(Debug, Default)]
pub(super) struct LogFile {
    pub path: Option<PathBuf>,
    pub open: Option<File>,
}

impl Vlog {
    /// Returns the path of the log file, open or closed.
    pub fn file(&self) -> Option<PathBuf> {
        lock(&self.file).path.clone()
    }

    /// Logs to `path`, or to the default file, from now on.
    ///
    /// # Errors
    /// The file could not be opened. A warning was logged, and logging continues as before.
    pub fn open_file(&self, path: Option<&Path>) -> io::Result<()> {
        let path = path.unwrap_or(&self.default_file).to_path_buf();
        let opened = File::options().append(true).create(true).mode(0o660).open(&path);
        let file = opened.inspect_err(|error| {
            let reason = base::reason(error);
            let path = path.display();
            let text = format_args!("failed to open {path} for logging: {reason}");
            self.message("vlog", Level::Warn, text);
        })?;
        if same_file(lock(&self.file).open.as_ref(), &file) {
            return Ok(());
        }
        self.close_with_word();
        *lock(&self.file) = LogFile { path: Some(path.clone()), open: Some(file) };
        self.levels_changed();
        self.message("vlog", Level::Info, format_args!("opened log file {}", path.display()));
        Ok(())
    }

    /// Opens the log file again under its name, after log rotation.
    ///
    /// # Errors
    /// `None` if there is no log file; otherwise the reason why it could not be opened.
    pub fn reopen_file(&self) -> Result<(), Option<io::Error>> {
        let path = self.file().ok_or(None)?;
        self.open_file(Some(&path)).map_err(Some)
    }

    /// Closes the log file and keeps its name, for [`Vlog::reopen_file`].
    pub fn close_file(&self) {
        lock(&self.file).open = None;
        self.levels_changed();
    }

    /// Logs that the file is closed, closes it, and forgets its name.
    pub fn forget_file(&self) {
        self.close_with_word();
        *lock(&self.file) = LogFile::default();
        self.levels_changed();
    }

    /// Changes the owner of the log file, before the process becomes another user.
    ///
    /// # Errors
    /// As chown(2).
    pub fn give_file_to(&self, uid: u32, gid: u32) -> io::Result<()> {
        match &lock(&self.file).open {
            Some(file) => std::os::unix::fs::fchown(file, Some(uid), Some(gid)),
            None => Ok(()),
        }
    }

    fn close_with_word(&self) {
        if lock(&self.file).open.is_some() {
            self.message("vlog", Level::Info, format_args!("closing log file"));
            lock(&self.file).open = None;
        }
    }
}

fn same_file(old: Option<&File>, new: &File) -> bool {
    let identity = |file: &File| file.metadata().map(|data| (data.dev(), data.ino())).ok();
    old.is_some_and(|old| identity(old).is_some() && identity(old) == identity(new))
}
