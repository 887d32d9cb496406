//! Why DPDK is not running.

use std::io;

/// Why DPDK is not running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DpdkError {
    /// The build does not include it.
    #[error(
        "this build of the switch has no DPDK; install libdpdk-dev and build it with `make`, or \
         with cargo's option `--features dpdk`"
    )]
    Absent,
    /// It is not enabled.
    #[error("DPDK does not run; set other_config:dpdk-init=true")]
    NotStarted,
    /// Its start failed.
    #[error("{}", describe(.source, .words, "other_config:dpdk-extra="))]
    Start {
        /// The system's error.
        source: io::Error,
        /// The errors that DPDK logged; may be empty.
        words: String,
    },
    /// Its start failed earlier, and cannot be repeated.
    #[error(
        "DPDK could not be started, and a process can try only once; restart the switch when this \
         is set right: {why}"
    )]
    FailedBefore {
        /// The earlier reason.
        why: String,
    },
}

impl DpdkError {
    /// The message for a program whose DPDK arguments come from this command-line option, and not from the
    /// database.
    #[must_use]
    pub fn on_command_line(&self, option: &str) -> String {
        match self {
            DpdkError::Start { source, words } => describe(source, words, &format!("{option} ")),
            other => other.to_string(),
        }
    }
}

/// `option` precedes DPDK's arguments in the text.
fn describe(source: &io::Error, words: &str, option: &str) -> String {
    let advice = match source.raw_os_error() {
        // DPDK returns either of these if there are no huge pages.
        Some(13 | 12) => format!(
            "; it needs huge pages (sysctl vm.nr_hugepages=1024) and the right to use them, or \
             {option}'--no-pci --no-huge -m 512' for a test"
        ),
        Some(22) => {
            let name = option.trim_end_matches(['=', ' ']);
            format!("; look at {name}, and at what else DPDK was told")
        }
        _ => String::new(),
    };
    let quoted = if words.is_empty() { String::new() } else { format!(" ({words})") };
    format!("Unable to initialize DPDK: {source}{quoted}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_told_what_to_do_has_that_option() {
        let check = |errno, switch: &str, command: &str| {
            let (source, words) = (io::Error::from_raw_os_error(errno), "EAL: no".to_owned());
            let error = DpdkError::Start { source, words };
            let said = [error.to_string(), error.on_command_line("--dpdk-extra")];
            for (said, expect) in said.iter().zip([switch, command]) {
                assert!(said.contains(expect) && said.contains("(EAL: no)"), "{said}");
            }
            assert!(!said[1].contains("other_config"), "{}", said[1]);
        };
        for errno in [12, 13] {
            check(
                errno,
                "or other_config:dpdk-extra='--no-pci --no-huge -m 512' for",
                "or --dpdk-extra '--no-pci --no-huge -m 512' for",
            );
        }
        check(22, "look at other_config:dpdk-extra, and", "look at --dpdk-extra, and");
        check(5, "Unable to initialize DPDK", "Unable to initialize DPDK");
        let error = DpdkError::NotStarted;
        assert_eq!(error.on_command_line("--dpdk-extra"), error.to_string());
    }
}
