//! A deterministic simulation of the switch: workers, handlers, revalidators, the control side, ports and
//! faults in virtual time.
//!
//! A [`Plan`] is made from a seed. It holds the settings, the OpenFlow rules and a list of [`Step`]s;
//! each step lets one part of the switch do one thing: a worker obeys some commands and receives, the
//! control side answers upcalls, a rule changes, a port goes. The order of the steps is the interleaving,
//! so that a run is the same each time and a failing seed can be replayed and shrunk.
//!
//! [`run`] carries a plan out with the real workers, connection tracking and OpenFlow tables, joined by the
//! channels that the switch has between its threads. The [`Law`]s are checked throughout against an oracle
//! that decides each packet from scratch by the rules alone and shares no code with what it checks.
//!
//! | file | what it holds |
//! |---|---|
//! | `plan.rs` | settings and steps, made from a seed |
//! | `rule.rs`, `header.rs` | rules and packets as the oracle knows them, and as the switch does |
//! | `world.rs`, `member.rs`, `handling.rs` | the switch: control side, workers, handlers, ports |
//! | `oracle.rs`, `knowledge.rs` | what may become of a packet, and what is known of its connection |
//! | `history.rs`, `ledger.rs` | versions of the rules; packets on their way |
//! | `law.rs` | what must hold |
//! | `shrink.rs` | the shortest plan that still fails |
//!
//! [`Settled`] is the same without interleavings, for tests of other crates: the control side answers at once.

#![forbid(unsafe_code)]

mod defect;
mod handling;
mod header;
mod history;
mod knowledge;
mod law;
mod ledger;
mod member;
mod oracle;
mod plan;
mod report;
mod rule;
mod settled;
mod shrink;
mod world;

pub use defect::Defect;
pub use header::Header;
pub use law::{Law, Violation};
pub use plan::{Plan, Settings, Step};
pub use report::Report;
pub use rule::{Act, Conn, Matching, Rule};
pub use settled::{Settled, State};
pub use shrink::shrink;
pub use world::{run, run_with};
