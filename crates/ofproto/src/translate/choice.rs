//! `bundle`, `bundle_load` and `multipath`: selection by a hash of the packet. OpenFlow does not define the
//! hash; this one is the same in every run, so that connections keep their paths.

use super::context::Context;
use crate::dependency::Dependency;
use base::OfPort;
use flow::{FRAG_ANY, Field, FlowKey};
use openflow::action::{Bundle, BundleAlgorithm, HashFields, Multipath, MultipathAlgorithm};
use wire::ethertype;
use wire::protocol;

impl Context<'_> {
    /// Outputs to a live member, or stores its number (ovs: `lib/bundle.c`, `bundle_execute`).
    pub fn bundle(&mut self, bundle: &Bundle, last: bool) {
        let id = self.bridge.id;
        for &port in bundle.members.iter().filter(|port| port.is_real()) {
            self.depend(Dependency::Link { bridge: id, port });
        }
        let is_up = |port: &OfPort| is_enabled(self, *port);
        let mut members = bundle.members.iter().copied();
        let member = match bundle.algorithm {
            BundleAlgorithm::ActiveBackup => members.find(is_up),
            BundleAlgorithm::HighestRandomWeight => {
                let hash = hash(self.key, bundle.fields, bundle.basis);
                let weigh = |(at, port)| (mix(hash, at as u64), port);
                let up = members.enumerate().filter(|(_, port)| is_up(port));
                let best = up.map(weigh).max_by_key(|(weight, _)| *weight);
                let best = best.map(|(_, port)| port);
                if bundle.members.len() > 1 {
                    self.look_at_hashed(bundle.fields);
                }
                best
            }
        };
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
        for (field, with) in hashed(self.key, fields) {
            self.look_at(field, u128::MAX);
            with.into_iter().for_each(|with| self.look_at(with, u128::MAX));
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

fn choose_link(multipath: &Multipath, hash: u64) -> u16 {
    let links = u64::from(multipath.max_link) + 1;
    let iterate = |modulus: u64| {
        let numbers = (0..).map(|i| mix(hash, i) % modulus);
        numbers.take(1 << 20).find(|number| *number < links).unwrap_or(0)
    };
    let rounded = links.next_power_of_two();
    let link = match multipath.algorithm {
        MultipathAlgorithm::ModuloN => hash % links,
        // The upper half of the hash, scaled to the number of links.
        MultipathAlgorithm::HashThreshold => ((hash >> 32) * links) >> 32,
        MultipathAlgorithm::HighestRandomWeight if links <= 64 => {
            (0..links).max_by_key(|link| mix(hash, *link)).unwrap_or(0)
        }
        MultipathAlgorithm::HighestRandomWeight => iterate(rounded),
        MultipathAlgorithm::IterativeHash => match u64::from(multipath.arg) {
            arg if arg < links || arg / 2 > links => iterate(rounded),
            arg => iterate(arg),
        },
    };
    link as u16
}

/// One step of a hash (SplitMix64's finalizer over both).
fn mix(hash: u64, value: u64) -> u64 {
    let mut z =
        (hash ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The fields to hash; for symmetric hashes, pairs of which the exclusive or is hashed.
fn hashed(key: &FlowKey, fields: HashFields) -> Vec<(Field, Option<Field>)> {
    use Field as F;
    let addresses = match key.eth_type() {
        ethertype::IPV4 => Some((F::Ipv4Src, F::Ipv4Dst)),
        ethertype::IPV6 => Some((F::Ipv6Src, F::Ipv6Dst)),
        _ => None,
    };
    let both = |(src, dst)| (src, Some(dst));
    let has_ports = |udp: bool| {
        let proto = key.nw_proto();
        key.nw_frag() & FRAG_ANY == 0
            && (matches!(proto, protocol::TCP | protocol::SCTP) || udp && proto == protocol::UDP)
    };
    let l2 = [(F::EthSrc, Some(F::EthDst)), (F::VlanVid, None), (F::EthType, None)];
    let mut out = Vec::new();
    match fields {
        HashFields::EthSrc => out.push((F::EthSrc, None)),
        HashFields::NwSrc => out.extend(addresses.map(|(src, _)| (src, None))),
        HashFields::NwDst => out.extend(addresses.map(|(_, dst)| (dst, None))),
        HashFields::SymmetricL3 => {
            out.extend(addresses.map(both));
            out.push((F::EthType, None));
        }
        HashFields::SymmetricL4 => {
            out.extend(l2);
            if let Some(addresses) = addresses {
                out.extend([both(addresses), (F::NwProto, None)]);
                out.extend(has_ports(false).then_some((F::TpSrc, Some(F::TpDst))));
            }
        }
        HashFields::SymmetricL3L4 | HashFields::SymmetricL3L4Udp => match addresses {
            Some(addresses) => {
                let udp = fields == HashFields::SymmetricL3L4Udp;
                out.extend([both(addresses), (F::NwProto, None)]);
                out.extend(has_ports(udp).then_some((F::TpSrc, Some(F::TpDst))));
            }
            None => out.extend(l2),
        },
    }
    out
}

/// The hash of a packet.
fn hash(key: &FlowKey, fields: HashFields, basis: u16) -> u64 {
    let values = hashed(key, fields)
        .into_iter()
        .map(|(field, with)| key.get(field) ^ with.map_or(0, |with| key.get(with)));
    values.fold(u64::from(basis), |hash, value| mix(mix(hash, value as u64), (value >> 64) as u64))
}

#[cfg(test)]
mod tests;
