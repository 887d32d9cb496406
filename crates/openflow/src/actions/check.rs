//! Checks actions against a flow's match (ovs: `lib/ofp-actions.c`, `ofpacts_check`).

mod headers;

use crate::action::{
    Action, Bundle, Ct, Learn, LearnSource, LearnSpec, Subfield, ZoneSource, match_bits,
};
use crate::error::{ErrorCode, OfError};
use crate::oxm::{Prerequisite, Proto, Spec, for_field};
use crate::version::Version;
use base::{OfPort, TableId};
use flow::{CtState, Field, Match, VLAN_PRESENT};
use wire::ethertype;
use wire::protocol;

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

/// The context of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The version of the request. OpenFlow 1.0's `mod_*` actions and `strip_vlan` are valid for packets
    /// without the field; later versions reject them.
    pub version: Version,
    /// The flow's table; `None` for a packet-out.
    pub table: Option<TableId>,
    /// The number of tables.
    pub tables: u8,
}

/// Checks the actions of a flow with this match: fields exist before they are read or written, ports are
/// valid, and `goto_table` leads to a later table.
///
/// # Errors
/// The first invalid action, with OpenFlow's error code.
pub fn check(actions: &[Action], matching: &Match, place: Place) -> Result<(), OfError> {
    let mut state = State { matching: matching.clone(), place, doubt: None };
    state.list(actions)?;
    nesting(actions, Outer::None)?;
    state.doubt.map_or(Ok(()), Err)
}

/// Checks the actions of a group's bucket, which any packet may reach: only their positions are checked.
///
/// # Errors
/// The first invalid action.
pub fn check_bucket(actions: &[Action]) -> Result<(), OfError> {
    nesting(actions, Outer::None)
}

/// The known properties of the packet as the actions change it.
struct State {
    matching: Match,
    place: Place,
    /// The first error that is reported only if there is no other.
    doubt: Option<OfError>,
}

fn inconsistent(what: &str, needs: impl std::fmt::Debug) -> OfError {
    let reason = format!("{what} needs packets that the match does not promise ({needs:?})");
    bad(ErrorCode::ActionMatchInconsistent, reason)
}

impl State {
    fn list(&mut self, actions: &[Action]) -> Result<(), OfError> {
        actions.iter().try_for_each(|action| self.action(action))
    }

    /// Actions on a copy, or in the action set, do not affect later actions.
    fn inner(&mut self, actions: &[Action]) -> Result<(), OfError> {
        let matching = self.matching.clone();
        let result = self.list(actions);
        self.matching = matching;
        result
    }

    fn action(&mut self, action: &Action) -> Result<(), OfError> {
        match action {
            Action::Output { port, .. } => output_port(*port),
            Action::OutputTrunc { port, .. } => output_port(*port),
            // Open vSwitch does not check whether packets have the field (`check_CHECK_PKT_LARGER`).
            Action::CheckPktLarger { .. } => Ok(()),
            Action::DeleteField(option) => deletable(option.field),
            Action::OutputReg { source, .. } => self.part("output", source),
            Action::Set { field, value, .. } => self.set(*field, *value),
            Action::Move { source, target, .. } => {
                self.part("move", source)?;
                self.part("move", target)
            }
            Action::StackPush(part) => self.part("push", part),
            Action::StackPop(part) => self.part("pop", part),
            Action::SetVlanVid(_) | Action::SetVlanPcp(_) => {
                self.tag();
                Ok(())
            }
            Action::PushVlan(_) => self.push_vlan(),
            Action::StripVlan => self.pop_vlan(),
            Action::SetIpv4Src(_) | Action::SetIpv4Dst(_) => {
                self.old("mod_nw_src/dst", Prerequisite::Ipv4);
                Ok(())
            }
            Action::SetIpDscp(_)
            | Action::SetIpEcn(_)
            | Action::SetIpTtl(_)
            | Action::DecTtl(_) => {
                self.old("an action on the IP header", Prerequisite::Ip);
                Ok(())
            }
            Action::SetTpSrc(_) | Action::SetTpDst(_) => {
                self.transport();
                Ok(())
            }
            Action::Resubmit { with_ct_orig: true, .. } => {
                self.need("resubmit(,,ct)", Prerequisite::Ct)
            }
            Action::Ct(ct) => self.ct(ct),
            Action::Nat(Some(range)) => self.nat(range),
            Action::Enqueue { port, .. } => enqueue_port(*port),
            Action::Learn(learn) => self.learn(learn),
            Action::Bundle(bundle) => self.bundle(bundle),
            Action::Multipath(multipath) => self.part("multipath", &multipath.target),
            Action::FinTimeout { .. } => {
                self.old("fin_timeout", Prerequisite::Tcp);
                Ok(())
            }
            Action::Clone(actions) => self.inner(actions),
            // The packets that execute an action set are not known here.
            Action::WriteActions(actions) => {
                let doubt = self.doubt.take();
                let checked = self.inner(actions);
                self.doubt = doubt;
                checked
            }
            Action::GotoTable(table) => self.goto(*table),
            other => {
                self.header(other);
                Ok(())
            }
        }
    }

    fn need(&self, what: &str, prerequisite: Prerequisite) -> Result<(), OfError> {
        if prerequisite.met_by(&self.matching) {
            return Ok(());
        }
        Err(inconsistent(what, prerequisite))
    }

    /// Checks a prerequisite that OpenFlow 1.0 does not require.
    fn old(&mut self, what: &str, prerequisite: Prerequisite) {
        let met = self.need(what, prerequisite);
        self.doubt_unless(met);
    }

    fn doubt_unless(&mut self, met: Result<(), OfError>) {
        if self.place.version != Version::V10 && self.doubt.is_none() {
            self.doubt = met.err();
        }
    }

    fn proto(&self) -> Proto {
        Proto::of(&self.matching)
    }

    /// Ports and ICMP types exist if any protocol that has them is matched.
    fn field(&self, what: &str, field: Field) -> Result<(), OfError> {
        let spec: Option<&Spec> = for_field(field, self.proto());
        match spec {
            Some(spec) => self.need(&format!("{what} of {}", spec.name), spec.prerequisite),
            None => Ok(()),
        }
    }

    fn part(&self, what: &str, part: &Subfield) -> Result<(), OfError> {
        self.field(what, part.field)
    }

    fn set(&mut self, field: Field, value: u128) -> Result<(), OfError> {
        self.field("set_field", field)?;
        if field == Field::VlanVidPresent && !self.proto().has_vlan {
            return Err(inconsistent("set_field of vlan_vid", Prerequisite::Vlan));
        }
        if field == Field::VlanTci {
            self.matching.wildcard(Field::VlanTci);
            self.matching.set_masked(Field::VlanTci, value, 0xffff);
        }
        Ok(())
    }

    /// Records that the packet has a tag.
    fn tag(&mut self) {
        let present = u128::from(VLAN_PRESENT);
        self.matching.set_masked(Field::VlanTci, present, present);
    }

    fn push_vlan(&mut self) -> Result<(), OfError> {
        let present = u128::from(VLAN_PRESENT);
        if self.matching.key().get(Field::VlanTci1) & present != 0 {
            return Err(bad(ErrorCode::ActionBadTag, "a third VLAN tag"));
        }
        let outer = self.matching.key().get(Field::VlanTci) & present;
        self.matching.set_masked(Field::VlanTci1, outer, outer);
        self.tag();
        Ok(())
    }

    fn pop_vlan(&mut self) -> Result<(), OfError> {
        self.old("strip_vlan", Prerequisite::Vlan);
        let inner = self.matching.key().get(Field::VlanTci1);
        self.matching.wildcard(Field::VlanTci);
        self.matching.wildcard(Field::VlanTci1);
        self.matching.set_masked(Field::VlanTci, inner, inner);
        Ok(())
    }

    fn transport(&mut self) {
        let proto = self.proto();
        let later = self.matching.key().nw_frag() & flow::FRAG_LATER != 0;
        let met = proto.is_ip()
            && matches!(proto.nw_proto, protocol::TCP | protocol::UDP | protocol::SCTP)
            && !later;
        let error = || inconsistent("mod_tp_src/dst", "TCP, UDP or SCTP");
        self.doubt_unless(if met { Ok(()) } else { Err(error()) });
    }

    fn ct(&mut self, ct: &Ct) -> Result<(), OfError> {
        let proto = self.proto();
        let invalid = self.matching.key().ct_state().contains(CtState::INV) && ct.commit;
        let alg_proto = match ct.alg {
            21 => 6,
            69 => 17,
            _ => proto.nw_proto,
        };
        if !proto.is_ip() || invalid || alg_proto != proto.nw_proto {
            return Err(inconsistent("ct", "IP, not ct_state=+inv, and the helper's protocol"));
        }
        if let ZoneSource::Field(part) = &ct.zone {
            self.part("ct(zone)", part)?;
        }
        ct_nesting(ct)?;
        self.inner(&ct.exec)
    }

    /// The learned flow's own match must satisfy the prerequisites of its fields.
    fn learn(&self, learn: &Learn) -> Result<(), OfError> {
        let mut learned = State { matching: Match::any(), place: self.place, doubt: None };
        for spec in &learn.specs {
            if let Some(part) = spec.read() {
                self.part("learn", &part)?;
            }
            match spec {
                LearnSpec::Match { source, target } => {
                    learned.part("learn", target)?;
                    if let LearnSource::Value(value) = source {
                        match_bits(&mut learned.matching, *target, *value);
                    }
                }
                LearnSpec::Load { target, .. } => learned.part("learn", target)?,
                LearnSpec::Output(_) => {}
            }
        }
        Ok(())
    }

    fn bundle(&self, bundle: &Bundle) -> Result<(), OfError> {
        for &member in bundle.members.iter().filter(|member| **member != OfPort::NONE) {
            if member == OfPort::CONTROLLER {
                let reason = "bundle: the controller can't be a member";
                return Err(bad(ErrorCode::ActionBadOutPort, reason));
            }
            output_port(member)?;
        }
        bundle.target.map_or(Ok(()), |target| self.part("bundle_load", &target))
    }

    fn nat(&self, range: &flow::NatRange) -> Result<(), OfError> {
        let eth_type = self.proto().eth_type;
        match range.addresses {
            Some((first, _)) if first.is_ipv4() != (eth_type == ethertype::IPV4) => {
                Err(inconsistent("nat", if first.is_ipv4() { "IPv4" } else { "IPv6" }))
            }
            _ => Ok(()),
        }
    }

    fn goto(&self, table: TableId) -> Result<(), OfError> {
        let back = self.place.table.is_some_and(|here| table <= here);
        if back || table.0 == 0xff || table.0 >= self.place.tables {
            let reason = format!("goto_table:{table} does not lead to a later table");
            return Err(bad(ErrorCode::InstructionBadTableId, reason));
        }
        Ok(())
    }
}

/// Only tunnel options can be deleted.
fn deletable(field: Field) -> Result<(), OfError> {
    if field.tun_metadata_index().is_some() {
        return Ok(());
    }
    let reason = format!("delete_field: {} is no option of a tunnel", field.name());
    Err(bad(ErrorCode::ActionBadArgument, reason))
}

/// Checks that the port can have queues: a physical port, IN_PORT or LOCAL.
fn enqueue_port(port: OfPort) -> Result<(), OfError> {
    if port.0 < OfPort::MAX.0 || matches!(port, OfPort::IN_PORT | OfPort::LOCAL) {
        return Ok(());
    }
    Err(bad(ErrorCode::ActionBadOutPort, format!("enqueue: port {port} has no queues")))
}

/// Checks that packets can be sent to a port with this number, real or reserved.
fn output_port(port: OfPort) -> Result<(), OfError> {
    match port {
        OfPort::NONE => Err(bad(ErrorCode::ActionBadOutPort, "output to no port (NONE, ANY)")),
        OfPort::UNSET => Err(bad(ErrorCode::ActionBadOutPort, "output to UNSET")),
        OfPort(0xff00..=0xfff6) => {
            Err(bad(ErrorCode::ActionBadOutPort, format!("there is no port {}", port.0)))
        }
        _ => Ok(()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outer {
    None,
    Ct,
}

/// Connection fields and `nat` may be written only within `ct(...)`, where nothing else is valid.
fn nesting(actions: &[Action], outer: Outer) -> Result<(), OfError> {
    for action in actions {
        let target = match action {
            Action::Set { field, .. } => Some(*field),
            Action::Move { target, .. } => Some(target.field),
            _ => None,
        };
        let of_ct = target.is_some_and(|field| matches!(field, Field::CtMark | Field::CtLabel));
        match outer {
            Outer::None if of_ct => {
                let reason = "ct_mark and ct_label are set only within ct(...)";
                return Err(bad(ErrorCode::ActionBadSetArgument, reason));
            }
            Outer::None if matches!(action, Action::Nat(_)) => {
                return Err(bad(ErrorCode::ActionBadSetArgument, "nat outside of ct(...)"));
            }
            Outer::Ct if !of_ct && !matches!(action, Action::Nat(_)) => {
                let reason = format!("{action:?} can't be part of ct(...)");
                return Err(bad(ErrorCode::ActionBadArgument, reason));
            }
            _ => {}
        }
        match action {
            Action::Ct(ct) => ct_nesting(ct)?,
            Action::Clone(inner) | Action::WriteActions(inner) => nesting(inner, Outer::None)?,
            _ => {}
        }
    }
    Ok(())
}

/// Checks the contents of `ct(...)`: everything except a plain `nat` requires `commit`.
pub(crate) fn ct_nesting(ct: &Ct) -> Result<(), OfError> {
    nesting(&ct.exec, Outer::Ct)?;
    if !ct.commit && ct.exec.iter().any(|action| *action != Action::Nat(None)) {
        let reason = "ct: actions other than nat without arguments need commit";
        return Err(bad(ErrorCode::ActionBadArgument, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::SetForm;
    use crate::oxm::by_name;

    fn set(name: &str, value: u128) -> Action {
        let spec = by_name(name).unwrap();
        let mask = spec.field.all_ones();
        Action::Set { field: spec.field, value, mask, form: SetForm::SetField }
    }

    #[test]
    fn fields_need_their_protocols() {
        let any = Match::any();
        let ip = Match::any().with(Field::EthType, 0x800);
        let tcp = ip.clone().with(Field::NwProto, 6);
        let packets = Match::any().with(Field::PacketType, 0x800);
        let ct = Action::Ct(Ct {
            commit: false,
            force: false,
            zone: ZoneSource::Immediate(1),
            table: Some(TableId(1)),
            alg: 0,
            exec: vec![],
        });
        let with_orig = Action::Resubmit { in_port: None, table: None, with_ct_orig: true };
        let state = |value, mask| ip.clone().with_masked(Field::CtState, value, mask);
        let part = |field| Subfield::new(field, 0, 16);
        let (port, reg) = (part(Field::TpDst), part(Field::Reg0));
        let learn = |source, target| {
            let spec = LearnSpec::Match { source: LearnSource::Field(source), target };
            Action::Learn(Box::new(Learn { specs: vec![spec], ..Learn::default() }))
        };
        let (valid, unseen, invalid) = (state(0x20, 0x34), state(0x20, 0x20), state(0x30, 0x30));
        let (related, only_related) = (state(0x24, 0x34), state(0x04, 0x04));
        let bad_code = Some(ErrorCode::ActionMatchInconsistent);
        let encap_nsh = Action::EncapNsh { header_bytes: 0, properties: vec![] };
        let encap_mpls = Action::EncapMpls { ethertype: 0x8847, header_bytes: 0 };
        let cases: &[(&[Action], &Match, Option<ErrorCode>)] = &[
            (&[set("ip_src", 1)], &any, bad_code),
            (&[set("ip_src", 1)], &ip, None),
            (&[set("tcp_dst", 1)], &ip, bad_code),
            (&[set("tcp_dst", 1)], &tcp, None),
            (&[set("vlan_vid", 0x1005)], &any, bad_code),
            (&[Action::PushVlan(0x8100), set("vlan_vid", 0x1005)], &any, None),
            (&[Action::SetVlanVid(5), set("vlan_pcp", 5)], &any, None),
            (&[Action::StripVlan], &any, bad_code),
            (&[Action::SetVlanVid(5), Action::StripVlan, set("vlan_pcp", 5)], &any, bad_code),
            (&[Action::SetTpDst(5)], &ip, bad_code),
            (&[Action::DecTtl(vec![0])], &ip, None),
            (std::slice::from_ref(&ct), &any, bad_code),
            (std::slice::from_ref(&ct), &ip, None),
            // ct_state=+trk-rel-inv, +rel-inv+trk, +rel, +trk and +trk+inv.
            (std::slice::from_ref(&with_orig), &valid, None),
            (std::slice::from_ref(&with_orig), &related, None),
            (std::slice::from_ref(&with_orig), &only_related, None),
            (std::slice::from_ref(&with_orig), &unseen, bad_code),
            (std::slice::from_ref(&with_orig), &invalid, bad_code),
            (&[Action::Decap(Action::NEXT_PROTOCOL), set("ip_src", 1)], &ip, None),
            (&[Action::Decap(Action::NEXT_PROTOCOL), set("eth_src", 1)], &ip, bad_code),
            (&[Action::Decap(Action::NEXT_PROTOCOL), set("ip_src", 1)], &packets, bad_code),
            (&[set("ip_src", 1)], &packets, None),
            (&[set("eth_src", 1)], &packets, bad_code),
            (&[Action::EncapEthernet { header_bytes: 0 }, set("eth_src", 1)], &packets, None),
            (&[Action::PushMpls(0x8847), set("mpls_label", 5)], &ip, None),
            (&[Action::PushMpls(0x8847), set("ip_src", 1)], &ip, bad_code),
            (&[Action::PushMpls(0x8847), Action::PopMpls(0x800), set("ip_src", 1)], &any, None),
            (
                &[Action::PushMpls(0x8847), Action::PopMpls(0x800), set("tcp_dst", 1)],
                &tcp,
                bad_code,
            ),
            (&[Action::PushMpls(0x8847)], &packets, bad_code),
            (&[Action::PopMpls(0x800)], &ip, bad_code),
            (&[Action::SetMplsTtl(5)], &ip, bad_code),
            (&[Action::DecMplsTtl], &Match::any().with(Field::EthType, 0x8848), None),
            (&[encap_nsh.clone(), set("nsh_spi", 1), Action::DecNshTtl], &ip, None),
            (&[encap_nsh.clone(), set("ip_src", 1)], &ip, bad_code),
            (&[encap_nsh.clone(), set("eth_src", 1)], &ip, bad_code),
            (&[encap_mpls.clone(), Action::PopMpls(0x800)], &ip, bad_code),
            (&[encap_mpls.clone(), set("mpls_tc", 1)], &ip, None),
            (&[Action::DecNshTtl], &ip, bad_code),
            (&[set("ct_mark", 1)], &ip, Some(ErrorCode::ActionBadSetArgument)),
            (&[Action::FinTimeout { idle_s: 1, hard_s: 1 }], &ip, bad_code),
            (&[Action::FinTimeout { idle_s: 1, hard_s: 1 }], &tcp, None),
            (&[learn(port, port)], &ip, bad_code),
            (&[learn(port, port)], &tcp, bad_code),
            (&[learn(port, reg)], &tcp, None),
            (&[Action::GotoTable(TableId(3))], &ip, Some(ErrorCode::InstructionBadTableId)),
            (&[Action::GotoTable(TableId(4))], &ip, None),
            (
                &[Action::Output { port: OfPort(0xff00), max_len: 0 }],
                &ip,
                Some(ErrorCode::ActionBadOutPort),
            ),
            (
                &[Action::Output { port: OfPort::NONE, max_len: 0 }],
                &ip,
                Some(ErrorCode::ActionBadOutPort),
            ),
        ];
        for (actions, matching, expect) in cases {
            let place = Place { version: Version::V13, table: Some(TableId(3)), tables: 254 };
            let got = check(actions, matching, place);
            assert_eq!(got.as_ref().err().map(|error| error.code), *expect, "{actions:?}: {got:?}");
        }
    }
}
