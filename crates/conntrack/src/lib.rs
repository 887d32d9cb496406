//! Connection tracking: which packets belong together, in which state their connection is, and
//! how its addresses are translated.
//!
//! [`Conntrack`] is the whole of it, for whoever asks and sets; each thread that carries packets has
//! a [`Tracker`] of it. What it says of packets, and the texts of its dumps, are Open vSwitch's
//! userspace connection tracker's (ovs: `lib/conntrack.c` and its neighbours), except:
//!
//! * Fragments are not reassembled yet. They are invalid, and counted
//!   ([`Event::FragmentUnsupported`]).
//! * Application-layer helpers (FTP, TFTP) are remembered and shown, but do nothing yet.
//! * Two connections of a zone never share a tuple: one whose replies would be taken for another's
//!   packets is refused and counted ([`Event::TupleTaken`]).
//! * A zone limit of 0 is none, as the manual says; the default limit is each zone's by itself, as in
//!   Open vSwitch 3.5; `commit` with `nat` but without addresses translates nothing; `random` and
//!   `persistent` choose as they say.
//!
//! A packet's way: its tuple is read, its zone's index finds the connection by one hash whichever way
//! it runs, the protocol follows it, translation rewrites it. Nothing is locked on this way, and
//! nothing is allocated unless a connection is made. `track.rs` has it for most packets, `walk.rs`
//! for all.

#![forbid(unsafe_code)]

mod begin;
mod change;
mod connection;
mod connections;
mod conntrack;
mod counters;
mod cursor;
mod entry;
mod error;
mod extract;
mod filter;
mod flush;
mod hash;
mod key;
mod known;
mod limit;
mod nat;
mod query;
mod record;
mod room;
mod settings;
mod sight;
mod stats;
mod tcp;
pub mod text;
mod timeout;
mod track;
mod tracker;
mod translate;
mod walk;

pub use change::{Change, Changes, What};
pub use conntrack::{Config, Conntrack, Page};
pub use counters::{Counters, Event};
pub use cursor::Cursor;
pub use entry::{Entry, TcpEntry, TcpSide, Traffic};
pub use error::Error;
pub use filter::Filter;
pub use flush::{Direction, Flush};
pub use limit::{ZoneLimit, ZoneLimits};
pub use stats::Stats;
pub use tcp::TcpState;
pub use timeout::{Timeout, TimeoutPolicy};
pub use tracker::Tracker;
