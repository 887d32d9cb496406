//! The tests, with the sections that they implement.

use clap::ValueEnum;

/// The tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Test {
    /// Highest rate of frames without loss, for each frame size
    #[value(name = "rfc2544-throughput")]
    Throughput,
    /// Latency at that rate, for each frame size
    #[value(name = "rfc2544-latency")]
    Latency,
    /// Frames lost at rates from the highest down
    #[value(name = "rfc2544-frame-loss")]
    FrameLoss,
    /// Longest burst without loss, for each frame size
    #[value(name = "rfc2544-back-to-back")]
    BackToBack,
    /// Concurrent TCP connection capacity, each validated when all are established
    #[value(name = "rfc3511-concurrent")]
    Concurrent,
    /// Maximum TCP connection establishment rate, each validated when all are established
    #[value(name = "rfc3511-connection-rate")]
    ConnectionRate,
    /// The same rate under a flood of SYNs and without
    #[value(name = "rfc3511-syn-flood")]
    SynFlood,
    /// TCP connections per second, each with one transaction, at a steady rate
    #[value(name = "rfc9411-connection-rate")]
    SteadyRate,
    /// Concurrent TCP connections, kept in use
    #[value(name = "rfc9411-concurrent")]
    SteadyConcurrent,
    /// Maximum connection establishment rate, validated by a reverse frame for each entry
    #[value(name = "rfc9693-establishment")]
    Establishment,
    /// Phase 2: highest rate of frames over established connections without loss
    #[value(name = "rfc9693-throughput")]
    StatefulThroughput,
    /// Phase 2: latency at that rate
    #[value(name = "rfc9693-latency")]
    StatefulLatency,
    /// Phase 2: frames lost at rates from the highest down
    #[value(name = "rfc9693-frame-loss")]
    StatefulFrameLoss,
    /// Connection tracking table capacity
    #[value(name = "rfc9693-capacity")]
    Capacity,
    /// Connection tear-down rate of the whole table
    #[value(name = "rfc9693-teardown")]
    Teardown,
}

/// The standard frame sizes of Ethernet (RFC 2544 section 9.1). With IPv6 the smallest is larger.
pub const FRAME_SIZES: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

impl Test {
    /// Tests of these RFCs that are not implemented, and why, as text.
    pub const ABSENT: &'static str = "\
Not here, of RFC 3511: section 5.1, which is RFC 2544's throughput with connections (see
rfc9693-throughput); 5.4, the rate of closing connections, which rfc9411-connection-rate has to
sustain by FIN at the rate it opens them and rfc9693-teardown measures at the table itself; 5.6 to
5.8, whose subjects (HTTP transfers, what a policy forbids) are a proxy's or a firewall's; 5.9, since
hosts here send no fragments; 5.10, latency, which rfc2544-latency and rfc9693-latency measure.
";

    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// The section that it implements, and how.
    pub fn section(self) -> &'static str {
        match self {
            Test::Throughput => {
                "RFC 2544 section 26.1: UDP frames of RFC 4814's ports in both directions (section \
                 14), without connection tracking; the highest rate of which none is lost; over \
                 IPv6 as RFC 5180 has it"
            }
            Test::Latency => {
                "RFC 2544 section 26.2: the time of every frame at the throughput, store and \
                 forward; mean, and RFC 8219 section 7.2's median and 99.9th percentile"
            }
            Test::FrameLoss => {
                "RFC 2544 section 26.3: frame loss from the highest rate down in steps of a tenth, \
                 until two steps in a row lose nothing"
            }
            Test::BackToBack => {
                "RFC 2544 section 26.4: bursts in both directions, as fast as they can be sent; the \
                 longest of which no frame is lost"
            }
            Test::Concurrent => {
                "RFC 3511 section 5.2: N TCP connections opened at a rate, a request on each when \
                 all are open, closed by RST"
            }
            Test::ConnectionRate => {
                "RFC 3511 section 5.3: a fixed number of TCP connections opened at the rate, a \
                 request on each when all are open, closed by RST"
            }
            Test::SynFlood => {
                "RFC 3511 section 5.5: section 5.3 without and with SYNs that are not followed up, at \
                 the servers' own address; how many of them were forwarded"
            }
            Test::SteadyRate => {
                "RFC 9411 section 7.2: one transaction a TCP connection, ended by FIN; initial \
                 phase at a tenth, ramp up, sustain, ramp down; failures below 0.001%, rates \
                 constant within 5% and connections within 10%"
            }
            Test::SteadyConcurrent => {
                "RFC 9411 section 7.5: N TCP connections opened at a rate and kept in use by \
                 transactions, ended by FIN; failures below 0.001%"
            }
            Test::Establishment => {
                "RFC 9693 sections 4.5 and 4.6: N unique pseudorandom UDP tuples at a rate, then one \
                 reverse frame for each entry of the state table"
            }
            Test::StatefulThroughput => {
                "RFC 9693 section 4.7 with RFC 2544 section 26.1: phase 1 fills the table with N \
                 unique tuples, phase 2 sends on them at random in both directions"
            }
            Test::StatefulLatency => {
                "RFC 9693 section 4.7 with RFC 2544 section 26.2: latency in phase 2 at its \
                 throughput"
            }
            Test::StatefulFrameLoss => {
                "RFC 9693 section 4.7 with RFC 2544 section 26.3: frame loss in phase 2"
            }
            Test::Capacity => {
                "RFC 9693 section 4.9: twice as many connections until the validated establishment \
                 rate collapses, then halved in between"
            }
            Test::Teardown => {
                "RFC 9693 section 4.8: N entries deleted at once, less the time that deleting an \
                 empty table takes"
            }
        }
    }

    /// Whether it sends test frames at a rate.
    fn sends_frames(self) -> bool {
        matches!(
            self,
            Test::Throughput
                | Test::Latency
                | Test::FrameLoss
                | Test::StatefulThroughput
                | Test::StatefulLatency
                | Test::StatefulFrameLoss
        )
    }

    /// Whether its result is a number of connections, and not a rate.
    pub fn counts_connections(self) -> bool {
        matches!(self, Test::Concurrent | Test::SteadyConcurrent | Test::Capacity)
    }

    /// The number of repetitions that the RFC requires, if more than one.
    pub fn repeats(self) -> Option<u32> {
        match self {
            Test::Latency | Test::StatefulLatency => Some(20),
            Test::BackToBack => Some(50),
            _ => None,
        }
    }

    /// The unit of its result.
    pub fn unit(self) -> &'static str {
        if self == Test::BackToBack {
            return "frames in each direction";
        }
        match (self.sends_frames(), self.counts_connections()) {
            (true, _) => "frames/s in each direction",
            (_, true) => "connections",
            (_, false) => "connections/s",
        }
    }

    /// Whether the device forwards without connection tracking.
    pub fn is_stateless(self) -> bool {
        matches!(self, Test::Throughput | Test::Latency | Test::FrameLoss | Test::BackToBack)
    }

    /// The default range of the search.
    pub fn range(self) -> (f64, f64) {
        if self == Test::BackToBack {
            return (10.0, 1e6);
        }
        match (self.sends_frames(), self.counts_connections()) {
            (true, _) => (1e3, 1e7),
            (_, true) => (1e3, 2e5),
            (_, false) => (1e3, 1e6),
        }
    }

    /// The duration of a trial that the RFC requires, in seconds; `None`: as long as its connections take.
    pub fn trial_s(self) -> Option<f64> {
        match self {
            Test::Throughput
            | Test::FrameLoss
            | Test::StatefulThroughput
            | Test::StatefulFrameLoss => Some(60.0),
            Test::Latency | Test::StatefulLatency => Some(120.0),
            Test::SteadyRate => Some(300.0),
            _ => None,
        }
    }
}
