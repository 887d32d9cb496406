//! Network namespaces of our own with the real programs in them: the stock `ovs-*` tools, the
//! database, and a switch started with `ovs-vswitchd`'s options, ours or another.
#![forbid(unsafe_code)]

mod check;
mod error;
pub mod namespaces;
pub mod programs;
mod screen;
pub mod stock;
pub mod switch;

pub use check::Check;
pub use error::TestbedError;
pub use screen::Screen;
pub use switch::Switch;
