//! What this switch does in another way on purpose, since OpenFlow says so or since Open vSwitch's way cannot be meant.

/// The subject, what Open vSwitch does, what this switch does, and why.
#[rustfmt::skip]
pub const DIFFERENCES: &[[&str; 4]] = &[
    ["`goto_table:255`", "accepts it", "error OFPBIC_BAD_TABLE_ID", "table 255 stands for all tables (OpenFlow 1.3, 7.3.4.1)"],
    ["a strict or other modification that finds no flow, with a meter that does not exist", "accepts it", "error OFPMMFC_INVALID_METER", "the same message with a flow is refused"],
    ["`ref_count` of a group", "a flow counts once for each time it names the group", "a flow counts once", "it is the number of flows that forward to the group (OpenFlow 1.3, A.3.5.9)"],
    ["`output(port=N,max_len=M)` after tags or labels were pushed or popped", "with the other changes of a packet, may cut before a label is pushed, so that more or less than M bytes leave", "exactly M bytes leave", "M is the length of what is sent"],
    ["addresses set in a later fragment", "adds the difference to the bytes where a first fragment has its checksum", "leaves the payload as it is", "a later fragment has no transport header"],
    ["the DEI bit of a tag that NORMAL floods to trunk and access ports", "is lost for the trunk ports that come after an access port in an order by hash", "is lost for those with higher numbers than an access port", "the ports are visited by number"],
    ["`ct(commit,nat)` after `controller(pause)`", "the resumed packet's connection has the address 0.0.0.0 in its reply", "the connection keeps its addresses", "`nat` without an address translates nothing"],
    ["actions after a `clone` that recirculates for MPLS", "are not executed", "are executed", "`clone` does not change what follows it"],
    ["copies that recirculate before the end of an action list (`ct(table=1),output:2`, a nested `clone`, MPLS)", "leave in their place", "leave after the rest of the list", "a copy may wait for the answer of a miss, for which the rest does not wait; so all packets of a flow have one order"],
    ["`multipath` and `bundle` beside builds of Open vSwitch for SSE 4.2 or ARMv8's CRC instructions", "those builds hash `symmetric_l3l4` and weights with CRC-32C", "MurmurHash3 everywhere", "the builds of distributions for x86-64 have it, too"],
    ["which of several errors a message gets", "its order of checks", "may be another one", "OpenFlow leaves it open"],
];
