//! Random messages that the version can express completely.

use base::{DatapathId, MacAddr, OfPort, PortNo, TableId};
use flow::{Field, Match, NatKind, NatRange, OptionMatch, PortSelection, Wide};
use openflow::action::{
    Action, Bundle, BundleAlgorithm, Conjunction, Ct, HashFields, Learn, LearnSource, LearnSpec,
    Multipath, MultipathAlgorithm, NshProperty, ObservationId, Sample, SampleDirection, SetForm,
    SetOption, Subfield, ToController, ZoneSource,
};
use openflow::message::*;
use openflow::{DecodeOptions, EncodeOptions, ErrorCode, Message, Place, Version, decode, encode};
use std::num::{NonZeroU16, NonZeroU32};

pub struct Generate {
    state: u64,
    version: Version,
    /// Whether actions are made that Open vSwitch 3.1 does not know.
    newest: bool,
}

impl Generate {
    pub fn new(seed: u64, version: Version) -> Self {
        Generate { state: seed, version, newest: true }
    }

    /// Leaves out actions that Open vSwitch 3.1 does not know.
    #[allow(dead_code)] // not by every test
    pub fn known_to_3_1(self) -> Self {
        Generate { newest: false, ..self }
    }

    /// SplitMix64
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn often(&mut self) -> bool {
        self.below(3) == 0
    }

    fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    fn v10(&self) -> bool {
        self.version == Version::V10
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    fn port(&mut self) -> OfPort {
        match self.below(4) {
            0 => OfPort::LOCAL,
            _ => OfPort(1 + self.below(0xfeff) as u16),
        }
    }

    fn masked(&mut self, matching: &mut Match, field: Field) {
        if self.often() {
            let mask = if self.often() { self.wide() } else { u128::MAX };
            matching.set_masked(field, self.wide(), mask);
        }
    }

    fn exact(&mut self, matching: &mut Match, field: Field) {
        if self.often() {
            matching.set_masked(field, self.wide(), u128::MAX);
        }
    }

    /// MPLS or NSH.
    fn header(&mut self, m: &mut Match) {
        use Field as F;
        if self.often() {
            m.set_masked(F::EthType, 0x8847 + u128::from(self.below(2)), u128::MAX);
            for field in [F::MplsLabel, F::MplsTc, F::MplsTtl, F::MplsBos] {
                self.exact(m, field);
            }
            return;
        }
        m.set_masked(F::EthType, 0x894f, u128::MAX);
        m.set_masked(F::NshMdtype, 1, u128::MAX);
        self.masked(m, F::NshFlags);
        for field in [F::NshNp, F::NshSpi, F::NshSi] {
            self.exact(m, field);
        }
        if self.often() {
            m.set_masked(F::NshTtl, self.below(64).into(), u128::MAX);
        }
        for field in [F::NshC1, F::NshC2, F::NshC3, F::NshC4] {
            self.masked(m, field);
        }
    }

    /// A match that OpenFlow 1.1's fixed format can express.
    fn matching11(&mut self) -> Match {
        let mut m = Match::any();
        for field in [Field::Metadata, Field::EthSrc, Field::EthDst] {
            self.masked(&mut m, field);
        }
        if self.often() {
            m.set_masked(Field::InPort, self.port().0.into(), u128::MAX);
        }
        self.vlan(&mut m);
        if self.often() {
            m.set_masked(Field::EthType, 0x0800, u128::MAX);
            self.masked(&mut m, Field::Ipv4Src);
            self.exact(&mut m, Field::IpDscp);
            m.set_masked(Field::NwProto, 17, 0xff);
            self.exact(&mut m, Field::TpDst);
        }
        m
    }

    pub fn matching(&mut self) -> Match {
        use Field as F;
        if self.version == Version::V11 {
            return self.matching11();
        }
        let mut m = Match::any();
        for field in [
            F::Metadata,
            F::Reg0,
            F::Reg5,
            F::Reg15,
            F::TunId,
            F::TunGbpId,
            F::TunErspanIdx,
            F::TunGtpuMsgtype,
            F::PktMark,
            F::CtMark,
            F::CtLabel,
            F::EthSrc,
            F::EthDst,
        ] {
            self.masked(&mut m, field);
        }
        let mut fork = self.fork();
        for index in [0, 63] {
            if fork.often() {
                m.set_option(fork.option(index));
            }
        }
        self.exact(&mut m, F::CtZone);
        if self.often() {
            m.set_masked(F::InPort, self.port().0.into(), u128::MAX);
        }
        if self.often() {
            m.set_masked(F::CtState, (self.next() & 0xff).into(), (self.next() & 0xff).into());
        }
        self.vlan(&mut m);
        match self.below(5) {
            0 => self.arp(&mut m),
            1 => self.ip(&mut m, 0x0800),
            2 => self.ip(&mut m, 0x86dd),
            3 => self.header(&mut m),
            _ => {}
        }
        let packet_type = m.key().get(F::EthType);
        let in_frames = [F::EthSrc, F::EthDst, F::VlanTci].iter().any(|it| m.mask().has(*it));
        if packet_type != 0 && !in_frames && self.often() {
            // The same packets without an Ethernet header.
            m.wildcard(F::EthType);
            m.set_masked(F::PacketType, packet_type, u128::MAX);
        }
        m
    }

    fn vlan(&mut self, m: &mut Match) {
        match self.below(5) {
            0 => m.set_masked(Field::VlanTci, 0, 0xffff),
            1 => m.set_masked(Field::VlanTci, 0x1000 | u128::from(self.below(4096)), 0x1fff),
            2 => m.set_masked(Field::VlanTci, u128::from(self.next()) & 0xffff | 0x1000, 0xffff),
            _ => return,
        }
        if m.key().vlan_tci() == 0 && self.version >= Version::V12 {
            // OXM expresses "no tag" with 13 bits.
            m.wildcard(Field::VlanTci);
            m.set_masked(Field::VlanTci, 0, 0x1fff);
        }
    }

    fn arp(&mut self, m: &mut Match) {
        m.set_masked(Field::EthType, 0x0806, u128::MAX);
        for field in [Field::ArpSpa, Field::ArpTpa, Field::ArpSha, Field::ArpTha] {
            self.masked(m, field);
        }
        self.exact(m, Field::ArpOp);
    }

    fn ip(&mut self, m: &mut Match, eth_type: u16) {
        use Field as F;
        let v4 = eth_type == 0x0800;
        m.set_masked(F::EthType, eth_type.into(), u128::MAX);
        let fields = if v4 { [F::Ipv4Src, F::Ipv4Dst] } else { [F::Ipv6Src, F::Ipv6Dst] };
        fields.into_iter().for_each(|field| self.masked(m, field));
        if !v4 {
            self.masked(m, F::Ipv6Label);
        }
        for field in [F::IpDscp, F::IpEcn, F::NwTtl] {
            self.exact(m, field);
        }
        let proto = [6u8, 17, 132, if v4 { 1 } else { 58 }, 47][self.below(5) as usize];
        m.set_masked(F::NwProto, proto.into(), u128::MAX);
        match proto {
            6 | 17 | 132 => {
                self.masked(m, F::TpSrc);
                self.masked(m, F::TpDst);
                if proto == 6 {
                    self.masked(m, F::TcpFlags);
                }
            }
            1 => m.set_masked(F::TpSrc, self.below(256).into(), 0xffff),
            58 => {
                m.set_masked(F::TpSrc, 135, 0xffff);
                m.set_masked(F::TpDst, 0, 0xffff);
                self.masked(m, F::NdTarget);
                self.masked(m, F::NdSll);
                self.exact(m, F::NdReserved);
                self.exact(m, F::NdOptionsType);
            }
            _ => {}
        }
        if self.often() {
            m.set_masked(F::CtState, 0x22, 0x22);
            let fields = if v4 { [F::CtNwSrc, F::CtNwDst] } else { [F::CtIpv6Src, F::CtIpv6Dst] };
            fields.into_iter().for_each(|field| self.masked(m, field));
            m.set_masked(F::CtNwProto, 6, 0xff);
            self.masked(m, F::CtTpDst);
        }
    }

    /// A separate generator, which leaves the sequence of this one unchanged.
    fn fork(&self) -> Generate {
        Generate { state: !self.state, ..*self }
    }

    fn on_option(&mut self) -> Action {
        let part = |generate: &mut Self, field, bits| {
            Subfield::new(field, generate.below(900) as u32, bits)
        };
        match self.below(3) {
            0 => Action::DeleteField(Subfield::whole(Field::TunMetadata3)),
            1 => {
                let OptionMatch { index, len, value, mask, .. } = self.option(5);
                // Before OpenFlow 1.5 its only form is Nicira's, or OpenFlow's without a mask.
                let is_set_field = self.version == Version::V15;
                let form = if is_set_field { SetForm::SetField } else { SetForm::Load2 };
                Action::SetOption(Box::new(SetOption { index, len, value, mask, form }))
            }
            _ => {
                let bits = 1 + self.below(64) as u32;
                let source = part(self, Field::TunMetadata1, bits);
                let is_copy = self.version == Version::V15;
                Action::Move { source, target: part(self, Field::TunMetadata62, bits), is_copy }
            }
        }
    }

    /// A match on a tunnel option with a mask that is not equivalent to none.
    fn option(&mut self, index: u8) -> OptionMatch {
        let value = Wide::from(self.wide() & !1).shift_left(self.below(860) as u32);
        match self.below(3) {
            0 => OptionMatch::new(index, value, value | Wide::from(self.wide() & !1)),
            _ => OptionMatch::new(index, value, Wide::ONES),
        }
    }

    fn subfield(&mut self) -> Subfield {
        let field =
            [Field::Reg1, Field::Xreg3, Field::Metadata, Field::EthSrc][self.below(4) as usize];
        let bits = 1 + self.below(field.bits().min(64).into()) as u32;
        let offset = self.below(u64::from(field.bits() - bits) + 1) as u32;
        Subfield::new(field, offset, bits)
    }

    fn set(&mut self) -> Action {
        let field =
            [Field::Reg2, Field::TunId, Field::EthDst, Field::Metadata][self.below(4) as usize];
        if self.version == Version::V15 || self.version >= Version::V12 && self.often() {
            let masked = self.version == Version::V15 && self.often();
            let mask = if masked { self.wide() & field.all_ones() | 1 } else { field.all_ones() };
            return Action::Set { field, value: self.wide() & mask, mask, form: SetForm::SetField };
        }
        let part = Subfield::whole(field);
        let mask = part.mask() & 0xffff_ff00;
        Action::Set { field, value: self.wide() & mask, mask, form: SetForm::Load }
    }

    fn nat(&mut self) -> Option<NatRange> {
        if self.often() {
            return None;
        }
        let first = std::net::Ipv4Addr::from(1 + self.below(1000) as u32);
        let last = std::net::Ipv4Addr::from(u32::from(first) + self.below(3) as u32);
        let low = 1 + self.below(60000) as u16;
        let addresses = self.often().then_some((first.into(), last.into()));
        Some(NatRange {
            kind: if self.often() { NatKind::Src } else { NatKind::Dst },
            addresses,
            ports: addresses.filter(|_| self.often()).map(|_| (low, low + 5)),
            selection: [PortSelection::Default, PortSelection::Hash, PortSelection::Random]
                [self.below(3) as usize],
            persistent: addresses.is_some() && self.often(),
        })
        .map(|range| match range.addresses {
            // Flags without addresses are encoded, but not printed.
            None => NatRange { selection: PortSelection::Default, ..range },
            Some(_) => range,
        })
    }

    fn ct(&mut self) -> Action {
        let commit = self.often();
        let mut exec = Vec::new();
        if self.often() {
            exec.push(Action::Nat(if commit { self.nat() } else { None }));
        }
        if commit && self.often() {
            let form = if self.version == Version::V15 { SetForm::SetField } else { SetForm::Load };
            exec.push(Action::Set { field: Field::CtMark, value: 5, mask: u32::MAX.into(), form });
        }
        Action::Ct(Ct {
            commit,
            force: commit && self.often(),
            zone: if self.often() {
                ZoneSource::Field(Subfield::new(Field::Reg3, 16, 16))
            } else {
                ZoneSource::Immediate(self.next() as u16)
            },
            table: self.often().then(|| TableId(self.below(254) as u8)),
            alg: [0, 21, 69][self.below(3) as usize],
            exec,
        })
    }

    fn learn(&mut self) -> Action {
        let field = |source| LearnSource::Field(source);
        let mut specs = Vec::new();
        for _ in 0..self.below(4) {
            let source = self.subfield();
            let target = Subfield { field: Field::Xxreg1, ..source };
            let value = LearnSource::Value(self.wide() & (target.mask() >> target.offset));
            specs.push(match self.below(5) {
                0 => LearnSpec::Match { source: field(source), target },
                1 => LearnSpec::Match { source: value, target },
                2 => LearnSpec::Load { source: field(source), target },
                3 => LearnSpec::Load { source: value, target },
                _ => LearnSpec::Output(source),
            });
        }
        let result = Subfield { bits: 1, ..self.subfield() };
        Action::Learn(Box::new(Learn {
            idle_timeout_s: self.next() as u16,
            hard_timeout_s: 0,
            fin_idle_timeout_s: 0,
            fin_hard_timeout_s: self.next() as u16,
            priority: self.next() as u16,
            cookie: self.next(),
            table: TableId(self.below(254) as u8),
            send_flow_rem: self.often(),
            delete_learned: self.often(),
            limit: if self.often() { self.next() as u32 } else { 0 },
            result: self.often().then_some(result),
            specs,
        }))
    }

    fn bundle(&mut self) -> Action {
        let target = Subfield::new(Field::Reg1, 4, 16);
        Action::Bundle(Box::new(Bundle {
            algorithm: [BundleAlgorithm::ActiveBackup, BundleAlgorithm::HighestRandomWeight]
                [self.below(2) as usize],
            fields: HashFields::from_number(self.below(7) as u16).unwrap(),
            basis: self.next() as u16,
            target: self.often().then_some(target),
            members: (0..self.below(5)).map(|_| self.port()).collect(),
        }))
    }

    fn multipath(&mut self) -> Action {
        Action::Multipath(Multipath {
            fields: HashFields::from_number(self.below(7) as u16).unwrap(),
            basis: self.next() as u16,
            algorithm: MultipathAlgorithm::from_number(self.below(4) as u16).unwrap(),
            max_link: self.below(16) as u16,
            arg: self.next() as u32,
            target: Subfield::new(Field::Reg1, 0, 4),
        })
    }

    fn queues(&mut self) -> Message {
        let request = QueueRequest { port: self.port(), queue: self.often().then_some(4) };
        let id = QueueId { port: self.port(), queue: self.next() as u32 };
        let v14 = self.version >= Version::V14;
        match self.below(4) {
            0 => Message::StatsRequest(StatsRequest::Queue(request)),
            1 if v14 => Message::StatsRequest(StatsRequest::QueueDesc(request)),
            1 => Message::QueueConfigRequest { port: request.port },
            2 if v14 => Message::StatsReply(StatsReply::QueueDesc(vec![id, id])),
            2 => Message::QueueConfigReply { port: request.port, queues: vec![id.queue, 7] },
            _ => {
                let has_duration = self.version >= Version::V13 && self.often();
                let duration_ns = has_duration.then(|| self.below(1 << 50));
                let counters = [None, Some(self.below(1 << 50)), Some(5)];
                let stats = QueueStats { id, counters, duration_ns };
                Message::StatsReply(StatsReply::Queue(vec![stats, stats]))
            }
        }
    }

    fn action(&mut self, depth: u32) -> Action {
        match self.below(30) {
            0 => Action::Output { port: self.port(), max_len: 0 },
            1 => Action::Output { port: OfPort::CONTROLLER, max_len: self.next() as u16 },
            2 => Action::OutputReg { source: self.subfield(), max_len: u16::MAX },
            3 => Action::Controller(ToController {
                max_len: self.next() as u16,
                controller_id: 1 + self.below(1000) as u16,
                reason: self.below(3) as u8,
                userdata: self.bytes(5),
                pause: self.often(),
                meter: NonZeroU32::new(self.below(3) as u32 * 7),
            }),
            4 | 5 => self.set(),
            6 => {
                let source = self.subfield();
                let target = Subfield { field: Field::Xxreg1, ..source };
                let is_copy = self.version == Version::V15;
                Action::Move { source, target, is_copy }
            }
            7 => Action::StackPush(self.subfield()),
            8 => Action::StackPop(self.subfield()),
            9 => Action::Resubmit {
                in_port: self.often().then(|| self.port()),
                table: Some(TableId(self.below(254) as u8)),
                with_ct_orig: self.often(),
            },
            10 | 11 => self.ct(),
            12 if depth > 0 => Action::Clone((0..3).map(|_| self.action(depth - 1)).collect()),
            12 => Action::CtClear,
            13 => Action::Note(self.bytes(6)),
            20 => Action::SetQueue(self.next() as u32),
            21 => Action::PopQueue,
            22 if self.v10() => Action::Enqueue { port: self.port(), queue: self.next() as u32 },
            23 => Action::OutputTrunc { port: self.port(), max_len: 14 + self.below(9000) as u32 },
            24 => {
                let bytes = self.next() as u16;
                Action::CheckPktLarger { bytes, target: Subfield { bits: 1, ..self.subfield() } }
            }
            25 => self.fork().on_option(),
            26 if self.version >= Version::V13 => Action::EncapEthernet { header_bytes: 0 },
            27 if self.version >= Version::V13 => {
                let packet_type = [Action::NEXT_PROTOCOL, 1 << 16 | 0x0800, 0];
                Action::Decap(packet_type[self.below(3) as usize])
            }
            28 if self.version >= Version::V13 => self.encap(),
            29 => match self.below(if self.version < Version::V12 { 6 } else { 4 }) {
                0 => Action::PushMpls(0x8847 + self.below(2) as u16),
                1 => Action::PopMpls(self.next() as u16),
                2 => Action::SetMplsTtl(self.next() as u8),
                3 => Action::DecMplsTtl,
                4 => Action::SetMplsLabel(self.below(1 << 20) as u32),
                _ => Action::SetMplsTc(self.below(8) as u8),
            },
            14 => self.learn(),
            15 => self.bundle(),
            16 if self.often() => self.sample(),
            16 => self.multipath(),
            17 => Action::FinTimeout { idle_s: 1 + self.below(9) as u16, hard_s: 0 },
            18 => Action::Group(self.below(GROUP_MAX.into()) as u32),
            _ if self.often() => Action::DecTtl(vec![3, 4]),
            _ if self.often() => Action::StripVlan,
            _ => Action::Exit,
        }
    }

    fn sample(&mut self) -> Action {
        let id = |it: &mut Self| match it.newest && it.often() {
            true => {
                let part = it.subfield();
                ObservationId::Field(Subfield { bits: part.bits.min(32), ..part })
            }
            false => ObservationId::Immediate(it.next() as u32),
        };
        Action::Sample(Box::new(Sample {
            probability: NonZeroU16::MIN.saturating_add(self.next() as u16),
            collector_set: self.next() as u32,
            domain: id(self),
            point: id(self),
            port: if self.often() { OfPort::NONE } else { self.port() },
            direction: match self.below(3) {
                0 => SampleDirection::Unspecified,
                1 => SampleDirection::Ingress,
                _ => SampleDirection::Egress,
            },
        }))
    }

    fn encap(&mut self) -> Action {
        let (header_bytes, ethertype) = (self.below(9) as u16, 0x8847 + self.below(2) as u16);
        let mut properties = Vec::new();
        if self.often() {
            properties.push(NshProperty::MdType(1 + self.below(2) as u8));
        }
        for _ in 0..self.below(3) {
            let (class, kind, len) = (self.next() as u16, self.next() as u8, self.below(20));
            let value = self.bytes(1 + len as usize);
            properties.push(NshProperty::Tlv { class, kind, value });
        }
        match self.below(3) {
            0 => Action::EncapMpls { ethertype, header_bytes },
            1 => Action::DecNshTtl,
            _ => Action::EncapNsh { header_bytes, properties },
        }
    }

    fn actions(&mut self) -> Vec<Action> {
        let count = self.below(6);
        (0..count).map(|_| self.action(2)).collect()
    }

    fn flow_actions(&mut self) -> Vec<Action> {
        if self.below(8) == 0 {
            let clauses = 2 + self.below(63) as u8;
            let clause = self.below(clauses.into()) as u8;
            return vec![Action::Conjunction(Conjunction { id: 7, clause, clauses })];
        }
        let mut actions = self.actions();
        if !self.v10() {
            if self.often() {
                actions.push(Action::ClearActions);
            }
            if self.often() {
                actions.push(Action::WriteActions(vec![
                    self.set(),
                    Action::Output { port: self.port(), max_len: 0 },
                ]));
            }
            if self.often() {
                actions.push(Action::WriteMetadata { value: self.next(), mask: self.next() });
            }
            if self.often() {
                actions.push(Action::GotoTable(TableId(9)));
            }
        }
        actions
    }

    pub fn flow_mod(&mut self) -> FlowMod {
        use FlowModCommand as C;
        let command = [C::Add, C::Modify, C::ModifyStrict, C::Delete, C::DeleteStrict]
            [self.below(5) as usize];
        let add = command == C::Add;
        let mask = if add { 0 } else { self.next() };
        FlowMod {
            command,
            matching: self.matching(),
            priority: self.next() as u16,
            cookie: self.next() & mask,
            cookie_mask: mask,
            new_cookie: if add || self.v10() { self.next() } else { u64::MAX },
            modify_cookie: self.v10(),
            table: Some(TableId(self.below(254) as u8)),
            idle_timeout_s: self.next() as u16,
            hard_timeout_s: self.next() as u16,
            importance: if add && self.version >= Version::V14 { self.next() as u16 } else { 0 },
            buffer_id: self.often().then_some(5),
            out_port: self.port(),
            out_group: (!self.v10() && command.is_delete()).then_some(7),
            flags: match (self.version, add) {
                (Version::V10 | Version::V11, true) => {
                    FlowFlags::SEND_FLOW_REM | FlowFlags::RESET_COUNTS
                }
                (Version::V10 | Version::V11, false) => FlowFlags::CHECK_OVERLAP,
                (Version::V12, _) => FlowFlags::from_bits_truncate(self.next() as u16 & 7),
                _ => FlowFlags::from_bits_truncate(self.next() as u16),
            },
            actions: self.flow_actions(),
        }
    }

    /// A flow-mod whose instructions are at any position in the list.
    pub fn unordered_flow_mod(&mut self) -> FlowMod {
        let mut flow_mod = self.flow_mod();
        flow_mod.command = FlowModCommand::Add;
        (flow_mod.cookie, flow_mod.cookie_mask, flow_mod.out_group) = (0, 0, None);
        for _ in 0..self.below(3) {
            let instruction = match self.below(3) {
                0 => Action::GotoTable(TableId(254)),
                _ => Action::WriteMetadata { value: self.next(), mask: self.next() },
            };
            let at = self.below(flow_mod.actions.len() as u64 + 1) as usize;
            flow_mod.actions.insert(at, instruction);
        }
        flow_mod
    }

    pub fn flow(&mut self) -> FlowStatsEntry {
        let (v10, v15) = (self.v10(), self.version == Version::V15);
        FlowStatsEntry {
            table: TableId(self.below(254) as u8),
            matching: self.matching(),
            priority: self.next() as u16,
            cookie: self.next(),
            duration_ns: self.below(1 << 50),
            idle_timeout_s: self.next() as u16,
            hard_timeout_s: self.next() as u16,
            idle_age_s: if v10 || v15 { self.below(60000) } else { 0 },
            hard_age_s: if v10 { self.below(60000) } else { 0 },
            importance: if self.version >= Version::V14 { self.next() as u16 } else { 0 },
            flags: if self.version < Version::V13 {
                FlowFlags::empty()
            } else {
                FlowFlags::from_bits_truncate(self.next() as u16)
            },
            packets: self.next(),
            bytes: self.next(),
            actions: self.flow_actions(),
        }
    }

    fn flow_removed(&mut self) -> Message {
        let v10 = self.v10();
        let flow = FlowStatsEntry {
            hard_timeout_s: if v10 { 0 } else { 9 },
            idle_age_s: 0,
            hard_age_s: 0,
            importance: 0,
            flags: FlowFlags::empty(),
            actions: vec![],
            ..self.flow()
        };
        Message::FlowRemoved { flow, reason: RemovedReason::HardTimeout, nicira: v10 }
    }

    fn port_desc(&mut self) -> PortDesc {
        PortDesc {
            port: self.port(),
            mac: MacAddr::from_u64(self.next()),
            name: "veth0".to_owned(),
            config: PortConfig::PORT_DOWN | PortConfig::NO_FWD,
            link_down: self.often(),
            live: !self.v10() && self.often(),
            current: 0x840,
            speed_kbps: 10_000_000,
        }
    }

    fn request(&mut self) -> FlowStatsRequest {
        let mask = self.next();
        FlowStatsRequest {
            matching: self.matching(),
            table: self.often().then_some(TableId(4)),
            out_port: self.port(),
            out_group: (!self.v10() && self.often()).then_some(7),
            cookie: self.next() & mask,
            cookie_mask: mask,
        }
    }

    fn flow_monitor(&mut self) -> FlowMonitor {
        use FlowMonitorCommand as C;
        let v14 = self.version >= Version::V14;
        let mut flags = FlowMonitorFlags::from_bits_truncate(self.next() as u16);
        flags.insert(FlowMonitorFlags::REMOVED);
        let request = self.request();
        FlowMonitor {
            id: self.next() as u32,
            command: if v14 { [C::Add, C::Modify][self.below(2) as usize] } else { C::Add },
            flags,
            flows: FlowStatsRequest {
                out_group: request.out_group.filter(|_| v14),
                cookie: 0,
                cookie_mask: 0,
                ..request
            },
        }
    }

    fn flow_updates(&mut self) -> Message {
        // Nicira's format has no instructions.
        let is_nicira = self.version < Version::V13;
        let events = [
            if self.version < Version::V14 { FlowEvent::Added } else { FlowEvent::Initial },
            FlowEvent::Added,
            FlowEvent::Removed(RemovedReason::HardTimeout),
            FlowEvent::Modified,
        ];
        let mut updates = vec![FlowUpdate::Abbreviated { xid: self.next() as u32 }];
        for event in events {
            let flow = WatchedFlow {
                table: TableId(self.below(254) as u8),
                matching: self.matching(),
                priority: self.next() as u16,
                cookie: self.next(),
                idle_timeout_s: self.next() as u16,
                hard_timeout_s: self.next() as u16,
                actions: if is_nicira { self.actions() } else { self.flow_actions() },
            };
            updates.push(FlowUpdate::Flow { event, flow: Box::new(flow) });
        }
        Message::StatsReply(StatsReply::FlowMonitor(updates))
    }

    fn packet_in(&mut self) -> Message {
        let table = self.often().then_some(TableId(7));
        Message::PacketIn(PacketIn {
            data: self.bytes(61),
            total_len: self.next() as u16,
            reason: self.below(3) as u8,
            table,
            cookie: self.next(),
            metadata: Match::any().with(Field::InPort, self.port().0.into()).with(Field::Reg1, 77),
            userdata: self.bytes(3),
            continuation: self.often().then(|| Box::new(self.continuation())),
        })
    }

    /// Its actions are those of OpenFlow 1.3 or later, in which the switch writes those of older controllers.
    fn continuation(&mut self) -> Continuation {
        let version = self.version;
        self.version = version.max(Version::V13);
        let continuation = self.newer_continuation();
        self.version = version;
        continuation
    }

    fn newer_continuation(&mut self) -> Continuation {
        let part = |generate: &mut Self| ContinuedActions {
            table: TableId(generate.below(254) as u8),
            cookie: generate.next(),
            actions: vec![generate.action(1), Action::Exit],
        };
        Continuation {
            bridge: self.wide(),
            stack: (0..self.below(3)).map(|_| self.wide().into()).collect(),
            mirrors: self.below(4) as u32,
            conntracked: self.often(),
            rest: (0..self.below(3)).map(|_| part(self)).collect(),
            action_set: if self.often() { vec![Action::StripVlan] } else { vec![] },
            port: PortNo(self.below(9) as u32),
        }
    }

    fn bundle_add(&mut self) -> Message {
        let message = Message::FlowMod(self.flow_mod());
        let mut bytes = openflow::encode(self.version, 77, &message, &Default::default());
        Message::BundleAdd {
            bundle: 1,
            flags: 3,
            xid: 77,
            message: Box::new(message),
            bytes: bytes.remove(0),
        }
    }

    pub fn message(&mut self) -> Message {
        let nicira = self.v10();
        match self.below(39) {
            0..=6 => Message::FlowMod(self.flow_mod()),
            7 => Message::StatsReply(StatsReply::Flow {
                flows: vec![self.flow(), self.flow()],
                nicira,
            }),
            8 => self.flow_removed(),
            9 => Message::PortStatus { reason: PortReason::Modify, port: self.port_desc() },
            10 => Message::StatsRequest(StatsRequest::Flow { request: self.request(), nicira }),
            11 => {
                Message::StatsRequest(StatsRequest::Aggregate { request: self.request(), nicira })
            }
            12 => Message::StatsReply(StatsReply::Aggregate {
                packets: self.next(),
                bytes: self.next(),
                flows: 5,
                nicira,
            }),
            13 => self.packet_in(),
            14 => Message::PacketOut(PacketOut {
                buffer_id: None,
                metadata: Match::any().with(Field::InPort, self.port().0.into()),
                actions: self.actions(),
                data: self.bytes(60),
            }),
            15 if self.version >= Version::V13 => self.bundle_add(),
            16 if self.version >= Version::V13 => {
                Message::BundleControl { bundle: 9, control: 4, flags: 2 }
            }
            17 => {
                // Only from 1.4 on can masks be omitted.
                let left_out = self.version >= Version::V14;
                Message::SetAsync(AsyncMasks {
                    packet_in: [(!left_out).then_some(1), Some(2)],
                    port_status: [Some(3), Some(4)],
                    flow_removed: [Some(5), Some(6)],
                    table_status: if left_out { [Some(8), Some(24)] } else { [None; 2] },
                    request_forward: if left_out { [Some(3), None] } else { [None; 2] },
                })
            }
            18 => Message::RoleRequest { role: Role::Equal, generation: None },
            19 => Message::StatsReply(StatsReply::PortDesc(vec![self.port_desc()])),
            20 => Message::StatsReply(StatsReply::Port(vec![PortStats {
                port: self.port(),
                counters: [
                    Some(1),
                    None,
                    Some(3),
                    Some(4),
                    None,
                    Some(6),
                    Some(7),
                    Some(8),
                    None,
                    Some(1),
                    Some(2),
                    Some(3),
                ],
                duration_ns: if self.version < Version::V13 { 0 } else { self.below(1 << 50) },
            }])),
            21 => Message::FeaturesReply {
                datapath_id: DatapathId(self.next()),
                buffers: 0,
                tables: 254,
                auxiliary_id: 0,
                ports: if self.version < Version::V13 { vec![self.port_desc()] } else { vec![] },
            },
            22 => Message::Error { code: ErrorCode::MatchBadPrereq, data: self.bytes(64) },
            23 if self.often() => Message::CtFlush(Box::new(self.ct_flush())),
            23 => self.tlv_table(),
            24 => self.queues(),
            25 if self.version >= Version::V11 => Message::TableMod(self.table_mod()),
            26 if self.version >= Version::V14 => {
                Message::TableStatus { reason: TableReason::VacancyUp, desc: self.table_desc() }
            }
            27 if self.version >= Version::V14 => Message::StatsReply(StatsReply::TableDesc(vec![
                self.table_desc(),
                self.table_desc(),
            ])),
            28 => Message::StatsRequest(StatsRequest::FlowMonitor(vec![
                self.flow_monitor(),
                self.flow_monitor(),
            ])),
            29 => self.flow_updates(),
            // From 1.4 on it is a statistics request.
            30 if self.version < Version::V14 => Message::FlowMonitorCancel(self.next() as u32),
            31 => Message::StatsReply(StatsReply::FlowMonitor(vec![if self.often() {
                FlowUpdate::Paused
            } else {
                FlowUpdate::Resumed
            }])),
            32 if self.version >= Version::V13 => {
                Message::StatsRequest(StatsRequest::TableFeatures {
                    tables: (0..3).map(|table| self.table_features(table)).collect(),
                    more: self.often(),
                })
            }
            33 if self.version >= Version::V13 => Message::RoleStatus {
                role: Role::Secondary,
                reason: self.below(2) as u8,
                generation: self.often().then(|| self.next()),
            },
            34 | 35 => Message::GroupMod(Box::new(self.group_mod())),
            36 => {
                let GroupMod { group, kind, buckets, selection, .. } = self.added_group();
                let desc = GroupDesc { group, kind, buckets, selection };
                Message::StatsReply(StatsReply::GroupDesc(vec![desc.clone(), desc]))
            }
            37 => {
                let has_duration = !matches!(self.version, Version::V11 | Version::V12);
                Message::StatsReply(StatsReply::GroupStats(vec![GroupStats {
                    group: 7,
                    references: 2,
                    duration_ns: if has_duration { self.below(1 << 50) } else { 0 },
                    packets: self.next(),
                    bytes: self.next(),
                    buckets: vec![(self.next(), self.next()); 3],
                }]))
            }
            _ => Message::CtFlushZone(self.next() as u16),
        }
    }

    /// A group that can be added in this version.
    fn added_group(&mut self) -> GroupMod {
        let is_new = matches!(self.version, Version::V10 | Version::V15);
        let kind = GroupType::ALL[self.below(4) as usize];
        let count = if kind == GroupType::Indirect { 1 } else { self.below(4) as u32 };
        let is_watched = matches!(kind, GroupType::Select | GroupType::FastFailover);
        let buckets = (0..count).map(|i| Bucket {
            id: if is_new { 3 * i + 1 } else { i },
            weight: if kind == GroupType::Select { self.below(100) as u16 } else { 0 },
            watch_port: if is_watched { OfPort(1 + i as u16) } else { OfPort::NONE },
            watch_group: (is_watched && self.often()).then_some(9),
            actions: self.actions(),
        });
        let buckets = buckets.collect();
        let named = |name| HashField::named(name).unwrap();
        let selection = (is_new && kind == GroupType::Select).then(|| match self.often() {
            true => Selection { method: SelectionMethod::DpHash, param: 5, fields: vec![] },
            false => Selection {
                method: SelectionMethod::Hash,
                param: self.next(),
                fields: vec![named("eth_dst"), HashField { mask: 0xff00, ..named("reg1") }],
            },
        });
        let group = self.below(GROUP_MAX.into()) as u32;
        GroupMod { command: GroupCommand::Add, group, kind, buckets, selection }
    }

    fn group_mod(&mut self) -> GroupMod {
        let mut group_mod = self.added_group();
        let is_new = matches!(self.version, Version::V10 | Version::V15);
        let places = [BucketPlace::Id(3), BucketPlace::First, BucketPlace::Last, BucketPlace::All];
        match self.below(6) {
            0 => group_mod.command = GroupCommand::Modify,
            1 => group_mod.command = GroupCommand::AddOrModify,
            2 | 3 => {
                let place = places[self.below(4) as usize];
                let removes = is_new && self.often();
                group_mod.command = match removes {
                    true => GroupCommand::RemoveBucket(place),
                    false => GroupCommand::Delete,
                };
                group_mod.kind = GroupType::All;
                (group_mod.buckets, group_mod.selection) = (vec![], None);
            }
            4 if is_new => {
                let place = places[self.below(3) as usize];
                group_mod.command = GroupCommand::InsertBucket(place);
                group_mod.selection = None;
            }
            _ => {}
        }
        group_mod
    }

    fn table_features(&mut self, table: u8) -> TableFeatures {
        TableFeatures {
            table: TableId(table),
            replaces: self.version < Version::V15 || self.often(),
            name: if self.often() { "main".into() } else { String::new() },
            max_entries: self.below(1_000_000) as u32,
            exceeds: false,
        }
    }

    fn table_mod(&mut self) -> TableMod {
        let old = matches!(self.version, Version::V11 | Version::V12);
        let new = self.version >= Version::V14;
        TableMod {
            table: self.often().then_some(TableId(7)),
            miss: old.then_some(TableMiss::Continue),
            evicts: new.then(|| self.often()),
            eviction_flags: (new && self.often()).then_some(openflow::EVICTION_FLAGS),
            vacancy: new.then(|| self.often().then_some(VacancyEvents { down: 20, up: 80 })),
        }
    }

    fn table_desc(&mut self) -> TableDesc {
        let vacancy = (VacancyEvents { down: 20, up: 80 }, self.below(101) as u8);
        TableDesc {
            table: TableId(self.below(254) as u8),
            evicts: self.often(),
            vacancy: self.often().then_some(vacancy),
        }
    }

    fn tlv_table(&mut self) -> Message {
        let map = TlvMap { class: self.below(1 << 16) as u16, kind: 0x80, len: 4, index: 63 };
        match self.below(3) {
            0 => Message::TlvTableRequest,
            1 => Message::TlvTableMod { command: TlvCommand::Delete, maps: vec![map, map] },
            _ => Message::TlvTableReply { space: 256, fields: 64, maps: vec![map] },
        }
    }

    fn ct_flush(&mut self) -> CtFlush {
        let address = |n: u64| match n % 3 {
            0 => None,
            _ => Some(std::net::IpAddr::from([10, 0, (n >> 8) as u8, 1])),
        };
        let original = flow::TupleMatch {
            src: address(self.next()),
            dst: address(self.next()),
            src_port: self.often().then_some(1000),
            dst_port: self.often().then_some(80),
            icmp_id: self.often().then_some(0),
            icmp_type: self.often().then_some(8),
            icmp_code: self.often().then_some(0),
        };
        let reply = flow::TupleMatch { src: address(self.next()), ..flow::TupleMatch::default() };
        let zone = self.often().then_some(base::Zone(7));
        let mark = self.often().then(|| flow::Masked { value: self.next() as u32, mask: !0 });
        let label = self.often().then(|| {
            let value = u128::from(self.next()) << 64 | u128::from(self.next());
            flow::Masked { value, mask: u128::from(self.next()) | 1 }
        });
        let protocol = self.often().then_some(6);
        CtFlush { zone, protocol, original, reply, mark, label }
    }
}

/// Returns the flow as a switch would store it; `None` if it is rejected.
pub fn accepted(version: Version, flow_mod: &FlowMod) -> Option<FlowStatsEntry> {
    let bytes = encode(
        version,
        1,
        &Message::FlowMod(flow_mod.clone()),
        &EncodeOptions { flow_mod_table_id: true, ..Default::default() },
    );
    let Ok((_, Message::FlowMod(read))) =
        decode(version, &bytes[0], &DecodeOptions { flow_mod_table_id: true })
    else {
        return None;
    };
    let place = Place { version, table: read.table, tables: 255 };
    openflow::check(&read.actions, &read.matching, place).ok()?;
    Some(FlowStatsEntry {
        table: read.table.unwrap_or(TableId(0)),
        matching: read.matching,
        priority: read.priority,
        cookie: read.new_cookie,
        duration_ns: 0,
        idle_timeout_s: read.idle_timeout_s,
        hard_timeout_s: read.hard_timeout_s,
        idle_age_s: 0,
        hard_age_s: 0,
        importance: read.importance,
        flags: read.flags,
        packets: 0,
        bytes: 0,
        actions: read.actions,
    })
}
