//! Log specifications: the arguments of `-vSPEC` and `vlog/set` (ovs: lib/vlog.c).

use super::level::{Destination, Level};

/// A parsed specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spec {
    /// `PATTERN:destination:pattern`; `None` means all destinations.
    Pattern(Option<Destination>, String),
    /// `FACILITY:name`: the facility number, shifted as in syslog(3).
    Facility(u8),
    /// `module:destination:level` in any order; omitted parts mean all modules, all destinations and `dbg`.
    Levels {
        /// The module, as written.
        module: Option<String>,
        /// The destination.
        destination: Option<Destination>,
        /// The level.
        level: Level,
    },
}

/// Why a specification is invalid; the texts are Open vSwitch's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // Each message says it.
pub enum SpecError {
    #[error("missing destination")]
    MissingDestination,
    #[error("unknown destination \"{0}\"")]
    UnknownDestination(String),
    #[error("invalid facility")]
    Facility,
    #[error("cannot specify multiple destinations")]
    Destinations,
    #[error("cannot specify multiple levels")]
    Levels,
    #[error("cannot specify multiple modules")]
    Modules,
    #[error("no destination, level, or module \"{0}\"")]
    Unknown(String),
}

/// Facilities of RFC 5424 section 6.2.1 with Open vSwitch's names, indexed by number.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "clock", "", "ftp",
    "ntp", "audit", "alert", "clock2", "local0", "local1", "local2", "local3", "local4", "local5",
    "local6", "local7",
];

impl Spec {
    /// Parses a specification. `is_module` returns whether a word names a module.
    ///
    /// # Errors
    /// The first invalid word.
    pub fn parse(text: &str, is_module: impl Fn(&str) -> bool) -> Result<Self, SpecError> {
        let (first, rest) = word(text);
        if first.eq_ignore_ascii_case("PATTERN") {
            return pattern(rest);
        }
        if first.eq_ignore_ascii_case("FACILITY") {
            return facility(rest);
        }
        let (mut module, mut destination, mut level) = (None, None, None);
        let mut put = |word: &str| {
            if word.eq_ignore_ascii_case("ANY") {
                return Ok(());
            }
            if let Some(named) = Destination::from_name(word) {
                return once(&mut destination, named, SpecError::Destinations);
            }
            if let Some(named) = Level::from_name(word) {
                return once(&mut level, named, SpecError::Levels);
            }
            if is_module(word) {
                return once(&mut module, word.to_owned(), SpecError::Modules);
            }
            Err(SpecError::Unknown(word.to_owned()))
        };
        text.split(SEPARATORS).filter(|word| !word.is_empty()).try_for_each(&mut put)?;
        Ok(Spec::Levels { module, destination, level: level.unwrap_or(Level::Dbg) })
    }
}

const SEPARATORS: [char; 4] = [' ', ',', ':', '\t'];

/// Returns the first word, and the rest after the separator that ends it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches(SEPARATORS);
    text.split_once(SEPARATORS).unwrap_or((text, ""))
}

fn once<T>(place: &mut Option<T>, value: T, twice: SpecError) -> Result<(), SpecError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(twice),
    }
}

fn pattern(text: &str) -> Result<Spec, SpecError> {
    let (name, pattern) = word(text);
    let destination = match name {
        "" => return Err(SpecError::MissingDestination),
        any if any.eq_ignore_ascii_case("ANY") => None,
        name => match Destination::from_name(name) {
            Some(destination) => Some(destination),
            None => return Err(SpecError::UnknownDestination(name.to_owned())),
        },
    };
    Ok(Spec::Pattern(destination, pattern.to_owned()))
}

fn facility(name: &str) -> Result<Spec, SpecError> {
    FACILITIES
        .iter()
        .position(|known| !known.is_empty() && known.eq_ignore_ascii_case(name))
        .map(|number| Spec::Facility((number as u8) << 3))
        .ok_or(SpecError::Facility)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<Spec, &str>) {
        let found = Spec::parse(text, |word| word.eq_ignore_ascii_case("bridge") || word == "dpif");
        assert_eq!(
            found.map_err(|error| error.to_string()),
            expect.map_err(String::from),
            "{text}"
        );
    }

    fn levels(module: Option<&str>, destination: Option<Destination>, level: Level) -> Spec {
        Spec::Levels { module: module.map(String::from), destination, level }
    }

    #[test]
    fn specifications_are_read_as_open_vswitch_reads_them() {
        let (console, file) = (Some(Destination::Console), Some(Destination::File));
        check("", Ok(levels(None, None, Level::Dbg)));
        check("console:off", Ok(levels(None, console, Level::Off)));
        check("OFF console", Ok(levels(None, console, Level::Off)));
        check("Bridge", Ok(levels(Some("Bridge"), None, Level::Dbg)));
        check("ANY:file,bridge:\tWarn", Ok(levels(Some("bridge"), file, Level::Warn)));
        check("PATTERN:file:%D|%m: x", Ok(Spec::Pattern(file, "%D|%m: x".into())));
        check("pattern any %m", Ok(Spec::Pattern(None, "%m".into())));
        check("PATTERN:console", Ok(Spec::Pattern(console, String::new())));
        check("FACILITY:local0", Ok(Spec::Facility(16 << 3)));
        check("facility:Daemon", Ok(Spec::Facility(3 << 3)));
        check("PATTERN:", Err("missing destination"));
        check("PATTERN:nowhere:%m", Err("unknown destination \"nowhere\""));
        check("FACILITY:", Err("invalid facility"));
        check("FACILITY:x", Err("invalid facility"));
        check("console:file", Err("cannot specify multiple destinations"));
        check("warn,dbg", Err("cannot specify multiple levels"));
        check("bridge:dpif", Err("cannot specify multiple modules"));
        check("foo:bar", Err("no destination, level, or module \"foo\""));
    }
}
