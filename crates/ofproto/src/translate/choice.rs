//! `bundle`, `bundle_load` and `multipath`: selection by a hash of the packet. OpenFlow does not define the
//! hash; it is Open vSwitch's, so that connections keep their paths when one switch replaces the other.

use super::context::Context;
use super::hash::{has_l3l4_ports, has_symmetric_ports, hash, hash_2words};
use crate::dependency::Dependency;
use base::OfPort;
use flow::{Field, FlowKey};
use openflow::action::{Bundle, BundleAlgorithm, HashFields, Multipath, MultipathAlgorithm};
use wire::ethertype;

impl Context<'_> {
    /// Outputs to a live member, or stores its number (ovs: `lib/bundle.c`, `bundle_execute`).
    pub fn bundle(&mut self, bundle: &Bundle, last: bool) {
        let id = self.bridge.id;
        for &port in bundle.members.iter().filter(|port| port.is_real()) {
            self.depend(Dependency::Link { bridge: id, port });
        }
        if bundle.algorithm == BundleAlgorithm::HighestRandomWeight && bundle.members.len() > 1 {
            self.look_at_hashed(bundle.fields);
        }
        let member = choose_member(bundle, self.key, |port| is_enabled(self, port));
        let member = member.unwrap_or(OfPort::NONE);
        match bundle.target {
            Some(target) => self.load(target, member.0.into(), true),
            None => self.output(member, 0, false, last),
        }
    }

    /// Selects a link (ovs: `lib/multipath.c`, `multipath_execute`).
    pub fn multipath(&mut self, multipath: &Multipath) {
        self.look_at_hashed(multipath.fields);
        let hash = hash(self.key, multipath.fields, multipath.basis);
        self.load(multipath.target, choose_link(multipath, hash).into(), true);
    }

    /// Adds the hashed fields to the mask.
    fn look_at_hashed(&mut self, fields: HashFields) {
        for field in hashed(self.key, fields) {
            // Of the inner tag, as of the outer one, the priority plays no part.
            let bits = if field == Field::VlanTci1 { 0x1fff } else { u128::MAX };
            self.look_at(field, bits);
        }
    }
}

/// Whether a port is live (ovs: `ofproto/ofproto-dpif-xlate.c`, `member_enabled_cb`).
fn is_enabled(context: &Context<'_>, port: OfPort) -> bool {
    match port {
        OfPort::IN_PORT
        | OfPort::TABLE
        | OfPort::NORMAL
        | OfPort::FLOOD
        | OfPort::ALL
        | OfPort::NONE => true,
        OfPort::CONTROLLER => false,
        port => context.bridge.port(port).is_some_and(|port| port.spec.is_up()),
    }
}

/// The member that takes a packet.
fn choose_member(bundle: &Bundle, key: &FlowKey, is_up: impl Fn(OfPort) -> bool) -> Option<OfPort> {
    let mut up = bundle.members.iter().copied().enumerate().filter(|(_, port)| is_up(*port));
    match bundle.algorithm {
        BundleAlgorithm::ActiveBackup => up.next().map(|(_, port)| port),
        BundleAlgorithm::HighestRandomWeight => {
            let hash = hash(key, bundle.fields, bundle.basis);
            highest(up.map(|(at, port)| (hash_2words(at as u32, hash), port)))
        }
    }
}

/// The first of those with the highest weight.
fn highest<T>(weighed: impl Iterator<Item = (u32, T)>) -> Option<T> {
    let better = |best: (u32, T), it: (u32, T)| if it.0 > best.0 { it } else { best };
    weighed.reduce(better).map(|(_, it)| it)
}

fn choose_link(multipath: &Multipath, hash: u32) -> u16 {
    let links = u32::from(multipath.max_link) + 1;
    let iterate = |modulus: u32| {
        // 16 bits as in Open vSwitch, which for an impossible modulus never ends.
        let numbers = (0..1 << 20).map(|i| (hash_2words(hash, i) % modulus) & 0xffff);
        numbers.into_iter().find(|number| *number < links).unwrap_or(0)
    };
    let rounded = links.next_power_of_two();
    let link = match multipath.algorithm {
        MultipathAlgorithm::ModuloN => hash % links,
        MultipathAlgorithm::HashThreshold if links == 1 => 0,
        MultipathAlgorithm::HashThreshold => hash / (u32::MAX / links + 1),
        MultipathAlgorithm::HighestRandomWeight if links <= 64 => {
            highest((0..links).map(|link| (hash_2words(hash, link), link))).unwrap_or(0)
        }
        MultipathAlgorithm::HighestRandomWeight => iterate(rounded),
        MultipathAlgorithm::IterativeHash => match multipath.arg {
            arg if arg < links || arg / 2 > links => iterate(rounded),
            arg => iterate(arg),
        },
    };
    link as u16
}

/// The fields that decide the hash.
fn hashed(key: &FlowKey, fields: HashFields) -> Vec<Field> {
    use Field as F;
    let addresses: &[F] = match key.eth_type() {
        ethertype::IPV4 => &[F::Ipv4Src, F::Ipv4Dst],
        ethertype::IPV6 => &[F::Ipv6Src, F::Ipv6Dst],
        _ => &[],
    };
    let l2 = [F::EthSrc, F::EthDst, F::VlanVid, F::VlanTci1, F::EthType];
    let ports = |is_hashed: bool| [F::TpSrc, F::TpDst].into_iter().filter(move |_| is_hashed);
    let mut out = Vec::new();
    match fields {
        HashFields::EthSrc => out.push(F::EthSrc),
        HashFields::NwSrc => out.extend(addresses.first()),
        HashFields::NwDst => out.extend(addresses.last()),
        HashFields::SymmetricL3 => out.extend(addresses.iter().chain(&[F::EthType])),
        HashFields::SymmetricL4 => {
            out.extend(l2);
            if !addresses.is_empty() {
                out.extend(addresses.iter().chain(&[F::NwProto]));
                out.extend(ports(has_symmetric_ports(key.nw_proto())));
            }
        }
        HashFields::SymmetricL3L4 | HashFields::SymmetricL3L4Udp if addresses.is_empty() => {
            out.extend(l2);
        }
        HashFields::SymmetricL3L4 | HashFields::SymmetricL3L4Udp => {
            let udp = fields == HashFields::SymmetricL3L4Udp;
            out.extend(addresses.iter().chain(&[F::NwProto]));
            out.extend(ports(has_l3l4_ports(key, udp)));
        }
    }
    out
}

#[cfg(test)]
mod tests;
