//! What a running switch may report of the rows that a database has.

use crate::dice::Dice;
use base::{DatapathId, MacAddr, OfPort};
use control::{
    BridgeStatus, ControllerRole, ControllerStatus, InterfaceStatus, LinkStatus, Status,
    userspace_capabilities,
};
use ovsdb::Replica;
use std::collections::BTreeMap;

/// A status that some of its bridges, interfaces and controllers have a part in.
pub fn status(replica: &Replica, dice: &mut Dice) -> Status {
    let mut status = Status {
        cur_cfg: some(dice, |_| control::next_cfg(replica)).flatten(),
        ovs_version: some(dice, word),
        datapath_types: some(dice, |dice| (0..dice.below(3)).map(|_| word(dice)).collect()),
        iface_types: some(dice, |dice| (0..dice.below(3)).map(|_| word(dice)).collect()),
        capabilities: some(dice, |_| userspace_capabilities()),
        dpdk_runs: dice.below(2) == 0,
        dpdk_version: some(dice, word),
        ..Status::default()
    };
    for (_, row) in replica.rows("Bridge") {
        let name = row.str("name").unwrap_or_default();
        let bridge =
            BridgeStatus { datapath_id: DatapathId(number(dice) as u64), error: some(dice, word) };
        if dice.below(4) != 0 {
            status.bridges.insert(name.to_owned(), bridge);
        }
        for row in row.uuids("controller").iter().filter_map(|id| replica.row("Controller", *id)) {
            let target = row.str("target").unwrap_or_default();
            let controller = ControllerStatus {
                is_connected: dice.below(2) == 0,
                role: some(dice, role),
                status: words(dice),
            };
            status.controllers.insert((name.to_owned(), target.to_owned()), controller);
        }
    }
    for (_, row) in replica.rows("Interface") {
        let name = row.str("name").unwrap_or_default();
        status.interfaces.insert(name.to_owned(), interface(dice));
    }
    status
}

fn interface(dice: &mut Dice) -> InterfaceStatus {
    if dice.below(4) == 0 {
        return InterfaceStatus::Failed { error: word(dice) };
    }
    InterfaceStatus::Running(Box::new(LinkStatus {
        ofport: OfPort(number(dice) as u16),
        error: some(dice, word),
        mac: some(dice, |dice| MacAddr([2, 0, 0, 0, 0, dice.below(256) as u8])),
        ifindex: number(dice) as u32,
        admin_up: some(dice, |dice| dice.below(2) == 0),
        link_up: dice.below(2) == 0,
        link_resets: number(dice),
        link_speed_bps: some(dice, number),
        full_duplex: some(dice, |dice| dice.below(2) == 0),
        mtu: some(dice, number),
        status: words(dice),
        bfd_status: words(dice),
        statistics: some(dice, |dice| {
            (0..dice.below(4)).map(|_| (word(dice), number(dice))).collect()
        }),
    }))
}

fn role(dice: &mut Dice) -> ControllerRole {
    let all = [ControllerRole::Other, ControllerRole::Primary, ControllerRole::Secondary];
    all[dice.below(3)]
}

/// Words that are hard to write, and some that are not.
fn word(dice: &mut Dice) -> String {
    let all = ["", "netdev", "up", "a\"b\\c", "\u{1}\n", "ä😀", "set", "rx_packets"];
    all[dice.below(all.len())].to_owned()
}

fn words(dice: &mut Dice) -> BTreeMap<String, String> {
    (0..dice.below(4)).map(|_| (word(dice), word(dice))).collect()
}

fn number(dice: &mut Dice) -> i64 {
    [0, 1, 65_535, u32::MAX.into(), i64::MAX, i64::MIN, -1][dice.below(7)]
}

fn some<T>(dice: &mut Dice, of: impl FnOnce(&mut Dice) -> T) -> Option<T> {
    (dice.below(4) != 0).then(|| of(dice))
}
