//! The log, with Open vSwitch's format and rules (ovs: lib/vlog.c).
//!
//! Code logs through the `log` crate, with the module as the target: `log::info!(target: "bridge", "bridge
//! {name}: added")`. [`Vlog`] receives the messages. Each module has a level per destination, and each
//! destination has a pattern.
#![forbid(unsafe_code)]

mod calendar;
mod file;
mod level;
mod listing;
mod module;
mod options;
mod pattern;
mod places;
mod rate_limit;
mod spec;
mod syslog;

pub use calendar::Date;
pub use level::{Destination, Level};
pub use options::{LogError, LogOption};
pub use rate_limit::RateLimit;
pub use spec::SpecError;

use file::LogFile;
use level::PerDestination;
use module::Module;
use pattern::Message;
use spec::Spec;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The log of a program.
#[derive(Debug)]
pub struct Vlog {
    program: String,
    host: String,
    default_file: PathBuf,
    /// Returns the offset of local time to UTC at a Unix time, both in seconds.
    utc_offset_s: fn(i64) -> i32,
    started: Instant,
    settings: RwLock<Settings>,
    file: Mutex<LogFile>,
    places: places::Places,
    syslog: RwLock<Option<syslog::Method>>,
    target: RwLock<Option<syslog::UdpSender>>,
}

/// The settings that `vlog/set` changes.
#[derive(Debug)]
struct Settings {
    modules: BTreeMap<String, Module>,
    /// Settings of modules that have not logged yet.
    others: Module,
    patterns: PerDestination<String>,
    /// Set by FACILITY, already shifted.
    facility: Option<u8>,
}

static INSTALLED: OnceLock<Vlog> = OnceLock::new();

thread_local! {
    static MESSAGES: Cell<u32> = const { Cell::new(0) };
    static SUBPROGRAM: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The default facilities: one for syslog(3), one for all other destinations.
const LOG_DAEMON: u8 = 3 << 3;
const LOG_LOCAL0: u8 = 16 << 3;

/// Installs this log for the process and returns it. A second call does nothing.
///
/// `default_file` is used for `--log-file` without an argument; `utc_offset_s` returns the offset of local
/// time to UTC, for patterns with local time.
pub fn install(
    program: &str,
    default_file: PathBuf,
    utc_offset_s: fn(i64) -> i32,
) -> &'static Vlog {
    let vlog = INSTALLED.get_or_init(|| {
        let vlog = Vlog::new(program, default_file, utc_offset_s);
        if let Ok(method) = std::env::var("OVS_SYSLOG_METHOD") {
            vlog.set_syslog(syslog::Method::parse(&method));
        }
        vlog
    });
    // It fails only if a logger is installed already.
    let _ = log::set_logger(vlog);
    log::set_max_level(vlog.widest_level().filter());
    vlog
}

/// Returns the log of the process, if [`install`] was called.
pub fn installed() -> Option<&'static Vlog> {
    INSTALLED.get()
}

/// Sets this thread's name in messages; `None` restores the name with which it was started.
pub fn set_subprogram(name: Option<&str>) {
    SUBPROGRAM.set(name.map(String::from));
}

impl Vlog {
    /// A log with Open vSwitch's initial settings: INFO everywhere, no log file.
    pub fn new(program: &str, default_file: PathBuf, utc_offset_s: fn(i64) -> i32) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let known = module::KNOWN.iter().map(|name| ((*name).to_owned(), Module::default()));
        Vlog {
            program: program.to_owned(),
            host: host.trim_end().to_owned(),
            default_file,
            utc_offset_s,
            started: Instant::now(),
            settings: RwLock::new(Settings {
                modules: known.collect(),
                others: Module::default(),
                patterns: pattern::DEFAULTS.map(String::from),
                facility: None,
            }),
            file: Mutex::default(),
            places: places::Places::default(),
            syslog: RwLock::new(None),
            target: RwLock::new(None),
        }
    }

    /// Applies the logging options of the command line.
    ///
    /// # Errors
    /// The first invalid option. As in Open vSwitch, a default log file that cannot be opened is not an error
    /// but a warning.
    pub fn apply(&self, options: &[LogOption]) -> Result<(), LogError> {
        for option in options {
            match option {
                LogOption::Verbose(None) => self.set_all_levels(Level::Dbg),
                LogOption::Verbose(Some(text)) => self
                    .set(text)
                    .map_err(|error| LogError::Verbosity { text: text.clone(), error })?,
                LogOption::LogFile(path) => {
                    let opened = self.open_file(path.as_deref());
                    if let (Some(path), Err(error)) = (path, opened) {
                        return Err(LogError::LogFile { path: path.clone(), error });
                    }
                }
                LogOption::SyslogMethod(text) => match syslog::Method::parse(text) {
                    // Only the first method takes effect (ovs: vlog_set_syslog_method).
                    Some(method) if read(&self.syslog).is_none() => self.set_syslog(Some(method)),
                    Some(_) => {}
                    None => return Err(LogError::SyslogMethod(text.clone())),
                },
                LogOption::SyslogTarget(target) => {
                    *write(&self.target) = Some(syslog::UdpSender::new(target, 514));
                    let text = "--syslog-target flag is deprecated, use --syslog-method instead";
                    self.message("vlog", Level::Warn, format_args!("{text}"));
                }
            }
        }
        Ok(())
    }

    /// Changes levels, a pattern or the facility, as given in one argument of `vlog/set`.
    ///
    /// # Errors
    /// The invalid word.
    pub fn set(&self, spec: &str) -> Result<(), SpecError> {
        let known = |word: &str| self.module_name(word).is_some();
        match Spec::parse(spec, known)? {
            Spec::Pattern(destination, pattern) => {
                write(&self.settings).patterns.set(destination, pattern);
            }
            Spec::Facility(facility) => write(&self.settings).facility = Some(facility),
            Spec::Levels { module: Some(name), destination, level } => {
                let name = self.module_name(&name).unwrap_or(name);
                let mut settings = write(&self.settings);
                let module = settings.modules.entry(name).or_default();
                module.levels.set(destination, level);
            }
            Spec::Levels { module: None, destination, level } => {
                write(&self.settings).for_all(|module| module.levels.set(destination, level));
            }
        }
        self.levels_changed();
        Ok(())
    }

    /// Sets the level of every module for every destination.
    pub fn set_all_levels(&self, level: Level) {
        write(&self.settings).for_all(|module| module.levels.set(None, level));
        self.levels_changed();
    }

    /// Enables or disables rate limits of one module, or of all. Returns false for an unknown module.
    #[must_use]
    pub fn set_rate_limits(&self, module: Option<&str>, honor: bool) -> bool {
        let Some(name) = module else {
            write(&self.settings).for_all(|module| module.honor_rate_limits = honor);
            return true;
        };
        let Some(name) = self.module_name(name) else { return false };
        write(&self.settings).modules.entry(name).or_default().honor_rate_limits = honor;
        true
    }

    /// Returns whether a module's messages are rate-limited.
    pub fn honors_rate_limits(&self, target: &str) -> bool {
        read(&self.settings).module(module::of_target(target)).honor_rate_limits
    }

    /// Logs a fatal error, and always prints it to standard error as `PROGRAM: TEXT`. The caller exits.
    pub fn fatal(&self, module: &str, text: &str) {
        let name = module::of_target(module).to_owned();
        let mut settings = write(&self.settings);
        // Otherwise standard error would show it twice.
        settings.modules.entry(name).or_default().levels.console = Level::Off;
        drop(settings);
        self.message(module, Level::Emer, format_args!("{text}"));
        let _ = writeln!(io::stderr(), "{}: {text}", self.program);
    }

    /// Logs one message.
    pub fn message(&self, target: &str, level: Level, text: fmt::Arguments<'_>) {
        let name = module::of_target(target);
        let settings = read(&self.settings);
        let mut wanted = settings.module(name).levels.map(|least| least >= level);
        let unheard = !settings.modules.contains_key(name);
        drop(settings);
        if unheard {
            // From now on `vlog/list` shows the module, and `vlog/set` accepts its name.
            let mut settings = write(&self.settings);
            let others = settings.others;
            settings.modules.insert(name.to_owned(), others);
        }
        wanted.file &= lock(&self.file).open.is_some();
        if wanted.syslog || wanted.console || wanted.file {
            self.write(name, level, wanted, &text.to_string());
        }
    }

    fn write(&self, module: &str, level: Level, wanted: PerDestination<bool>, text: &str) {
        let number = MESSAGES.get().wrapping_add(1);
        MESSAGES.set(number);
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let settings = read(&self.settings);
        let subprogram = subprogram();
        let message = Message {
            module,
            level,
            text,
            number,
            subprogram: &subprogram,
            program: &self.program,
            host: &self.host,
            unix_ms: i64::try_from(unix.as_millis()).unwrap_or(i64::MAX),
            utc_offset_s: (self.utc_offset_s)(unix.as_secs().cast_signed()),
            running_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            facility: settings.facility.unwrap_or(LOG_LOCAL0),
        };
        let mut line = String::with_capacity(256);
        // A failure to write cannot be reported anywhere.
        if wanted.console {
            pattern::format(&settings.patterns.console, &message, &mut line);
            line.push('\n');
            let _ = io::stderr().write_all(line.as_bytes());
        }
        if wanted.file {
            line.clear();
            pattern::format(&settings.patterns.file, &message, &mut line);
            line.push('\n');
            if let Some(mut file) = lock(&self.file).open.as_ref() {
                let _ = file.write_all(line.as_bytes());
            }
        }
        if wanted.syslog {
            self.write_syslog(&settings, &message);
        }
    }

    fn write_syslog(&self, settings: &Settings, message: &Message<'_>) {
        if read(&self.syslog).is_none() {
            self.set_syslog(None);
        }
        let facility = settings.facility.unwrap_or(LOG_DAEMON);
        let (mut text, mut date) = (String::new(), String::new());
        pattern::format(&settings.patterns.syslog, message, &mut text);
        pattern::format("%d{%h %e %T}", message, &mut date);
        if let Some(method) = &*read(&self.syslog) {
            for line in text.split('\n').filter(|line| !line.is_empty()) {
                method.send(facility, message.level, &self.program, &date, line);
            }
        }
        if let Some(target) = &*read(&self.target) {
            text.clear();
            pattern::format(pattern::RFC_5424, message, &mut text);
            target.send(text.as_bytes());
        }
    }

    fn set_syslog(&self, method: Option<syslog::Method>) {
        *write(&self.syslog) = Some(method.unwrap_or_default());
    }

    /// Returns a module's name in its usual spelling, from a name in any case.
    fn module_name(&self, name: &str) -> Option<String> {
        let settings = read(&self.settings);
        settings.modules.keys().find(|known| known.eq_ignore_ascii_case(name)).cloned()
    }

    /// Returns the most verbose level that any module has for a destination in use.
    fn widest_level(&self) -> Level {
        let to_file = lock(&self.file).open.is_some();
        let settings = read(&self.settings);
        let modules = settings.modules.values().chain([&settings.others]);
        let levels = modules.map(|module| {
            let levels = module.levels;
            let file = if to_file { levels.file } else { Level::Off };
            levels.console.max(levels.syslog).max(file)
        });
        levels.max().unwrap_or(Level::Off)
    }

    /// Makes the `log` crate skip messages for which no destination is configured, before they are formatted.
    fn levels_changed(&self) {
        if installed().is_some_and(|installed| std::ptr::eq(installed, self)) {
            log::set_max_level(self.widest_level().filter());
        }
    }
}

impl log::Log for Vlog {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        let level = Level::from(metadata.level());
        let levels = read(&self.settings).module(module::of_target(metadata.target())).levels;
        let to_file = levels.file >= level && lock(&self.file).open.is_some();
        levels.console >= level || levels.syslog >= level || to_file
    }

    fn log(&self, record: &log::Record<'_>) {
        if let Some(limit) = self.places.limit(record) {
            let now = base::Instant::ZERO + self.started.elapsed();
            if !limit.admits_to(self, record.target(), record.level(), now) {
                return;
            }
        }
        self.message(record.target(), record.level().into(), *record.args());
    }

    fn flush(&self) {}
}

impl Settings {
    fn module(&self, name: &str) -> Module {
        self.modules.get(name).copied().unwrap_or(self.others)
    }

    fn for_all(&mut self, change: impl Fn(&mut Module)) {
        self.modules.values_mut().for_each(&change);
        change(&mut self.others);
    }
}

/// Returns the name of this thread; empty for the main thread.
fn subprogram() -> String {
    let chosen = SUBPROGRAM.with_borrow(Clone::clone);
    chosen.unwrap_or_else(|| match std::thread::current().name() {
        Some("main") | None => String::new(),
        Some(name) => name.to_owned(),
    })
}

// Every critical section leaves consistent data, so a poisoned lock may be used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(cell: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    cell.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(cell: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    cell.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
