//! The output of `vlog/list` and `vlog/list-pattern`.

use super::{Destination, Level, Vlog, read, syslog};
use std::fmt::Write;

impl Vlog {
    /// Returns the output of `vlog/list`.
    pub fn list(&self) -> String {
        let mut out = String::from(concat!(
            "                 console    syslog    file\n",
            "                 -------    ------    ------\n",
        ));
        for (name, module) in &read(&self.settings).modules {
            let levels = module.levels;
            let [console, syslog, file] =
                [levels.console, levels.syslog, levels.file].map(Level::name);
            let limits = if module.honor_rate_limits { "" } else { "    (rate limiting disabled)" };
            // Writing to a String cannot fail.
            let _ =
                writeln!(out, "{name:<16}  {console:>4}       {syslog:>4}       {file:>4}{limits}");
        }
        out
    }

    /// Returns the output of `vlog/list-pattern`.
    pub fn list_patterns(&self) -> String {
        let mut out = String::from(concat!(
            "         prefix                            format\n",
            "         ------                            ------\n",
        ));
        let settings = read(&self.settings);
        for place in Destination::ALL {
            let prefix = match (place, &*read(&self.syslog)) {
                (Destination::Syslog, Some(method)) => method.prefix(),
                (Destination::Syslog, None) => syslog::Method::default().prefix(),
                _ => "none",
            };
            let pattern = settings.patterns.get(place);
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{:<7}  {prefix:<32}  {pattern}", place.name());
        }
        out
    }
}
