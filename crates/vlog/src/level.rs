//! Log levels and destinations.

/// The level of a message, the most severe first (ovs: include/openvswitch/vlog.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No message has this level; as a setting it disables logging.
    Off,
    /// The program cannot go on.
    Emer,
    /// An operation failed.
    Err,
    /// Something is odd.
    Warn,
    /// Useful in normal operation.
    Info,
    /// Useful only for debugging.
    Dbg,
}

impl Level {
    /// Every level.
    pub const ALL: [Level; 6] =
        [Level::Off, Level::Emer, Level::Err, Level::Warn, Level::Info, Level::Dbg];

    /// Returns the name as it appears in messages.
    pub fn name(self) -> &'static str {
        match self {
            Level::Off => "OFF",
            Level::Emer => "EMER",
            Level::Err => "ERR",
            Level::Warn => "WARN",
            Level::Info => "INFO",
            Level::Dbg => "DBG",
        }
    }

    /// Parses a name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Level::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name))
    }

    /// Returns the severity of RFC 5424 section 6.2.1.
    pub fn syslog_severity(self) -> u8 {
        match self {
            Level::Off | Level::Emer => 1,
            Level::Err => 3,
            Level::Warn => 4,
            Level::Info => 5,
            Level::Dbg => 7,
        }
    }

    /// Returns the filter of the `log` crate that passes this level.
    pub fn filter(self) -> log::LevelFilter {
        match self {
            Level::Off | Level::Emer => log::LevelFilter::Off,
            Level::Err => log::LevelFilter::Error,
            Level::Warn => log::LevelFilter::Warn,
            Level::Info => log::LevelFilter::Info,
            Level::Dbg => log::LevelFilter::Debug,
        }
    }
}

impl From<log::Level> for Level {
    /// Open vSwitch has no level below DBG, so `trace` messages count as DBG; they never pass
    /// [`Level::filter`], because the libraries that use it log far too much.
    fn from(level: log::Level) -> Self {
        match level {
            log::Level::Error => Level::Err,
            log::Level::Warn => Level::Warn,
            log::Level::Info => Level::Info,
            log::Level::Debug | log::Level::Trace => Level::Dbg,
        }
    }
}

/// A destination of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// The system's log.
    Syslog,
    /// Standard error.
    Console,
    /// The log file.
    File,
}

impl Destination {
    /// Every destination, in the order of `vlog/list-pattern`.
    pub const ALL: [Destination; 3] =
        [Destination::Syslog, Destination::Console, Destination::File];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Destination::Syslog => "SYSLOG",
            Destination::Console => "CONSOLE",
            Destination::File => "FILE",
        }
    }

    /// Parses a name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Destination::ALL.into_iter().find(|place| place.name().eq_ignore_ascii_case(name))
    }
}

/// One value per destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerDestination<T> {
    /// The value for the system's log.
    pub syslog: T,
    /// The value for standard error.
    pub console: T,
    /// The value for the log file.
    pub file: T,
}

impl<T> PerDestination<T> {
    /// Returns the value for one destination.
    pub fn get(&self, destination: Destination) -> &T {
        match destination {
            Destination::Syslog => &self.syslog,
            Destination::Console => &self.console,
            Destination::File => &self.file,
        }
    }

    /// Applies `change` to each value.
    pub fn map<U>(self, change: impl Fn(T) -> U) -> PerDestination<U> {
        PerDestination {
            syslog: change(self.syslog),
            console: change(self.console),
            file: change(self.file),
        }
    }

    /// Sets the value for one destination, or for all if `None`.
    pub fn set(&mut self, destination: Option<Destination>, value: T)
    where
        T: Clone,
    {
        for place in Destination::ALL {
            if destination.is_none_or(|chosen| chosen == place) {
                *match place {
                    Destination::Syslog => &mut self.syslog,
                    Destination::Console => &mut self.console,
                    Destination::File => &mut self.file,
                } = value.clone();
            }
        }
    }
}
