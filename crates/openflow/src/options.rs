//! Tunnel options in actions, resolved by a bridge's TLV table (ovs: `lib/meta-flow.c`,
//! `mf_vl_mff_nx_pull_header`).

use crate::action::{Action, Learn, LearnSource, LearnSpec, ObservationId, Subfield, ZoneSource};
use crate::error::{ErrorCode, OfError};
use flow::{Field, OptionMapping, Wide};

/// The error for a field `tun_metadata<index>` to which no option is mapped.
pub fn unmapped(index: u8) -> OfError {
    let reason = format!("no tunnel option is mapped to tun_metadata{index}");
    OfError::new(ErrorCode::TlvUnmapped, reason)
}

/// Sets the lengths of the tunnel options in actions.
///
/// # Errors
/// The table lacks an option, or an action uses bits beyond its length.
pub fn place_options(actions: &mut [Action], table: &[OptionMapping]) -> Result<(), OfError> {
    actions.iter_mut().try_for_each(|action| place(action, table))
}

fn place(action: &mut Action, table: &[OptionMapping]) -> Result<(), OfError> {
    match action {
        Action::OutputReg { source: part, .. }
        | Action::StackPush(part)
        | Action::StackPop(part)
        | Action::CheckPktLarger { target: part, .. } => place_part(part, table),
        Action::Move { source, target, .. } => {
            place_part(source, table)?;
            place_part(target, table)
        }
        Action::SetOption(set) => {
            let mapping = mapping(set.index, table)?;
            set.len = mapping.len();
            set.value = set.value & mapping.ones();
            let is_whole = set.mask & mapping.ones() == mapping.ones() && !mapping.is_empty();
            set.mask = match is_whole || set.mask == Wide::ONES {
                true => Wide::ONES,
                false => set.mask & mapping.ones(),
            };
            Ok(())
        }
        Action::DeleteField(option) => {
            if let Some(index) = option.field.tun_metadata_index() {
                option.option_len = mapping(index, table)?.len();
            }
            Ok(())
        }
        Action::Ct(ct) => {
            if let ZoneSource::Field(part) = &mut ct.zone {
                place_part(part, table)?;
            }
            place_options(&mut ct.exec, table)
        }
        Action::Learn(learn) => place_learn(learn, table),
        Action::Bundle(bundle) => {
            bundle.target.as_mut().map_or(Ok(()), |part| place_part(part, table))
        }
        Action::Multipath(multipath) => place_part(&mut multipath.target, table),
        Action::Sample(sample) => {
            let ids = [&mut sample.domain, &mut sample.point];
            ids.into_iter()
                .filter_map(ObservationId::field_mut)
                .try_for_each(|part| place_part(part, table))
        }
        Action::Clone(inner) | Action::WriteActions(inner) => place_options(inner, table),
        _ => Ok(()),
    }
}

fn place_learn(learn: &mut Learn, table: &[OptionMapping]) -> Result<(), OfError> {
    if let Some(result) = &mut learn.result {
        place_part(result, table)?;
    }
    for spec in &mut learn.specs {
        match spec {
            LearnSpec::Match { source, target } | LearnSpec::Load { source, target } => {
                if let LearnSource::Field(part) = source {
                    place_part(part, table)?;
                }
                place_part(target, table)?;
            }
            LearnSpec::Output(part) => place_part(part, table)?,
        }
    }
    Ok(())
}

fn place_part(part: &mut Subfield, table: &[OptionMapping]) -> Result<(), OfError> {
    let Some(index) = part.field.tun_metadata_index() else { return Ok(()) };
    let len = mapping(index, table)?.len();
    let (bits, first) = (u32::from(len) * 8, part.offset);
    if first + part.bits > bits {
        let last = first + part.bits - 1;
        let reason = format!("tun_metadata{index} has {bits} bits; there is no [{first}..{last}]");
        return Err(OfError::new(ErrorCode::ActionBadSetLen, reason));
    }
    part.option_len = len;
    Ok(())
}

fn mapping(index: u8, table: &[OptionMapping]) -> Result<&OptionMapping, OfError> {
    OptionMapping::of(table, index).ok_or_else(|| unmapped(index))
}

/// Returns the tunnel options that actions use: bit `n` for `tun_metadata<n>`.
pub fn option_fields(actions: &[Action]) -> u64 {
    actions.iter().fold(0, |all, action| all | of_action(action))
}

fn of_action(action: &Action) -> u64 {
    match action {
        Action::OutputReg { source: part, .. }
        | Action::StackPush(part)
        | Action::StackPop(part)
        | Action::CheckPktLarger { target: part, .. } => of_part(part),
        Action::Move { source, target, .. } => of_part(source) | of_part(target),
        Action::SetOption(set) => 1 << (set.index & 63),
        Action::DeleteField(option) => of_field(option.field),
        Action::Ct(ct) => {
            let zone = match &ct.zone {
                ZoneSource::Field(part) => of_part(part),
                ZoneSource::Immediate(_) => 0,
            };
            zone | option_fields(&ct.exec)
        }
        Action::Learn(learn) => of_learn(learn),
        Action::Bundle(bundle) => bundle.target.as_ref().map_or(0, of_part),
        Action::Multipath(multipath) => of_part(&multipath.target),
        Action::Sample(sample) => {
            let ids = [&sample.domain, &sample.point];
            ids.into_iter()
                .filter_map(ObservationId::field)
                .fold(0, |all, part| all | of_part(part))
        }
        Action::Clone(inner) | Action::WriteActions(inner) => option_fields(inner),
        _ => 0,
    }
}

fn of_learn(learn: &Learn) -> u64 {
    let result = learn.result.as_ref().map_or(0, of_part);
    learn.specs.iter().fold(result, |all, spec| {
        let read = spec.read().as_ref().map_or(0, of_part);
        let target = match spec {
            LearnSpec::Match { target, .. } | LearnSpec::Load { target, .. } => of_part(target),
            LearnSpec::Output(_) => 0,
        };
        all | read | target
    })
}

fn of_part(part: &Subfield) -> u64 {
    of_field(part.field)
}

fn of_field(field: Field) -> u64 {
    field.tun_metadata_index().map_or(0, |index| 1 << index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse_flow;
    use crate::{FlowMod, message::FlowModCommand, text};
    use flow::Match;

    #[test]
    fn actions_name_options_that_are_mapped_within_their_lengths() {
        let option = |(index, slots)| OptionMapping { class: 1, kind: index, index, slots };
        let table = [(0, 0b1), (1, 0x7fff_ffff), (9, 0)].map(option);
        let (unmapped, beyond) = (Err(ErrorCode::TlvUnmapped), Err(ErrorCode::ActionBadSetLen));
        let cases = [
            ("move:tun_metadata0[0..31]->reg0[]", Ok(1)),
            ("move:tun_metadata0[1..32]->reg0[]", beyond),
            ("move:tun_metadata1[960..991]->tun_metadata0[0..31]", Ok(3)),
            ("push:tun_metadata1[],pop:tun_metadata1[0..900]", Ok(2)),
            ("push:tun_metadata2[0]", unmapped),
            ("pop:tun_metadata0[32..63]", beyond),
            ("load:1->tun_metadata2[0]", unmapped),
            ("set_field:0xfff/0xfff->tun_metadata0", Ok(1)),
            ("set_field:1->tun_metadata63", unmapped),
            ("delete_field:tun_metadata9", Ok(1 << 9)),
            ("delete_field:tun_metadata8", unmapped),
            ("output:tun_metadata0[0..15]", Ok(1)),
            ("check_pkt_larger(5)->tun_metadata0[32]", beyond),
            ("multipath(eth_src,50,modulo_n,1,0,tun_metadata2[0..31])", unmapped),
            ("bundle_load(eth_src,50,hrw,ofport,tun_metadata0[1..32],members:4)", beyond),
            ("sample(probability=1,obs_point_id=tun_metadata1[0..31])", Ok(2)),
            ("sample(probability=1,obs_domain_id=tun_metadata2[0..31])", unmapped),
            ("learn(tun_metadata0[0..31]=reg0[0..31])", Ok(1)),
            ("learn(reg0[0..31]=tun_metadata2[0..31])", unmapped),
            ("learn(load:reg0[]->tun_metadata0[32..63])", beyond),
            ("clone(ct(commit,zone=tun_metadata0[20..35]))", beyond),
            ("ct(commit,exec(move:tun_metadata2[0..31]->ct_mark))", unmapped),
            ("write_actions(set_field:5->tun_metadata1)", Ok(2)),
        ];
        for (actions, expect) in cases {
            let flow = format!("ip,actions={actions}");
            let FlowMod { mut actions, .. } =
                parse_flow(&flow, FlowModCommand::Add, &|_| None).unwrap();
            let placed = place_options(&mut actions, &table).map_err(|error| error.code);
            assert_eq!(placed.map(|()| option_fields(&actions)), expect, "{flow}");
        }
    }

    #[test]
    fn assignments_are_printed_as_they_are_given() {
        let cases = [
            ("set_field:0xa->tun_metadata0", "set_field:0xa->tun_metadata0"),
            ("set_field:0->tun_metadata1", "set_field:0x0->tun_metadata1"),
            ("set_field:ANY->tun_metadata1", "set_field:ANY->tun_metadata1"),
            ("set_field:0xb/0xff->tun_metadata1", "set_field:0xb/0xff->tun_metadata1"),
            ("set_field:0xb/0xf->tun_metadata63", "set_field:0xb/0xf->tun_metadata63"),
            ("load:0x5->tun_metadata1[0..31]", "load:0x5->NXM_NX_TUN_METADATA1[0..31]"),
            ("load:0x5->tun_metadata1[960..991]", "load:0x5->NXM_NX_TUN_METADATA1[960..991]"),
            (
                "load:0x10000000000000001->tun_metadata1[100..200]",
                "load:0x1->NXM_NX_TUN_METADATA1[100..163],load:0x1->NXM_NX_TUN_METADATA1[164..200]",
            ),
            ("delete_field:tun_metadata3", "delete_field:tun_metadata3"),
        ];
        for (given, expect) in cases {
            let flow = format!("actions={given}");
            let flow = parse_flow(&flow, FlowModCommand::Add, &|_| None).unwrap();
            assert_eq!(text::format_actions(&flow.actions, &Match::any()), expect, "{given}");
        }
    }
}
