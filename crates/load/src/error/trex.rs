//! Errors of a TRex server, with advice.

/// Why a TRex server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrexError {
    /// It cannot be reached, or is not a TRex server.
    #[error(
        "TRex at {server}: {source}; start it with `t-rex-64 -i --astf`, or name its host with \
         --server and its port with --sync-port"
    )]
    Connect {
        /// Host and port.
        server: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The connection was lost.
    #[error("TRex at {server} did not answer {method}: {source}")]
    Call {
        /// Host and port.
        server: String,
        /// The call.
        method: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// It has another version or mode.
    #[error(
        "TRex at {server} refuses this version of its ASTF interface ({why}); start it with \
         --astf, in a version from 2.7x to 3.0x"
    )]
    Version {
        /// Host and port.
        server: String,
        /// Its answer.
        why: String,
    },
    /// It refused a call.
    #[error("TRex refused {method}: {why}")]
    Refused {
        /// The call.
        method: &'static str,
        /// Its answer.
        why: String,
    },
    /// Its answer is malformed.
    #[error("TRex answered {method} with what is no answer: {why}")]
    Malformed {
        /// The call.
        method: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// It has too few ports.
    #[error("TRex has {0} ports; clients and servers need one each")]
    Ports(usize),
    /// The profile is too long for one message.
    #[error("the traffic is {bytes} bytes as a profile, more than {most}; lower --num-messages")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The maximum length.
        most: usize,
    },
    /// It did not reach the expected state in time.
    #[error("TRex is in state {state} {seconds} s after {method}; see its own console")]
    Stuck {
        /// The last call.
        method: &'static str,
        /// Its state, as it numbers them.
        state: i64,
        /// The time limit.
        seconds: u64,
    },
}
