//! Tests of the tracker's public interface, in one program that is linked once.

mod batches;
mod broken_frames;
mod early_drop;
mod events;
mod expiry;
mod flush;
mod icmp_errors;
mod icmp_quotes;
mod nat_laws;
mod settings;
mod stalled;
#[path = "../support/mod.rs"]
mod support;
