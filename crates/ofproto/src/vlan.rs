//! Which VLANs a port carries, and how (columns `vlan_mode`, `tag` and `trunks` of `Port`).

use flow::VLAN_PRESENT;
use wire::ethertype;

/// How a port treats VLANs. An empty list of VLANs means all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortVlans {
    /// Carries one VLAN, without tags.
    Access(u16),
    /// Carries VLANs with their tags.
    Trunk {
        /// Which, in ascending order.
        trunks: Vec<u16>,
    },
    /// A trunk; packets without a tag belong to one VLAN, whose packets leave with its tag.
    NativeTagged {
        /// That VLAN.
        tag: u16,
        /// The others, in ascending order.
        trunks: Vec<u16>,
    },
    /// A trunk; packets without a tag belong to one VLAN, whose packets leave without a tag.
    NativeUntagged {
        /// That VLAN.
        tag: u16,
        /// The others, in ascending order.
        trunks: Vec<u16>,
    },
    /// Puts what comes in, tagged or not, into one VLAN by a tag around it.
    Tunnel {
        /// That VLAN.
        tag: u16,
        /// The inner VLANs that are let through, in ascending order.
        inner: Vec<u16>,
        /// The outer tag's Ethernet type.
        tpid: u16,
    },
}

impl Default for PortVlans {
    fn default() -> Self {
        PortVlans::Trunk { trunks: Vec::new() }
    }
}

/// Whether packets that leave without a VLAN get a tag for their priority
/// (`other_config:priority-tags`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PriorityTags {
    /// Never.
    #[default]
    Never,
    /// Where the priority is not 0.
    IfNonzero,
    /// Always.
    Always,
}

/// Outer and inner VLAN of a packet inside a bridge: what it is learned and forwarded by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Vlans {
    /// The outer tag, then the inner one.
    pub tags: [Tag; 2],
}

/// A VLAN tag taken apart; all zero where there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tag {
    /// VLAN id.
    pub vid: u16,
    /// Priority, in the place that it has in the tag.
    pub pcp: u16,
    /// Ethernet type.
    pub tpid: u16,
}

impl Tag {
    /// The tag with this Ethernet type and control information.
    pub fn new(tpid: u16, tci: u16) -> Tag {
        Tag { vid: tci & 0xfff, pcp: tci & 0xe000, tpid }
    }

    /// The control information, with the bit that says that there is a tag.
    pub fn tci(self) -> u16 {
        self.vid | self.pcp | VLAN_PRESENT
    }
}

impl Vlans {
    /// The VLAN that addresses are learned in.
    pub fn outer(&self) -> u16 {
        self.tags[0].vid
    }

    /// Without the outer tag.
    fn popped(self) -> Vlans {
        Vlans { tags: [self.tags[1], Tag::default()] }
    }

    /// The outer tag made one of `vid`, with the priority that was there.
    fn in_vlan(mut self, vid: u16) -> Vlans {
        let outer = &mut self.tags[0];
        outer.vid = vid;
        if outer.tpid == 0 {
            outer.tpid = ethertype::VLAN;
        }
        self
    }
}

fn listed(list: &[u16], vid: u16) -> bool {
    list.is_empty() || list.binary_search(&vid).is_ok()
}

impl PortVlans {
    /// Whether a packet with an outer tag of this VLAN may come in; 0 is a packet without a tag,
    /// or with one for its priority only (ovs: `ofproto/ofproto-dpif-xlate.c`,
    /// `input_vid_is_valid`).
    pub(crate) fn admits(&self, vid: u16) -> bool {
        match self {
            PortVlans::Access(_) => vid == 0,
            PortVlans::Trunk { .. } => self.trunks(vid),
            PortVlans::NativeTagged { .. } | PortVlans::NativeUntagged { .. } => {
                vid == 0 || self.trunks(vid)
            }
            PortVlans::Tunnel { inner, .. } => listed(inner, vid),
        }
    }

    /// Whether the list of trunks has this VLAN. The native one always counts as listed, and VLAN 0 never
    /// beside it: a packet without a tag is in the native VLAN (ovs: `ofproto/ofproto-dpif.c`,
    /// `bundle_set`).
    fn trunks(&self, vid: u16) -> bool {
        match self {
            PortVlans::Trunk { trunks } => listed(trunks, vid),
            PortVlans::NativeTagged { tag, trunks } | PortVlans::NativeUntagged { tag, trunks } => {
                vid == *tag || (vid != 0 && listed(trunks, vid))
            }
            PortVlans::Access(_) | PortVlans::Tunnel { .. } => false,
        }
    }

    /// The VLANs inside the bridge of a packet that came in with these tags
    /// (ovs: `xvlan_input_translate`).
    pub(crate) fn inside(&self, seen: Vlans) -> Vlans {
        match self {
            PortVlans::Access(tag) => Vlans { tags: [seen.in_vlan(*tag).tags[0], Tag::default()] },
            PortVlans::Trunk { .. } => seen,
            PortVlans::NativeTagged { tag, .. } | PortVlans::NativeUntagged { tag, .. } => {
                if seen.outer() == 0 { seen.in_vlan(*tag) } else { seen }
            }
            PortVlans::Tunnel { tag, tpid, .. } => {
                Vlans { tags: [Tag { vid: *tag, pcp: 0, tpid: *tpid }, seen.tags[0]] }
            }
        }
    }

    /// Whether a packet that has these VLANs inside the bridge leaves by this port
    /// (ovs: `xbundle_includes_vlan`).
    pub(crate) fn includes(&self, vlans: &Vlans) -> bool {
        match self {
            PortVlans::Access(tag) => vlans.outer() == *tag && vlans.tags[1].vid == 0,
            PortVlans::Tunnel { tag, inner, .. } => {
                vlans.outer() == *tag && listed(inner, vlans.tags[1].vid)
            }
            _ => self.trunks(vlans.outer()),
        }
    }

    /// The tags with which it leaves (ovs: `xvlan_output_translate`).
    pub(crate) fn outside(&self, vlans: Vlans) -> Vlans {
        match self {
            PortVlans::Access(_) => Vlans::default(),
            PortVlans::Tunnel { .. } => vlans.popped(),
            PortVlans::NativeUntagged { tag, .. } if vlans.outer() == *tag => vlans.popped(),
            _ => vlans,
        }
    }

    /// Whether the inner tag decides if a packet leaves by this port.
    pub(crate) fn looks_at_inner(&self, vlans: &Vlans) -> bool {
        match self {
            PortVlans::Access(tag) => vlans.outer() == *tag,
            PortVlans::Tunnel { tag, inner, .. } => vlans.outer() == *tag && !inner.is_empty(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes() -> [PortVlans; 6] {
        [
            PortVlans::Access(10),
            PortVlans::Trunk { trunks: vec![] },
            PortVlans::Trunk { trunks: vec![10, 20] },
            PortVlans::NativeTagged { tag: 10, trunks: vec![20] },
            PortVlans::NativeUntagged { tag: 10, trunks: vec![20] },
            PortVlans::Tunnel { tag: 10, inner: vec![0, 20], tpid: 0x88a8 },
        ]
    }

    #[test]
    fn what_comes_in() {
        // Untagged, VLAN 10, VLAN 20, VLAN 30.
        let expect = [
            [true, false, false, false],
            [true, true, true, true],
            [false, true, true, false],
            [true, true, true, false],
            [true, true, true, false],
            [true, false, true, false],
        ];
        for (mode, expect) in modes().iter().zip(expect) {
            assert_eq!([0, 10, 20, 30].map(|vid| mode.admits(vid)), expect, "{mode:?}");
        }
    }

    #[test]
    fn what_leaves_and_how() {
        let tagged =
            |vid| Vlans { tags: [Tag { vid, pcp: 0, tpid: ethertype::VLAN }, Tag::default()] };
        // What leaves of VLAN 10, and of VLAN 20, by the tag's VLAN.
        let expect = [
            [Some(0), None],
            [Some(10), Some(20)],
            [Some(10), Some(20)],
            [Some(10), Some(20)],
            [Some(0), Some(20)],
            [Some(0), None],
        ];
        for (mode, expect) in modes().iter().zip(expect) {
            let out = |vid| {
                let vlans = tagged(vid);
                mode.includes(&vlans).then(|| mode.outside(vlans).outer())
            };
            assert_eq!([10, 20].map(out), expect, "{mode:?}");
        }
    }

    /// What has no VLAN inside the bridge, as a broadcast of the local port, leaves by trunks of all only.
    #[test]
    fn what_has_no_vlan_stays_off_ports_with_a_native_one() {
        let none = Vlans::default();
        for trunks in [vec![], vec![0, 20]] {
            let mode = PortVlans::NativeTagged { tag: 10, trunks: trunks.clone() };
            assert!(!mode.includes(&none) && mode.admits(0), "{trunks:?}");
            assert!(!PortVlans::NativeUntagged { tag: 10, trunks }.includes(&none));
        }
        assert!(PortVlans::NativeTagged { tag: 0, trunks: vec![] }.includes(&none));
        assert!(PortVlans::Trunk { trunks: vec![] }.includes(&none));
    }

    #[test]
    fn untagged_packets_enter_the_native_vlan_and_keep_their_priority() {
        let mut seen = Vlans::default();
        assert_eq!(modes()[3].inside(seen).outer(), 10);
        assert_eq!(modes()[1].inside(seen).outer(), 0);
        seen.tags[0] = Tag::new(ethertype::VLAN, 0x6000);
        assert_eq!(
            modes()[0].inside(seen).tags[0],
            Tag { vid: 10, pcp: 0x6000, tpid: ethertype::VLAN }
        );
        let inside = modes()[5].inside(seen);
        assert_eq!((inside.tags[0].tpid, inside.tags[1].pcp), (0x88a8, 0x6000));
    }
}
