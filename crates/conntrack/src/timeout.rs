//! Timeouts of idle connections.

use crate::error::Error;

macro_rules! timeouts {
    ($($(#[$doc:meta])* $name:ident = $text:literal: $default:literal,)*) => {
        /// A timeout of a policy, by the names of `ovs-vsctl add-zone-tp`
        /// (ovs: `vswitchd/vswitch.ovsschema`, `CT_Timeout_Policy`).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Timeout {
            $($(#[$doc])* $name,)*
        }

        impl Timeout {
            /// All of them.
            pub const ALL: &[Timeout] = &[$(Timeout::$name,)*];

            /// The name in the database.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Timeout::$name => $text,)*
                }
            }

            /// The default in seconds (ovs: `lib/conntrack-tp.c`); 0 for those that neither Open
            /// vSwitch's userspace connection tracking nor this one uses.
            pub const fn default_s(self) -> u32 {
                match self {
                    $(Timeout::$name => $default,)*
                }
            }
        }
    };
}

timeouts! {
    /// After a SYN.
    TcpSynSent = "tcp_syn_sent": 30,
    /// During the handshake.
    TcpSynRecv = "tcp_syn_recv": 30,
    /// After the handshake.
    TcpEstablished = "tcp_established": 86_400,
    /// After the FIN of one side.
    TcpFinWait = "tcp_fin_wait": 900,
    /// Not used.
    TcpCloseWait = "tcp_close_wait": 0,
    /// Not used.
    TcpLastAck = "tcp_last_ack": 0,
    /// After both FINs, before both are acknowledged.
    TcpTimeWait = "tcp_time_wait": 45,
    /// After both FINs were acknowledged, or a RST.
    TcpClose = "tcp_close": 30,
    /// Not used.
    TcpSynSent2 = "tcp_syn_sent2": 0,
    /// Not used.
    TcpRetransmit = "tcp_retransmit": 0,
    /// Not used.
    TcpUnack = "tcp_unack": 0,
    /// UDP and other protocols, after the first packet.
    UdpFirst = "udp_first": 60,
    /// UDP and other protocols, after packets in one direction only.
    UdpSingle = "udp_single": 60,
    /// UDP and other protocols, after packets in both directions.
    UdpMultiple = "udp_multiple": 30,
    /// After an ICMP query.
    IcmpFirst = "icmp_first": 60,
    /// After the reply to an ICMP query.
    IcmpReply = "icmp_reply": 30,
    /// After an INIT, or after the end of the association. This and the following are SCTP's, with
    /// Linux's defaults (`Documentation/networking/nf_conntrack-sysctl.rst`); the database has no
    /// names for them.
    SctpClosed = "sctp_closed": 10,
    /// After the INIT ACK.
    SctpCookieWait = "sctp_cookie_wait": 3,
    /// After the COOKIE ECHO.
    SctpCookieEchoed = "sctp_cookie_echoed": 3,
    /// After the COOKIE ACK.
    SctpEstablished = "sctp_established": 210,
    /// After a SHUTDOWN of the side that began.
    SctpShutdownSent = "sctp_shutdown_sent": 3,
    /// After a SHUTDOWN of the other side.
    SctpShutdownRecd = "sctp_shutdown_recd": 3,
    /// After the SHUTDOWN ACK.
    SctpShutdownAckSent = "sctp_shutdown_ack_sent": 3,
    /// After packets of one side of an association that began unseen.
    SctpHeartbeatSent = "sctp_heartbeat_sent": 30,
}

impl Timeout {
    /// Returns the timeout of this name, in upper or lower case.
    ///
    /// # Errors
    /// [`Error::UnknownTimeout`].
    pub fn from_name(name: &str) -> Result<Timeout, Error> {
        let found = Timeout::ALL.iter().find(|timeout| timeout.name().eq_ignore_ascii_case(name));
        found.copied().ok_or_else(|| Error::UnknownTimeout { name: name.to_owned() })
    }
}

/// The timeouts of a zone, in seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeoutPolicy {
    seconds: [u32; Timeout::ALL.len()],
}

impl TimeoutPolicy {
    /// The defaults.
    pub fn new() -> Self {
        let mut seconds = [0; Timeout::ALL.len()];
        for (second, timeout) in seconds.iter_mut().zip(Timeout::ALL) {
            *second = timeout.default_s();
        }
        TimeoutPolicy { seconds }
    }

    /// Sets one timeout.
    pub fn set(&mut self, timeout: Timeout, seconds: u32) {
        self.seconds[timeout as usize] = seconds;
    }

    /// One timeout in seconds.
    pub fn get(&self, timeout: Timeout) -> u32 {
        self.seconds[timeout as usize]
    }
}

impl Default for TimeoutPolicy {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case() {
        for &timeout in Timeout::ALL {
            assert_eq!(Timeout::from_name(timeout.name()), Ok(timeout));
            assert_eq!(Timeout::from_name(&timeout.name().to_uppercase()), Ok(timeout));
        }
        let error = Timeout::from_name("tcp_sin_sent").unwrap_err();
        assert!(error.to_string().contains("tcp_sin_sent"));
    }

    #[test]
    fn setting_one_leaves_the_others() {
        let mut policy = TimeoutPolicy::new();
        policy.set(Timeout::UdpSingle, 7);
        for &timeout in Timeout::ALL {
            let expect = if timeout == Timeout::UdpSingle { 7 } else { timeout.default_s() };
            assert_eq!(policy.get(timeout), expect, "{timeout:?}");
        }
    }
}
