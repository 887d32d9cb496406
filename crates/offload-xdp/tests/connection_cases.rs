//! Runs the cases of connection tracking with offload to the XDP program.

#[path = "../../datapath/tests/support/offloaded.rs"]
mod offloaded;
#[path = "../../conntrack/tests/support/mod.rs"]
mod support;

use base::PortNo;
use flow::FlowOffload;
use offload_xdp::XdpOffload;
use offloaded::{DEVICES, FIRST_IN, Forwards, MTU};
use std::process::Command;
use std::sync::Mutex;

impl Forwards for XdpOffload {
    fn offload(&mut self) -> &mut dyn FlowOffload {
        self
    }

    fn try_frame(&mut self, port: PortNo, frame: &[u8]) -> Option<(bool, Vec<u8>)> {
        XdpOffload::try_frame(self, port, frame).ok()
    }

    fn send_to(&mut self, port: PortNo) {
        self.add_port(port, ("lo", 1, MTU), false).unwrap();
    }
}

/// Returns the program on devices of a new namespace, or the reason why that is not possible.
fn devices() -> Result<XdpOffload, String> {
    // SAFETY: unshare() takes a number; the new namespace affects only this thread, which ends with the test.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err("network namespaces take more rights".to_owned());
    }
    let mut offload = XdpOffload::new(4096).map_err(|error| error.to_string())?;
    for nth in 0..DEVICES {
        let line = format!("link add name in{nth} type veth peer name out{nth}");
        let made = Command::new("ip").args(line.split(' ')).status();
        if !made.is_ok_and(|status| status.success()) {
            return Err("ip does not make veths".to_owned());
        }
        let name = std::ffi::CString::new(format!("in{nth}")).expect("no zero byte");
        // SAFETY: a C string that lives until the call returns.
        let ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let place = (&*format!("in{nth}"), ifindex, MTU);
        offload.add_port(PortNo(FIRST_IN + nth), place, true).map_err(|it| it.to_string())?;
    }
    Ok(offload)
}

#[test]
fn with_offload_all_that_is_known_of_packets_is_the_same() {
    let run = || {
        let name = "connection cases with offload";
        if !XdpOffload::is_built() {
            println!("\nSKIPPED: {name}: built without clang");
            return;
        }
        let device = match devices() {
            Ok(device) => Mutex::new(device),
            Err(why) => {
                println!("\nSKIPPED: {name}: {why}");
                return;
            }
        };
        offloaded::check_all(&device, &offloaded::NOT_WITH_OFFLOAD);
    };
    std::thread::spawn(run).join().unwrap();
}
