//! Files of flows in the syntax of `ovs-ofctl`, named in a configuration file.

use base::{Instant, OfPort};
use daemon::bounded;
use ofproto::{BridgeId, Ofproto};
use openflow::message::FlowModCommand;
use openflow::text::parse_flow;
use std::path::Path;

/// Why a file's flows were not loaded.
#[derive(Debug, thiserror::Error)]
pub enum FlowFileError {
    /// The file can't be read.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A line is not a valid flow, or the switch refuses the flow.
    #[error("{file}:{line}: {reason}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The reason.
        reason: String,
    },
}

/// Returns the errors in a bridge's flow files, line by line.
pub fn check(bridge: &control::Bridge) -> Vec<String> {
    let ports = |name: &str| bridge.ports.contains_key(name).then_some(OfPort(1));
    let mut wrong = Vec::new();
    for file in &bridge.settings.flow_files {
        let name = file.display().to_string();
        match bounded::read_text(file) {
            Err(source) => wrong.push(FlowFileError::Read { file: name, source }.to_string()),
            Ok(text) => wrong.extend(flows(&text).filter_map(|(line, flow)| {
                let error = parse_flow(flow, FlowModCommand::Add, &ports).err()?;
                Some(format!("{name}:{line}: {error}"))
            })),
        }
    }
    wrong
}

/// Returns the flows of a file with their line numbers, from 1, without comments and empty lines.
fn flows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.enumerate().map(|(index, flow)| (index + 1, flow)).filter(|(_, flow)| !flow.is_empty())
}

/// Adds all flows of a file to a bridge, or none. Returns their number.
///
/// # Errors
/// [`FlowFileError`]; the bridge's flows are then unchanged.
pub fn load(
    core: &mut Ofproto,
    bridge: BridgeId,
    file: &Path,
    now: Instant,
) -> Result<usize, FlowFileError> {
    let name = file.display().to_string();
    let text = bounded::read_text(file)
        .map_err(|source| FlowFileError::Read { file: name.clone(), source })?;
    let transaction = core.begin();
    let mut count = 0;
    for (line, flow) in flows(&text) {
        if let Err(reason) = add(core, bridge, flow, now) {
            core.rollback(transaction);
            return Err(FlowFileError::Line { file: name, line, reason });
        }
        count += 1;
    }
    core.commit(transaction);
    Ok(count)
}

fn add(core: &mut Ofproto, bridge: BridgeId, flow: &str, now: Instant) -> Result<(), String> {
    let ports = |name: &str| -> Option<OfPort> { core.port_number(bridge, name) };
    let flow_mod =
        parse_flow(flow, FlowModCommand::Add, &ports).map_err(|error| error.to_string())?;
    core.flow_mod(bridge, &flow_mod, now).map_err(|error| error.reason)
}
