//! Connection tracking: finds the connection of each packet, keeps its state and translates its
//! addresses.
//!
//! [`Conntrack`] serves commands and settings; each thread that carries packets has a [`Tracker`]
//! of it. States of packets and the texts of dumps are those of Open vSwitch's userspace connection
//! tracker (ovs: `lib/conntrack.c`), except for what `docs/connection-tracking.md` lists.
//!
//! A packet's tuple is parsed, the zone's index finds the connection by one hash that both
//! directions share, the protocol's state machine is updated, NAT rewrites the packet. This path
//! takes no lock, and allocates only when it creates a connection. `track.rs` and `track_v6.rs` are
//! its fast path, `slow_path.rs` handles every packet.

#![forbid(unsafe_code)]

mod alg;
mod begin;
mod change;
mod connection;
mod connections;
mod conntrack;
mod counters;
mod cursor;
mod early_drop;
mod entry;
mod error;
mod expectations;
mod extract;
mod fast_parse;
mod fast_parse_v6;
mod filter;
pub mod flush;
mod follow;
mod fragments;
mod hash;
mod icmp_error;
mod key;
mod limit;
mod lookahead;
mod nat;
mod nat_rewrite;
mod offloaded;
mod original_tuple;
mod parsed;
mod query;
mod record;
mod sctp;
mod settings;
mod slow_path;
mod stats;
mod tcp;
pub mod text;
mod timeout;
mod track;
mod track_v6;
mod tracker;
mod update;
mod write;
mod zone_filter;

pub use change::{Change, Changes, What};
pub use conntrack::{Config, Conntrack, Page};
pub use counters::{Counters, Event};
pub use cursor::Cursor;
pub use entry::{Entry, SctpEntry, TcpEntry, TcpSide, Traffic};
pub use error::Error;
pub use expectations::{ExpectedConnection, ExpectedCursor, ExpectedPage};
pub use filter::{Filter, StateName};
pub use flow::CtFlush;
pub use flush::Direction;
pub use fragments::{
    FragmentCounts, FragmentStatus, Fragments, HeldDatagram, IpVersion, OutOfBounds, Whole,
};
pub use limit::{ZoneLimit, ZoneLimits};
pub use offloaded::Offloaded;
pub use sctp::SctpState;
pub use stats::Stats;
pub use tcp::TcpState;
pub use timeout::{Timeout, TimeoutPolicy};
pub use tracker::{FollowGuard, Tracker};
