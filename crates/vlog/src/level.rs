//! Levels of importance, and the places that messages go to.

/// How important a message is, the least wordy first (ovs: include/openvswitch/vlog.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No message has this level: as a setting it silences.
    Off,
    /// The program cannot go on.
    Emer,
    /// An operation failed.
    Err,
    /// Something is odd.
    Warn,
    /// Worth a line in normal operation.
    Info,
    /// Only of interest when looking for a fault.
    Dbg,
}

impl Level {
    /// Every level.
    pub const ALL: [Level; 6] =
        [Level::Off, Level::Emer, Level::Err, Level::Warn, Level::Info, Level::Dbg];

    /// The name, as it stands in messages.
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

    /// The level of that name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Level::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name))
    }

    /// The severity of RFC 5424 section 6.2.1.
    pub fn syslog_severity(self) -> u8 {
        match self {
            Level::Off | Level::Emer => 1,
            Level::Err => 3,
            Level::Warn => 4,
            Level::Info => 5,
            Level::Dbg => 7,
        }
    }

    /// What the `log` crate has to let through for this level.
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
    /// Open vSwitch has nothing below DBG, so that `trace` messages count as DBG here; they
    /// never pass [`Level::filter`], because the libraries that send them send floods.
    fn from(level: log::Level) -> Self {
        match level {
            log::Level::Error => Level::Err,
            log::Level::Warn => Level::Warn,
            log::Level::Info => Level::Info,
            log::Level::Debug | log::Level::Trace => Level::Dbg,
        }
    }
}

/// Where messages go.
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

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Destination::Syslog => "SYSLOG",
            Destination::Console => "CONSOLE",
            Destination::File => "FILE",
        }
    }

    /// The destination of that name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Destination::ALL.into_iter().find(|place| place.name().eq_ignore_ascii_case(name))
    }
}

/// One value for each destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerDestination<T> {
    /// For the system's log.
    pub syslog: T,
    /// For standard error.
    pub console: T,
    /// For the log file.
    pub file: T,
}

impl<T> PerDestination<T> {
    /// The value for one destination.
    pub fn get(&self, destination: Destination) -> &T {
        match destination {
            Destination::Syslog => &self.syslog,
            Destination::Console => &self.console,
            Destination::File => &self.file,
        }
    }

    /// The same, with each value changed.
    pub fn map<U>(self, change: impl Fn(T) -> U) -> PerDestination<U> {
        PerDestination {
            syslog: change(self.syslog),
            console: change(self.console),
            file: change(self.file),
        }
    }

    /// Changes the value for one destination, or for all where it is None.
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
