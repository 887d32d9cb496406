//! The VLAN modes of ports (columns `vlan_mode`, `tag`, `trunks` and `cvlans` of `Port`).

use flow::VLAN_PRESENT;
use wire::ethertype;

/// How a port treats VLANs. An empty list means all VLANs. In the native modes the port's own VLAN belongs to
/// the list, even if not listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VlanMode {
    /// Carries one VLAN, without tags.
    Access(u16),
    /// Carries VLANs with their tags.
    Trunk {
        /// Which, in ascending order.
        trunks: Vec<u16>,
    },
    /// A trunk; untagged packets belong to one VLAN, whose packets leave with its tag.
    NativeTagged {
        /// That VLAN.
        tag: u16,
        /// The others, in ascending order.
        trunks: Vec<u16>,
    },
    /// A trunk; untagged packets belong to one VLAN, whose packets leave untagged.
    NativeUntagged {
        /// That VLAN.
        tag: u16,
        /// The others, in ascending order.
        trunks: Vec<u16>,
    },
    /// Puts all packets, tagged or not, into one VLAN by an outer tag.
    Dot1qTunnel {
        /// That VLAN.
        tag: u16,
        /// The permitted inner VLANs, in ascending order.
        cvlans: Vec<u16>,
        /// The outer tag's Ethernet type.
        ethertype: u16,
    },
}

impl Default for VlanMode {
    fn default() -> Self {
        VlanMode::Trunk { trunks: Vec::new() }
    }
}

/// Whether packets that leave without a VLAN get a priority tag (`other_config:priority-tags`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PriorityTags {
    /// Never.
    #[default]
    Never,
    /// If the priority is not 0.
    IfNonzero,
    /// Always.
    Always,
}

/// Outer and inner VLAN of a packet inside a bridge, for learning and forwarding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Vlans {
    /// The outer tag, then the inner one.
    pub tags: [Tag; 2],
}

/// The parts of a VLAN tag; all zero without a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tag {
    /// VLAN id.
    pub vid: u16,
    /// Priority, in its position within the tag.
    pub pcp: u16,
    /// Ethernet type.
    pub tpid: u16,
}

impl Tag {
    /// The tag with this Ethernet type and control information.
    pub fn new(tpid: u16, tci: u16) -> Tag {
        Tag { vid: tci & 0xfff, pcp: tci & 0xe000, tpid }
    }

    /// The control information, with the present bit.
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

    /// The outer tag changed to `vid`, with its priority.
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

impl VlanMode {
    /// The VLAN mode that the columns `vlan_mode`, `tag`, `trunks` and `cvlans` define; `None` if `mode` is
    /// unknown. Without a mode, a tag makes an access port; without a tag, the port is a trunk (ovs:
    /// `vswitchd/bridge.c`, `port_configure`).
    pub fn from_columns(
        mode: Option<&str>,
        tag: Option<u16>,
        trunks: Vec<u16>,
        cvlans: Vec<u16>,
        ethertype: u16,
    ) -> Option<Self> {
        let tag_or_zero = tag.unwrap_or(0);
        Some(match (mode, tag) {
            (None, Some(tag)) => VlanMode::Access(tag),
            (None, None) | (Some("trunk"), _) => VlanMode::Trunk { trunks },
            (Some("access"), _) => VlanMode::Access(tag_or_zero),
            (Some("native-tagged"), _) => VlanMode::NativeTagged { tag: tag_or_zero, trunks },
            (Some("native-untagged"), _) => VlanMode::NativeUntagged { tag: tag_or_zero, trunks },
            (Some("dot1q-tunnel"), _) => {
                VlanMode::Dot1qTunnel { tag: tag_or_zero, cvlans, ethertype }
            }
            (Some(_), _) => return None,
        })
    }

    /// Whether the port accepts packets with an outer tag of this VLAN; 0 stands for untagged and
    /// priority-tagged packets (ovs: `ofproto/ofproto-dpif-xlate.c`, `input_vid_is_valid`).
    pub(crate) fn admits(&self, vid: u16) -> bool {
        match self {
            VlanMode::Access(_) => vid == 0,
            VlanMode::Trunk { .. } => self.trunks(vid),
            VlanMode::NativeTagged { .. } | VlanMode::NativeUntagged { .. } => {
                vid == 0 || self.trunks(vid)
            }
            VlanMode::Dot1qTunnel { cvlans, .. } => listed(cvlans, vid),
        }
    }

    /// Whether the trunk carries this VLAN. The native one always counts as listed, and then VLAN 0 does not:
    /// an untagged packet is in the native VLAN (ovs: `ofproto/ofproto-dpif.c`, `bundle_set`).
    fn trunks(&self, vid: u16) -> bool {
        match self {
            VlanMode::Trunk { trunks } => listed(trunks, vid),
            VlanMode::NativeTagged { tag, trunks } | VlanMode::NativeUntagged { tag, trunks } => {
                vid == *tag || (vid != 0 && listed(trunks, vid))
            }
            VlanMode::Access(_) | VlanMode::Dot1qTunnel { .. } => false,
        }
    }

    /// The VLANs inside the bridge of a packet received with these tags (ovs: `xvlan_input_translate`).
    pub(crate) fn inside(&self, seen: Vlans) -> Vlans {
        match self {
            VlanMode::Access(tag) => Vlans { tags: [seen.in_vlan(*tag).tags[0], Tag::default()] },
            VlanMode::Trunk { .. } => seen,
            VlanMode::NativeTagged { tag, .. } | VlanMode::NativeUntagged { tag, .. } => {
                if seen.outer() == 0 { seen.in_vlan(*tag) } else { seen }
            }
            VlanMode::Dot1qTunnel { tag, ethertype, .. } => {
                Vlans { tags: [Tag { vid: *tag, pcp: 0, tpid: *ethertype }, seen.tags[0]] }
            }
        }
    }

    /// Whether a packet with these VLANs inside the bridge may leave by this port (ovs:
    /// `xbundle_includes_vlan`).
    pub(crate) fn includes(&self, vlans: &Vlans) -> bool {
        match self {
            VlanMode::Access(tag) => vlans.outer() == *tag && vlans.tags[1].vid == 0,
            VlanMode::Dot1qTunnel { tag, cvlans, .. } => {
                vlans.outer() == *tag && listed(cvlans, vlans.tags[1].vid)
            }
            _ => self.trunks(vlans.outer()),
        }
    }

    /// The tags of a packet that leaves (ovs: `xvlan_output_translate`).
    pub(crate) fn outside(&self, vlans: Vlans) -> Vlans {
        match self {
            VlanMode::Access(_) => Vlans::default(),
            VlanMode::Dot1qTunnel { .. } => vlans.popped(),
            VlanMode::NativeUntagged { tag, .. } if vlans.outer() == *tag => vlans.popped(),
            _ => vlans,
        }
    }

    /// Whether the inner tag decides if a packet may leave by this port.
    pub(crate) fn looks_at_inner(&self, vlans: &Vlans) -> bool {
        match self {
            VlanMode::Access(tag) => vlans.outer() == *tag,
            VlanMode::Dot1qTunnel { tag, cvlans, .. } => {
                vlans.outer() == *tag && !cvlans.is_empty()
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes() -> [VlanMode; 6] {
        [
            VlanMode::Access(10),
            VlanMode::Trunk { trunks: vec![] },
            VlanMode::Trunk { trunks: vec![10, 20] },
            VlanMode::NativeTagged { tag: 10, trunks: vec![20] },
            VlanMode::NativeUntagged { tag: 10, trunks: vec![20] },
            VlanMode::Dot1qTunnel { tag: 10, cvlans: vec![0, 20], ethertype: 0x88a8 },
        ]
    }

    #[test]
    fn columns_mean_vlan_modes() {
        use VlanMode::{Access, Dot1qTunnel, NativeTagged, NativeUntagged, Trunk};
        let check = |mode, tag, trunks: &[u16], cvlans: &[u16], expect| {
            let found = VlanMode::from_columns(mode, tag, trunks.into(), cvlans.into(), 0x88a8);
            assert_eq!(found, expect, "{mode:?} tag {tag:?} trunks {trunks:?}");
        };
        check(None, None, &[], &[], Some(Trunk { trunks: vec![] }));
        check(None, None, &[5, 7], &[], Some(Trunk { trunks: vec![5, 7] }));
        check(None, Some(10), &[], &[], Some(Access(10)));
        check(None, Some(10), &[5], &[], Some(Access(10)));
        check(None, Some(0), &[], &[], Some(Access(0)));
        check(Some("access"), None, &[], &[], Some(Access(0)));
        check(Some("trunk"), Some(10), &[5], &[], Some(Trunk { trunks: vec![5] }));
        let native = |tag, trunks: &[u16]| Some(NativeTagged { tag, trunks: trunks.into() });
        check(Some("native-tagged"), Some(10), &[], &[], native(10, &[]));
        check(Some("native-tagged"), Some(10), &[0, 20], &[], native(10, &[0, 20]));
        check(Some("native-tagged"), Some(10), &[10], &[], native(10, &[10]));
        check(Some("native-tagged"), None, &[0, 20], &[], native(0, &[0, 20]));
        let native = NativeUntagged { tag: 3, trunks: vec![1] };
        check(Some("native-untagged"), Some(3), &[1], &[], Some(native));
        let tunnel = Dot1qTunnel { tag: 9, cvlans: vec![4], ethertype: 0x88a8 };
        check(Some("dot1q-tunnel"), Some(9), &[1], &[4], Some(tunnel));
        check(Some("nonsense"), Some(9), &[], &[], None);
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

    /// A packet without a VLAN inside the bridge, such as a broadcast of the local port, leaves only by
    /// trunks of all VLANs.
    #[test]
    fn what_has_no_vlan_stays_off_ports_with_a_native_one() {
        let none = Vlans::default();
        for trunks in [vec![], vec![0, 20]] {
            let mode = VlanMode::NativeTagged { tag: 10, trunks: trunks.clone() };
            assert!(!mode.includes(&none) && mode.admits(0), "{trunks:?}");
            assert!(!VlanMode::NativeUntagged { tag: 10, trunks }.includes(&none));
        }
        assert!(VlanMode::NativeTagged { tag: 0, trunks: vec![] }.includes(&none));
        assert!(VlanMode::Trunk { trunks: vec![] }.includes(&none));
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
