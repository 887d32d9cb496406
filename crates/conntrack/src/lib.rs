//! Connection tracking: finds the connection of each packet, keeps its state and applies NAT.
//!
//! [`Conntrack`] serves commands and settings; each thread that forwards packets has a [`Tracker`] of it.
//! Packet states and dump formats are those of Open vSwitch's userspace connection tracker (ovs:
//! `lib/conntrack.c`), except for the differences that `docs/connection-tracking.md` lists.
//!
//! A packet's tuple is parsed, the zone's index finds the connection by one hash that both
//! directions share, the protocol's state machine is updated, NAT rewrites the packet. This path
//! takes no lock, and allocates only when it creates a connection. `fast_path/` is its
//! fast path, `slow_path.rs` handles every packet.
//!
//! Modules import only what is below them: `tracker`, `conntrack`, `fast_path`, `slow_path`, `pass`,
//! `connections`, `management` and `headers`, `record` and `alg`, `protocols`, `key`.

#![forbid(unsafe_code)]

mod alg;
mod connections;
mod conntrack;
mod counters;
mod error;
mod fast_path;
mod fragments;
mod hash;
mod headers;
mod key;
mod management;
mod nat;
mod pass;
mod protocols;
mod record;
mod slow_path;
mod timeout;
mod tracker;

pub use alg::expectations::{ExpectedConnection, ExpectedCursor, ExpectedPage};
pub use conntrack::flush::{self, Direction};
pub use conntrack::offloaded::Offloaded;
pub use conntrack::windows::WindowsKept;
pub use conntrack::{Config, Conntrack, Page};
pub use counters::{Counters, Event};
pub use error::Error;
pub use flow::CtFlush;
pub use fragments::{
    FragmentCounts, FragmentStatus, Fragments, HeldDatagram, IpVersion, OutOfBounds, Whole,
};
pub use management::change::{Change, Changes, What};
pub use management::cursor::Cursor;
pub use management::entry::{Entry, SctpEntry, TcpEntry, TcpSide, Traffic};
pub use management::filter::{Filter, StateName};
pub use management::limit::{ZoneLimit, ZoneLimits};
pub use management::stats::Stats;
pub use management::text;
pub use protocols::sctp::SctpState;
pub use protocols::tcp::TcpState;
pub use timeout::{Timeout, TimeoutPolicy};
pub use tracker::{FollowGuard, Tracker};
