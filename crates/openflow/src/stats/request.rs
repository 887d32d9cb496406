//! Requests.

use super::{Kind, flow_monitor, kind, table_features};
use crate::bytes::all;
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::group_mod::is_new;
use crate::message::{FlowStatsRequest, GROUP_ALL, StatsRequest};
use crate::oxm::{self, Cookie, MatchForm};
use crate::port::{put_port, take_port};
use crate::queue;
use crate::version::Version;
use crate::{of10_match, of11_match};
use base::{OfPort, TableId};

/// OFPG_ANY
const ANY: u32 = 0xffff_ffff;

/// OFPMPF_REQ_MORE
const MORE: u16 = 1;

fn table(raw: u8) -> Option<TableId> {
    (raw != 0xff).then_some(TableId(raw))
}

/// Reads a request.
pub(crate) fn take_request(
    input: &mut Input<'_>,
    version: Version,
) -> Result<StatsRequest, OfError> {
    let (kind, flags) = Kind::take(input, version)?;
    if let (Kind::Nicira(subtype @ (0 | 1)), Version::V10) = (kind, version) {
        let request = take_nicira_flow(input)?;
        return Ok(match subtype {
            0 => StatsRequest::Flow { request, nicira: true },
            _ => StatsRequest::Aggregate { request, nicira: true },
        });
    }
    let Some(standard) = kind.standard(version) else { return Err(kind.unknown()) };
    Ok(match standard {
        kind::DESC => StatsRequest::Desc,
        kind::FLOW => StatsRequest::Flow { request: take_flow(input, version)?, nicira: false },
        kind::AGGREGATE => {
            StatsRequest::Aggregate { request: take_flow(input, version)?, nicira: false }
        }
        kind::TABLE => StatsRequest::Table,
        kind::PORT => StatsRequest::Port(take_padded_port(input, version)?),
        kind::QUEUE => StatsRequest::Queue(queue::take_request(input, version)?),
        kind::QUEUE_DESC => StatsRequest::QueueDesc(queue::take_request(input, version)?),
        kind::GROUP => StatsRequest::GroupStats(take_group(input)?),
        kind::GROUP_DESC if is_new(version) => StatsRequest::GroupDesc(take_group(input)?),
        kind::GROUP_DESC => StatsRequest::GroupDesc(GROUP_ALL),
        kind::GROUP_FEATURES => StatsRequest::GroupFeatures,
        kind::METER => StatsRequest::MeterStats(take_group(input)?),
        kind::METER_CONFIG => StatsRequest::MeterConfig(take_group(input)?),
        kind::METER_FEATURES => StatsRequest::MeterFeatures,
        kind::TABLE_FEATURES => StatsRequest::TableFeatures {
            tables: table_features::take_wanted(input, version)?,
            more: flags & MORE != 0,
        },
        kind::PORT_DESC if version == Version::V15 => {
            StatsRequest::PortDesc(take_padded_port(input, version)?)
        }
        kind::PORT_DESC => StatsRequest::PortDesc(OfPort::NONE),
        kind::TABLE_DESC => StatsRequest::TableDesc,
        kind::FLOW_MONITOR => {
            let monitors = all(input, |input| flow_monitor::take_request(input, version))?;
            StatsRequest::FlowMonitor(monitors)
        }
        _ => return Err(kind.unknown()),
    })
}

/// Reads the number of a group or a meter.
fn take_group(input: &mut Input<'_>) -> Result<u32, OfError> {
    let group = input.u32()?;
    input.skip(4)?;
    Ok(group)
}

fn take_padded_port(input: &mut Input<'_>, version: Version) -> Result<OfPort, OfError> {
    let port =
        take_port(input, version).map_err(|error| OfError { code: ErrorCode::BadPort, ..error })?;
    input.skip(if version == Version::V10 { 6 } else { 4 })?;
    Ok(port)
}

fn take_flow(input: &mut Input<'_>, version: Version) -> Result<FlowStatsRequest, OfError> {
    if version == Version::V10 {
        let matching = of10_match::take(input)?.matching;
        let table = table(input.u8()?);
        input.skip(1)?;
        let out_port = take_port(input, version)?;
        return Ok(FlowStatsRequest { matching, table, out_port, ..FlowStatsRequest::default() });
    }
    let table = table(input.u8()?);
    input.skip(3)?;
    let out_port = take_port(input, version)?;
    let out_group = Some(input.u32()?).filter(|&group| group != ANY);
    input.skip(4)?;
    let (cookie, cookie_mask) = (input.u64()?, input.u64()?);
    let matching = of11_match::take(input)?;
    let cookie = cookie & cookie_mask;
    Ok(FlowStatsRequest { matching, table, out_port, out_group, cookie, cookie_mask })
}

fn take_nicira_flow(input: &mut Input<'_>) -> Result<FlowStatsRequest, OfError> {
    let out_port = OfPort(input.u16()?);
    let match_len = usize::from(input.u16()?);
    let table = table(input.u8()?);
    input.skip(3)?;
    let mut cookie = Cookie::default();
    let matching = oxm::take_nxm_match(input, match_len, Some(&mut cookie))?;
    let (cookie, cookie_mask) = (cookie.value, cookie.mask);
    Ok(FlowStatsRequest { matching, table, out_port, out_group: None, cookie, cookie_mask })
}

/// Writes a request.
pub(crate) fn put_request(out: &mut Vec<u8>, version: Version, request: &StatsRequest) {
    let v10 = version == Version::V10;
    let (kind, flow) = match request {
        StatsRequest::Desc => (kind::DESC, None),
        StatsRequest::Flow { request, nicira } => (kind::FLOW, Some((request, *nicira))),
        StatsRequest::Aggregate { request, nicira } => (kind::AGGREGATE, Some((request, *nicira))),
        StatsRequest::Table => (kind::TABLE, None),
        StatsRequest::Port(_) => (kind::PORT, None),
        StatsRequest::PortDesc(_) => (kind::PORT_DESC, None),
        StatsRequest::TableFeatures { .. } => (kind::TABLE_FEATURES, None),
        StatsRequest::TableDesc => (kind::TABLE_DESC, None),
        StatsRequest::GroupFeatures => (kind::GROUP_FEATURES, None),
        StatsRequest::GroupDesc(_) => (kind::GROUP_DESC, None),
        StatsRequest::GroupStats(_) => (kind::GROUP, None),
        StatsRequest::MeterFeatures => (kind::METER_FEATURES, None),
        StatsRequest::MeterConfig(_) => (kind::METER_CONFIG, None),
        StatsRequest::MeterStats(_) => (kind::METER, None),
        StatsRequest::Queue(_) => (kind::QUEUE, None),
        StatsRequest::QueueDesc(_) => (kind::QUEUE_DESC, None),
        StatsRequest::FlowMonitor(_) => (kind::FLOW_MONITOR, None),
    };
    if let Some((flow, nicira)) = flow {
        if nicira && v10 {
            Kind::Nicira(u32::from(kind - kind::FLOW)).put(out, version);
            return put_nicira_flow(out, flow);
        }
        Kind::Standard(kind).put(out, version);
        return put_flow(out, version, flow);
    }
    let flags_at = out.len() + 2;
    Kind::of(kind, version).put(out, version);
    match request {
        StatsRequest::TableFeatures { tables, more } => {
            out.set_u16(flags_at, if *more { MORE.into() } else { 0 });
            tables.iter().for_each(|table| table_features::put_wanted(out, version, table));
        }
        StatsRequest::Port(port) => put_padded_port(out, version, *port),
        StatsRequest::PortDesc(port) if version == Version::V15 => {
            put_padded_port(out, version, *port);
        }
        StatsRequest::GroupDesc(_) if !is_new(version) => {}
        StatsRequest::GroupDesc(number)
        | StatsRequest::GroupStats(number)
        | StatsRequest::MeterConfig(number)
        | StatsRequest::MeterStats(number) => {
            out.put_u32(*number);
            out.put_zeros(4);
        }
        StatsRequest::Queue(request) | StatsRequest::QueueDesc(request) => {
            queue::put_request(out, version, request);
        }
        StatsRequest::FlowMonitor(monitors) => {
            monitors.iter().for_each(|monitor| flow_monitor::put_request(out, version, monitor));
        }
        _ => {}
    }
}

fn put_padded_port(out: &mut Vec<u8>, version: Version, port: OfPort) {
    put_port(out, version, port);
    out.put_zeros(if version == Version::V10 { 6 } else { 4 });
}

fn put_flow(out: &mut Vec<u8>, version: Version, request: &FlowStatsRequest) {
    let table = request.table.map_or(0xff, |table| table.0);
    if version == Version::V10 {
        of10_match::put(out, &request.matching);
        out.put(&[table, 0]);
        return put_port(out, version, request.out_port);
    }
    out.put(&[table, 0, 0, 0]);
    put_port(out, version, request.out_port);
    out.put_u32(request.out_group.unwrap_or(ANY));
    out.put_zeros(4);
    out.put_u64(request.cookie & request.cookie_mask);
    out.put_u64(request.cookie_mask);
    of11_match::put(out, &request.matching, version);
}

fn put_nicira_flow(out: &mut Vec<u8>, request: &FlowStatsRequest) {
    out.put_u16(request.out_port.0);
    let at = out.len();
    out.put_u16(0);
    out.put(&[request.table.map_or(0xff, |table| table.0), 0, 0, 0]);
    let cookie = Cookie { value: request.cookie, mask: request.cookie_mask };
    let len = oxm::put_nxm_match(out, &request.matching, MatchForm::Nxm, cookie);
    out.set_u16(at, len);
}
