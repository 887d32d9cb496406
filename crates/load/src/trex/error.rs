//! Why a TRex server is of no use, and what to do.

/// Why a TRex server is of no use.
#[derive(Debug, thiserror::Error)]
pub enum TrexError {
    /// It cannot be reached, or is none.
    #[error(
        "TRex at {server}: {source}; start it with `t-rex-64 -i --astf`, or name its host with \
         --server and its port with --sync-port"
    )]
    Connect {
        /// Host and port.
        server: String,
        /// What went wrong.
        source: std::io::Error,
    },
    /// It went away.
    #[error("TRex at {server} did not answer {method}: {source}")]
    Call {
        /// Host and port.
        server: String,
        /// The call.
        method: &'static str,
        /// What went wrong.
        source: std::io::Error,
    },
    /// It speaks another version, or is in another mode.
    #[error(
        "TRex at {server} refuses this version of its ASTF interface ({why}); start it with \
         --astf, in a version from 2.7x to 3.0x"
    )]
    Version {
        /// Host and port.
        server: String,
        /// What it said.
        why: String,
    },
    /// It refuses a call.
    #[error("TRex refused {method}: {why}")]
    Refused {
        /// The call.
        method: &'static str,
        /// What it said.
        why: String,
    },
    /// It answers something else.
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
        /// What may be.
        most: usize,
    },
    /// It did not get where it should.
    #[error("TRex is in state {state} {seconds} s after {method}; see its own console")]
    Stuck {
        /// The last call.
        method: &'static str,
        /// Where it is, by its own numbers.
        state: i64,
        /// How long it had.
        seconds: u64,
    },
}
