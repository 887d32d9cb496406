//! The devices for offload: XDP for system devices, `rte_flow` for DPDK devices.

use base::PortNo;
use flow::{
    FlowOffload, OffloadId, OffloadRefusal, OffloadRule, OffloadStatus, OffloadTraffic, Refusal,
    TcpWindows, WindowCheck,
};
use offload_dpdk::DpdkOffload;
use offload_xdp::{ProgramError, XdpOffload};
use port_dpdk::DpdkRules;
use std::time::Duration;

/// Set in the id of a DPDK device's rule.
const IS_DPDK: u32 = 1 << 31;

/// All offload devices as one. The input port of the packets selects the device.
pub struct Devices {
    /// `Some` if the kernel accepts the program.
    xdp: Option<XdpOffload>,
    dpdk: DpdkOffload<DpdkRules>,
}

impl Devices {
    /// Creates the available devices, with room for this many connections in the kernel. Also returns why XDP
    /// is not available.
    pub fn new(connections: u32) -> (Devices, Result<(), ProgramError>) {
        let (xdp, possible) = match XdpOffload::new(connections) {
            Ok(xdp) => (Some(xdp), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let dpdk = DpdkOffload::new(DpdkRules::new());
        (Devices { xdp, dpdk }, possible)
    }

    /// Permits output to a system device; see [`XdpOffload::add_port`].
    ///
    /// # Errors
    /// The device does not accept the program.
    pub fn add_port(
        &mut self,
        port: PortNo,
        place: (&str, u32, u32),
        receives: bool,
    ) -> Result<bool, ProgramError> {
        self.xdp.as_mut().map_or(Ok(false), |xdp| xdp.add_port(port, place, receives))
    }

    /// Permits input from and output to a DPDK port. Returns whether the port is new or changed.
    pub fn add_dpdk_port(&mut self, port: PortNo, number: u16, mtu: u32) -> bool {
        self.dpdk.add_port(port, number, mtu)
    }

    /// Removes a port. The caller removes the port's rules.
    pub fn remove_port(&mut self, port: PortNo) {
        if let Some(xdp) = &mut self.xdp {
            xdp.remove_port(port);
        }
        self.dpdk.remove_port(port);
    }

    /// Whether packets of a port may be offloaded.
    pub fn receives_from(&self, port: PortNo) -> bool {
        self.dpdk.receives_from(port) || self.xdp.as_ref().is_some_and(|it| it.receives_from(port))
    }

    /// How many VLAN tags XDP saw in the frames of a port whose packets it forwards; see [`XdpOffload::tags`].
    pub fn tags(&self, port: PortNo) -> Option<u64> {
        self.xdp.as_ref()?.tags(port)
    }

    /// The device with a rule, and its own id of the rule.
    fn of(&mut self, id: OffloadId) -> Option<(&mut dyn FlowOffload, OffloadId)> {
        if id.0 & IS_DPDK != 0 {
            return Some((&mut self.dpdk, OffloadId(id.0 & !IS_DPDK)));
        }
        self.xdp.as_mut().map(|xdp| (xdp as &mut dyn FlowOffload, id))
    }
}

impl FlowOffload for Devices {
    fn install(&mut self, rule: &OffloadRule, idle: Duration) -> Result<OffloadId, OffloadRefusal> {
        let is_dpdk = self.dpdk.receives_from(rule.in_port());
        let device: &mut dyn FlowOffload = match &mut self.xdp {
            _ if is_dpdk => &mut self.dpdk,
            Some(xdp) => xdp,
            None => return Err(Refusal::InPort.into()),
        };
        device.install(rule, idle).map(|id| OffloadId(id.0 | if is_dpdk { IS_DPDK } else { 0 }))
    }

    fn window_check(&self, rule: &OffloadRule) -> WindowCheck {
        let is_dpdk = self.dpdk.receives_from(rule.in_port());
        if is_dpdk { self.dpdk.window_check(rule) } else { WindowCheck::Never }
    }

    fn install_checked(
        &mut self,
        rules: [&OffloadRule; 2],
        windows: &TcpWindows,
    ) -> Result<[OffloadId; 2], OffloadRefusal> {
        let ids = self.dpdk.install_checked(rules, windows)?;
        Ok(ids.map(|id| OffloadId(id.0 | IS_DPDK)))
    }

    fn set_checked(&mut self, id: OffloadId, is_checked: bool) -> bool {
        self.of(id).is_some_and(|(device, id)| device.set_checked(id, is_checked))
    }

    fn end_checked(&mut self, id: OffloadId) -> Option<TcpWindows> {
        let (device, id) = self.of(id)?;
        device.end_checked(id)
    }

    fn only_marks(&self, id: OffloadId) -> Option<OffloadRefusal> {
        (id.0 & IS_DPDK != 0).then(|| self.dpdk.only_marks(OffloadId(id.0 & !IS_DPDK))).flatten()
    }

    fn remove(&mut self, id: OffloadId) -> OffloadTraffic {
        self.of(id).map_or_else(OffloadTraffic::default, |(device, id)| device.remove(id))
    }

    fn status(&mut self, id: OffloadId) -> OffloadStatus {
        self.of(id).map_or_else(OffloadStatus::default, |(device, id)| device.status(id))
    }

    fn passed(&self) -> Vec<(&'static str, u64)> {
        self.xdp.as_ref().map_or_else(Vec::new, |xdp| xdp.passed())
    }
}
