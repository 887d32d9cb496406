//! Real hosts: a network namespace each, with the kernel's ARP and TCP, and a veth to a switch.

use crate::BenchError;
use crate::slow_path::seconds;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{File, read_to_string};
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;
use testbed::stock::Stock;

const PORT: u16 = 5001;
/// Bytes of a transfer.
const BYTES: usize = 10_000;
/// A transfer that takes longer has failed: what a kernel's three ARP requests and SYNs take together.
const PATIENCE: Duration = Duration::from_secs(8);

/// A host by its number.
#[derive(Clone, Copy)]
pub struct Host(u16);

impl Host {
    /// The host of this number.
    pub fn new(number: u16) -> Host {
        Host(number)
    }

    fn name(self) -> String {
        format!("h{}", self.0)
    }

    /// The switch's end of its veth.
    pub fn device(self) -> String {
        format!("v{}", self.0)
    }

    /// Its address.
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::from(0x0a00_0001 + u32::from(self.0))
    }

    fn mac(self) -> String {
        let [high, low] = self.0.to_be_bytes();
        format!("02:00:00:01:{high:02x}:{low:02x}")
    }

    /// The host that its transfer goes to.
    pub fn peer(self, hosts: usize) -> Host {
        Host(((usize::from(self.0) + hosts / 2) % hosts) as u16)
    }

    /// Makes its namespace and its veth. Without offloads its packets have whole checksums, since Open vSwitch 3.1
    /// forwards partial ones as they are.
    pub fn build(self, offloads: bool) -> Result<(), BenchError> {
        let (name, device) = (self.name(), self.device());
        let on = |line: String| Stock::new(&format!("ip -n {name} {line}")).run().map(drop);
        Stock::new(&format!("ip netns add {name}")).run()?;
        Stock::new(&format!("ip link add {device} type veth peer name eth0 netns {name}")).run()?;
        let quiet = format!("sysctl -qw net.ipv6.conf.{device}.disable_ipv6=1");
        // Without IPv6 in the kernel there is nothing to turn off.
        Stock::new(&quiet).ask()?;
        Stock::new("sysctl -qw net.ipv6.conf.all.disable_ipv6=1").on(&name).ask()?;
        Stock::new(&format!("ip link set {device} up")).run()?;
        on("link set lo up".into())?;
        on(format!("link set eth0 address {} up", self.mac()))?;
        on(format!("addr add {}/16 dev eth0", self.address()))?;
        if !offloads {
            Stock::new("ethtool -K eth0 tx off tso off gso off").on(&name).run()?;
        }
        Ok(())
    }

    /// The hosts that it talks to.
    fn others(self, hosts: &[Host]) -> impl Iterator<Item = Host> {
        let (all, number) = (hosts.len(), self.0);
        let is_other = move |it: &Host| it.0 == self.peer(all).0 || it.peer(all).0 == number;
        hosts.iter().copied().filter(is_other)
    }

    /// Has it forget the addresses of the hosts that it talks to.
    pub fn clear_cache(self, hosts: &[Host]) -> Result<(), BenchError> {
        for other in self.others(hosts) {
            let (name, address) = (self.name(), other.address());
            // It may not know the address.
            Stock::new(&format!("ip -n {name} neigh del {address} dev eth0")).ask()?;
        }
        Ok(())
    }

    /// Gives it the addresses of the hosts that it talks to, for good.
    pub fn fill_cache(self, hosts: &[Host]) -> Result<(), BenchError> {
        for other in self.others(hosts) {
            let (name, address, mac) = (self.name(), other.address(), other.mac());
            let line =
                format!("ip -n {name} neigh replace {address} lladdr {mac} dev eth0 nud permanent");
            Stock::new(&line).run()?;
        }
        Ok(())
    }

    /// Does something on a thread in the host's namespace; none where that cannot be entered.
    fn inside<T: Send>(self, work: impl FnOnce() -> T + Send) -> Option<T> {
        let run = move || {
            let place = File::open(format!("/run/netns/{}", self.name())).ok()?;
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(place.as_fd(), kind).ok()?;
            Some(work())
        };
        thread::scope(|scope| scope.spawn(run).join().ok().flatten())
    }

    /// Reads one transfer to its end. The thread waits at the barrier once it listens.
    pub fn serve(self, barrier: &Barrier) {
        let listener =
            self.inside(|| TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT))));
        barrier.wait();
        let Some(Ok(listener)) = listener else { return };
        // A socket stays in the namespace in which it was made. Its peer may give up.
        let begun = clock::now();
        if listener.set_nonblocking(true).is_err() {
            return;
        }
        while clock::now() - begun < PATIENCE {
            let Ok((mut stream, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            let _ = stream.set_nonblocking(false);
            let _ = stream.set_read_timeout(Some(PATIENCE));
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes);
            let _ = stream.write_all(&(bytes.len() as u32).to_be_bytes());
            return;
        }
    }

    /// Sends a transfer. Returns how long its connection took to open, in milliseconds, if all of it arrived.
    pub fn send(self, to: Host, barrier: &Barrier) -> Option<f64> {
        barrier.wait();
        let transfer = || -> std::io::Result<Option<f64>> {
            let begun = clock::now();
            let mut stream = TcpStream::connect_timeout(&(to.address(), PORT).into(), PATIENCE)?;
            let opened_ms = 1e3 * seconds(begun, clock::now());
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(&[0; BYTES])?;
            stream.shutdown(std::net::Shutdown::Write)?;
            let mut came = [0; 4];
            stream.read_exact(&mut came)?;
            Ok((u32::from_be_bytes(came) as usize == BYTES).then_some(opened_ms))
        };
        self.inside(transfer)?.ok().flatten()
    }
}

/// TCP segments that the hosts' kernels sent again.
pub fn retransmissions(hosts: &[Host]) -> Result<u64, BenchError> {
    let each = hosts.iter().map(|host| {
        host.inside(|| read_to_string("/proc/thread-self/net/snmp").ok())
            .flatten()
            .and_then(|text| segments_sent_again(&text))
    });
    let unreadable = || BenchError::WrongWork("/proc/thread-self/net/snmp cannot be read".into());
    each.sum::<Option<u64>>().ok_or_else(unreadable)
}

/// `RetransSegs` of the two lines `Tcp:` with names and numbers.
fn segments_sent_again(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|name| name == "RetransSegs")?;
    numbers.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_were_sent_again_are_read() {
        let text =
            "Ip: Forwarding\nIp: 1\nTcp: RtoMin OutSegs RetransSegs InErrs\nTcp: 200 7 3 0\n";
        assert_eq!(segments_sent_again(text), Some(3));
        assert_eq!(segments_sent_again("Tcp: OutSegs\nTcp: 7\n"), None);
        assert_eq!(segments_sent_again(""), None);
    }

    #[test]
    fn each_host_has_another_one_to_send_to() {
        for hosts in [2u16, 3, 8] {
            let mut peers: Vec<u16> = (0..hosts).map(|n| Host(n).peer(hosts.into()).0).collect();
            assert!((0..hosts).zip(&peers).all(|(n, peer)| n != *peer));
            peers.sort_unstable();
            assert_eq!(peers, (0..hosts).collect::<Vec<_>>());
        }
        assert_eq!(Host(258).mac(), "02:00:00:01:01:02");
        assert_eq!(Host(258).address().to_string(), "10.0.1.3");
    }
}
