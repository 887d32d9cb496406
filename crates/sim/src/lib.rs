//! A deterministic simulation of the switch: workers, handlers, revalidators, the control side, ports and
//! faults in virtual time.
//!
//! A [`Plan`] is generated from a seed. It contains the settings, the OpenFlow rules and a list of [`Step`]s.
//! In each step one part of the switch acts: a worker executes commands and receives packets, the control
//! side answers upcalls, a rule changes, a port is removed. The order of the steps is the interleaving, so a
//! run is reproducible, and a failing seed can be replayed and shrunk.
//!
//! [`run`] executes a plan with the real workers, connection tracking and OpenFlow tables, connected by the
//! same channels as the threads of the switch. Throughout the run it checks the [`Law`]s against an oracle,
//! which determines the path of each packet from the rules alone and shares no code with the switch.
//!
//! | file | contents |
//! |---|---|
//! | `plan.rs` | settings and steps, generated from a seed |
//! | `rule.rs`, `header.rs` | rules and packets, for the oracle and for the switch |
//! | `world.rs`, `member.rs`, `handling.rs` | the switch: control side, workers, handlers, ports |
//! | `oracle.rs`, `knowledge.rs` | the possible paths of a packet, and the possible states of its connection |
//! | `history.rs`, `ledger.rs` | versions of the rules; packets in the switch |
//! | `staleness.rs` | how long flows of replaced rules may be installed |
//! | `law.rs` | the laws |
//! | `shrink.rs` | the shortest plan that still fails |
//!
//! [`Settled`] is a switch without interleavings, for tests of other crates: its control side answers at
//! once.

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
mod staleness;
mod world;

pub use defect::Defect;
pub use header::Header;
pub use law::{Law, Violation};
pub use plan::{Plan, Settings, Step, Threads};
pub use report::Report;
pub use rule::{Act, Conn, Matching, Rule, Tracks};
pub use settled::{Settled, State};
pub use shrink::shrink;
pub use world::{run, run_with};
