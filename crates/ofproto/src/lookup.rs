//! The properties that all packets of a megaflow share at a lookup in a flow table. An added flow then
//! affects only those megaflows of which it could match a packet.
//!
//! A megaflow's mask covers every bit that translation looked at, so its packets agree in these bits. Until
//! an action rewrites a header, the headers agree with the megaflow's own key in these bits. Registers and
//! metadata start with the same value for all its packets and stay equal, except for bits that an action
//! copies from a header. Whatever is unknown counts as overlapping.

use crate::ids::BridgeId;
use base::TableId;
use flow::{Field, FlowKey, Mask, Match, PackedKey};

/// A lookup in a flow table.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Lookup {
    bridge: BridgeId,
    table: TableId,
    /// The priority of the flow found.
    priority: Option<u16>,
    /// Whether the headers were still those of the megaflow's key.
    has_headers: bool,
    /// Whether the connection-tracking fields were, too.
    has_conntrack: bool,
    /// Registers, metadata and the packet's current in-port.
    pipeline: PackedKey,
    /// Bits of these that depend on the packet.
    varying: Option<PackedKey>,
}

/// The state of a packet at a lookup.
pub(crate) struct Seen<'a> {
    pub bridge: BridgeId,
    pub table: TableId,
    /// The looked-up key, in the bridge's port numbers.
    pub key: &'a FlowKey,
    /// The key that the packet arrived with.
    pub original: &'a FlowKey,
    /// Whether some action may have rewritten a header.
    pub is_rewritten: bool,
    /// Registers and metadata that depend on the packet.
    pub varying: &'a Mask,
}

impl Lookup {
    /// Records a lookup that found a flow of this priority, or none.
    pub fn new(seen: &Seen<'_>, priority: Option<u16>) -> Lookup {
        let (key, varies) = (seen.key.words(), seen.varying.words());
        let used = [seen.key, seen.original].map(|key| key.words_in_use().len());
        let words = key.iter().zip(seen.original.words()).take(used[0].max(used[1]));
        let masks = header_mask().words().iter().zip(conntrack_mask().words());
        let changed = words.zip(masks).fold([0, 0], |[headers, ct], ((a, b), masks)| {
            [headers | (a ^ b) & masks.0, ct | (a ^ b) & masks.1]
        });
        let agrees = changed.map(|bits| bits == 0 && !seen.is_rewritten);
        // Bits that depend on the packet are left out, so that flows can share links.
        let pipeline = pipeline_words().iter().filter(|&&(i, _)| key[i] != 0);
        let pipeline = pipeline.map(|&(i, bits)| (i, key[i] & bits & !varies[i]));
        let varying = pipeline_words().iter().filter(|&&(i, _)| varies[i] != 0);
        let varying = PackedKey::of(varying.map(|&(i, bits)| (i, varies[i] & bits)));
        Lookup {
            bridge: seen.bridge,
            table: seen.table,
            priority,
            has_headers: agrees[0],
            has_conntrack: agrees[1],
            pipeline: PackedKey::of(pipeline),
            varying: Some(varying).filter(|varying| !varying.is_zero()),
        }
    }

    /// The table of the lookup.
    pub fn place(&self) -> (BridgeId, TableId) {
        (self.bridge, self.table)
    }

    /// Whether the added flow could be found in place of the one found, as far as the in-port, registers and
    /// metadata tell.
    pub fn may_find(&self, added: &Added) -> bool {
        let is_lower = self.priority.is_some_and(|found| added.priority < found);
        if (self.bridge, self.table) != (added.bridge, added.table) || is_lower {
            return false;
        }
        let key = self.pipeline.unpack();
        let varying = self.varying.as_ref().map(PackedKey::unpack).unwrap_or_default();
        let words = key.words().iter().zip(varying.words()).zip(pipeline_mask().words());
        let matching = added.matching.key().words().iter().zip(added.matching.mask().words());
        words.zip(matching).fold(0, |diff, (((have, varies), pipeline), (want, mask))| {
            diff | ((have ^ want) & mask & pipeline & !varies)
        }) == 0
    }

    /// Whether a packet of a megaflow with this match could match the added flow, as far as the headers tell.
    pub fn may_match(&self, added: &Added, megaflow: &Match) -> bool {
        let known = |word: usize| {
            let headers = if self.has_headers { header_mask().words()[word] } else { 0 };
            headers | if self.has_conntrack { conntrack_mask().words()[word] } else { 0 }
        };
        let (key, mask) = (added.matching.key().words(), added.matching.mask().words());
        let (own, own_mask) = (megaflow.key().words(), megaflow.mask().words());
        let differs = |i: usize| (own[i] ^ key[i]) & mask[i] & own_mask[i] & known(i) != 0;
        !(0..key.len()).any(differs)
    }

    /// Whether the headers are those of the megaflow's key in all bits of its mask.
    pub fn has_headers(&self) -> bool {
        self.has_headers
    }
}

/// A flow that was added to a table.
#[derive(Clone, Debug)]
pub(crate) struct Added {
    pub bridge: BridgeId,
    pub table: TableId,
    pub priority: u16,
    pub matching: Match,
}

/// The header fields: those that belong neither to the pipeline nor to connection tracking. Tunnel options are left
/// out: a megaflow has them as packets carry them, and a flow as the table of its bridge maps them.
pub(crate) fn header_mask() -> &'static Mask {
    static MASK: std::sync::LazyLock<Mask> = std::sync::LazyLock::new(|| {
        fields(|field| !field.is_ct() && !is_of_pipeline(field) && !field.is_tunnel_option())
    });
    &MASK
}

fn conntrack_mask() -> &'static Mask {
    static MASK: std::sync::LazyLock<Mask> = std::sync::LazyLock::new(|| fields(Field::is_ct));
    &MASK
}

fn pipeline_mask() -> &'static Mask {
    static MASK: std::sync::LazyLock<Mask> = std::sync::LazyLock::new(|| fields(is_of_pipeline));
    &MASK
}

/// The words of [`pipeline_mask`], with their indices.
fn pipeline_words() -> &'static [(usize, u64)] {
    static WORDS: std::sync::LazyLock<Vec<(usize, u64)>> = std::sync::LazyLock::new(|| {
        let words = pipeline_mask().words().iter().copied().enumerate();
        words.filter(|(_, bits)| *bits != 0).collect()
    });
    &WORDS
}

fn fields(are: impl Fn(Field) -> bool) -> Mask {
    let mut mask = Mask::new();
    Field::BASIC.iter().filter(|field| are(**field)).for_each(|&field| mask.add(field));
    mask
}

/// Fields that packets get between the datapath and the tables, or in the tables. `conj_id` is left out: a
/// lookup may replace it, so its value is unknown.
pub(crate) fn is_of_pipeline(field: Field) -> bool {
    field.is_pipeline()
        || matches!(field, Field::InPort | Field::InPortOxm | Field::ActsetOutput | Field::RecircId)
}
