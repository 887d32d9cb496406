//! Groups: `group_id=1,type=select,bucket=weight:5,output:1,bucket=output:2` (ovs: `lib/ofp-group.c`).

use super::actions::{Nesting, list, one};
use super::span::{Pair, Span};
use super::{PortNames, TextError, format_actions, value};
use crate::action::Action;
use crate::message::{
    BUCKET_MAX, Bucket, GROUP_ALL, GROUP_MAX, GroupCommand, GroupDesc, GroupMod, GroupType,
    HashField, Selection, SelectionMethod,
};
use base::OfPort;
use flow::Match;
use std::fmt::Write;

/// Parses a group in the syntax of `ovs-ofctl add-group`, `mod-group` and so on, according to `command`.
///
/// # Errors
/// The position and the reason.
pub fn parse_group(
    text: &str,
    command: GroupCommand,
    ports: PortNames<'_>,
) -> Result<GroupMod, TextError> {
    let whole = Span::new(text);
    let (head, mut rest) = match text.find("bucket=").filter(|&at| !text[..at].ends_with('_')) {
        Some(at) => (whole.until(at), Some(whole.from(at + "bucket=".len()))),
        None => (whole, None),
    };
    let mut group = None;
    let mut kind = None;
    let mut selection = Selection { method: SelectionMethod::Hash, param: 0, fields: Vec::new() };
    let mut has_method = false;
    for pair in head.pairs()? {
        match pair.key.text {
            "group_id" => group = Some(group_number(pair.needed()?)?),
            "type" => kind = Some(group_type(pair.needed()?)?),
            "selection_method" => {
                selection.method = method(pair.needed()?)?;
                has_method = true;
            }
            "selection_method_param" => {
                selection.param = value::number_to(pair.needed()?, u64::MAX.into())? as u64;
            }
            "fields" => selection.fields = fields(pair.needed()?)?,
            other => return Err(pair.key.error(format!("a group has no '{other}'"))),
        }
    }
    let Some(group) = group else { return Err(whole.error_with("which group?", "group_id=1")) };
    let kind = match (kind, command) {
        (Some(kind), _) => kind,
        (None, GroupCommand::Add | GroupCommand::Modify | GroupCommand::AddOrModify) => {
            return Err(whole.error_with("a group needs a type", "type=all"));
        }
        (None, _) => GroupType::All,
    };
    let mut buckets = Vec::new();
    while let Some(span) = rest {
        let (this, after) = match span.split("bucket=") {
            Some((this, after)) => (this, Some(after)),
            None => (span, None),
        };
        buckets.push(bucket(this, kind, buckets.len() as u32, ports)?);
        rest = after;
    }
    let selection = has_method.then_some(selection);
    Ok(GroupMod { command, group, kind, buckets, selection })
}

fn group_number(span: Span<'_>) -> Result<u32, TextError> {
    match span.text {
        "all" => Ok(GROUP_ALL),
        _ => Ok(value::number_to(span, GROUP_MAX.into())? as u32),
    }
}

fn group_type(span: Span<'_>) -> Result<GroupType, TextError> {
    let known = GroupType::ALL.into_iter().find(|kind| kind.name() == span.text);
    let known = known.or((span.text == "fast_failover").then_some(GroupType::FastFailover));
    known.ok_or_else(|| span.error_with("an unknown type", "all, select, indirect, ff"))
}

fn method(span: Span<'_>) -> Result<SelectionMethod, TextError> {
    match span.text {
        "hash" => Ok(SelectionMethod::Hash),
        "dp_hash" => Ok(SelectionMethod::DpHash),
        _ => Err(span.error_with("an unknown selection_method", "hash, dp_hash")),
    }
}

fn fields(span: Span<'_>) -> Result<Vec<HashField>, TextError> {
    let one = |pair: &Pair<'_>| {
        let unknown = || pair.key.error(format!("there is no field '{}'", pair.key.text));
        let field = HashField::named(pair.key.text).ok_or_else(unknown)?;
        match pair.value {
            None => Ok(field),
            Some(mask) => {
                Ok(HashField { mask: value::number_to(mask, field.field.all_ones())?, ..field })
            }
        }
    };
    let mut fields = span.pairs()?.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    fields.sort_by_key(HashField::place);
    Ok(fields)
}

fn bucket(
    span: Span<'_>,
    kind: GroupType,
    id: u32,
    ports: PortNames<'_>,
) -> Result<Bucket, TextError> {
    let weight = u16::from(kind == GroupType::Select);
    let mut bucket =
        Bucket { id, weight, watch_port: OfPort::NONE, watch_group: None, actions: Vec::new() };
    let mut has_actions = false;
    for pair in span.pairs()? {
        match pair.key.text {
            "weight" => bucket.weight = value::number_to(pair.needed()?, 0xffff)? as u16,
            "watch_port" => bucket.watch_port = value::port(pair.needed()?, ports)?,
            "watch_group" => bucket.watch_group = Some(group_number(pair.needed()?)?),
            "bucket_id" => bucket.id = value::number_to(pair.needed()?, BUCKET_MAX.into())? as u32,
            "action" | "actions" => {
                bucket.actions.extend(list(pair.needed()?, ports, Nesting::top())?);
                has_actions = true;
            }
            "drop" => has_actions = true,
            _ => {
                bucket.actions.push(one(pair, ports, Nesting::top())?);
                has_actions = true;
            }
        }
    }
    if !has_actions {
        return Err(span.error_with("a bucket needs actions", "bucket=output:1"));
    }
    Ok(bucket)
}

/// Formats a group as `ovs-ofctl dump-groups` prints it, without the leading space.
pub fn format_group(group: &GroupDesc) -> String {
    // Writing to a String cannot fail.
    let mut out = format!("group_id={},type={}", group.group, group.kind.name());
    if let Some(selection) = &group.selection {
        let method = match selection.method {
            SelectionMethod::Hash => "hash",
            SelectionMethod::DpHash => "dp_hash",
        };
        let _ = write!(out, ",selection_method={method}");
        if selection.param != 0 {
            let _ = write!(out, ",selection_method_param={}", selection.param);
        }
        let fields = selection.fields.iter().map(|field| match field.mask {
            mask if mask == field.field.all_ones() => field.name.to_owned(),
            mask => format!("{}={mask:#x}", field.name),
        });
        match &fields.collect::<Vec<_>>()[..] {
            [] => {}
            [one] => out += &format!(",fields={one}"),
            several => out += &format!(",fields({})", several.join(",")),
        }
    }
    for bucket in &group.buckets {
        let _ = write!(out, ",bucket=bucket_id:{},", bucket.id);
        if bucket.weight != u16::from(group.kind == GroupType::Select) {
            let _ = write!(out, "weight:{},", bucket.weight);
        }
        if bucket.watch_port != OfPort::NONE {
            let _ = write!(out, "watch_port:{},", bucket.watch_port);
        }
        if let Some(watched) = bucket.watch_group {
            let _ = write!(out, "watch_group:{watched},");
        }
        let _ = write!(out, "actions={}", actions(&bucket.actions));
    }
    out
}

fn actions(actions: &[Action]) -> String {
    format_actions::format_actions(actions, &Match::any())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_written_as_they_are_read() {
        let cases = [
            "group_id=1,type=all,bucket=bucket_id:0,actions=output:1,bucket=bucket_id:7,actions=drop",
            "group_id=2,type=ff,bucket=bucket_id:0,watch_port:1,actions=output:1,\
             bucket=bucket_id:1,watch_group:5,actions=set_field:10.0.0.1->ip_dst,output:2",
            "group_id=3,type=select,selection_method=hash,fields(eth_dst,ip_dst,tcp_dst),\
             bucket=bucket_id:0,weight:5,actions=ct(commit,nat(dst=10.0.0.2)),\
             bucket=bucket_id:1,actions=resubmit(,2)",
            "group_id=4,type=select,selection_method=dp_hash,selection_method_param=4294967297",
        ];
        for text in cases {
            let read = parse_group(text, GroupCommand::Add, &|_| None).unwrap();
            let GroupMod { group, kind, buckets, selection, .. } = read;
            assert_eq!(format_group(&GroupDesc { group, kind, buckets, selection }), text);
        }
        let short = "group_id=1,type=select,bucket=weight:2,output:1,output:2";
        let read = parse_group(short, GroupCommand::Add, &|_| None).unwrap();
        assert_eq!((read.buckets[0].weight, read.buckets[0].actions.len()), (2, 2));
    }

    #[test]
    fn wrong_groups_say_where() {
        let cases = [
            ("type=all", "which group"),
            ("group_id=1", "needs a type"),
            ("group_id=1,type=some", "unknown type"),
            ("group_id=4294967280,type=all", "4294967040"),
            ("group_id=1,type=all,bucket=weight:1", "needs actions"),
            ("group_id=1,type=all,bukket=output:1", "no 'bukket'"),
        ];
        for (text, part) in cases {
            let error = parse_group(text, GroupCommand::Add, &|_| None).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
