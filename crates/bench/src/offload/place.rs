//! Two hosts in namespaces, and the forwarder between them.

use super::Forwarder;
use crate::BenchError;
use std::path::Path;
use std::time::Duration;
use testbed::Switch;
use testbed::stock::Stock;
use testbed::switch::number_after;

/// Where `ip netns` keeps namespaces.
const NAMESPACES: &str = "/run/netns";

/// The rules of the switch, and of the kernel: all that is tracked passes.
const RULES: [&str; 4] = [
    "priority=10,arp,actions=normal",
    "priority=9,udp,ct_state=-trk,actions=ct(table=0)",
    "priority=9,udp,ct_state=+trk+new,actions=ct(commit),normal",
    "priority=9,udp,ct_state=+trk+est,actions=normal",
];
const NFTABLES: &str = "table ip t { chain f { type filter hook forward priority 0; policy drop; \
                        ct state established accept; meta l4proto udp ct state new accept; }; }";

/// The hosts `client` and `server` with their device `eth0`, and the forwarder.
pub struct Place {
    forwarder: Forwarder,
    switch: Option<Switch>,
}

impl Place {
    /// Builds the path from one host to the other.
    pub fn build(forwarder: Forwarder) -> Result<Place, BenchError> {
        for host in ["client", "server"] {
            run(&format!("ip netns add {host}"))?;
        }
        let mut place = Place { forwarder, switch: None };
        match forwarder {
            Forwarder::Direct => {
                run("ip link add eth0 netns client type veth peer name eth0 netns server")?;
                place.address("10.0.0.1/24", "10.0.0.2/24")?;
            }
            Forwarder::Switch | Forwarder::Offload => {
                place.cables()?;
                place.address("10.0.0.1/24", "10.0.0.2/24")?;
                place.start_switch()?;
            }
            Forwarder::Kernel => {
                place.cables()?;
                place.address("10.0.1.1/24", "10.0.2.1/24")?;
                place.route()?;
            }
        }
        Ok(place)
    }

    fn cables(&self) -> Result<(), BenchError> {
        for (host, port) in [("client", "p0"), ("server", "p1")] {
            run(&format!("ip link add {port} type veth peer name eth0 netns {host}"))?;
            run(&format!("ip link set {port} up"))?;
        }
        Ok(())
    }

    fn address(&self, client: &str, server: &str) -> Result<(), BenchError> {
        for (host, address) in [("client", client), ("server", server)] {
            run(&format!("ip -n {host} addr add {address} dev eth0"))?;
            run(&format!("ip -n {host} link set eth0 up"))?;
        }
        Ok(())
    }

    fn route(&self) -> Result<(), BenchError> {
        for (host, port, gateway) in [("client", "p0", "10.0.1.2"), ("server", "p1", "10.0.2.2")] {
            run(&format!("ip addr add {gateway}/24 dev {port}"))?;
            run(&format!("ip -n {host} route add default via {gateway}"))?;
        }
        run("sysctl -q -w net.ipv4.ip_forward=1")?;
        let loaded = Stock::new("nft").word(NFTABLES).ask()?;
        match loaded.ok() {
            true => Ok(()),
            false => Err(BenchError::WrongWork(format!("nft: {}", loaded.stderr.trim()))),
        }
    }

    fn start_switch(&mut self) -> Result<(), BenchError> {
        self.switch = Some(Switch::start(None)?);
        let ports = "-- add-port br0 p0 -- add-port br0 p1";
        run(&format!(
            "ovs-vsctl --timeout=50 add-br br0 -- set bridge br0 datapath_type=netdev fail-mode=secure {ports}"
        ))?;
        for rule in RULES {
            Stock::new("ovs-ofctl add-flow br0").word(rule).run()?;
        }
        if self.forwarder == Forwarder::Offload {
            run("ovs-vsctl --timeout=50 set Open_vSwitch . other_config:hw-offload=true -- set \
                 interface p0 options:xdp-offload=true -- set interface p1 options:xdp-offload=true")?;
            if let Err(why) = offload_statistics()? {
                return Err(BenchError::WrongWork(format!("connections are not offloaded: {why}")));
            }
        }
        Ok(())
    }

    /// The addresses of client and server.
    pub fn addresses(&self) -> [&'static str; 2] {
        if self.forwarder == Forwarder::Kernel {
            ["10.0.1.1", "10.0.2.1"]
        } else {
            ["10.0.0.1", "10.0.0.2"]
        }
    }

    /// The file of a host's network namespace.
    pub fn namespace(host: &str) -> std::path::PathBuf {
        Path::new(NAMESPACES).join(host)
    }

    /// Packets that arrived at the server.
    pub fn arrived(&self) -> Result<u64, BenchError> {
        let text = run("ip -n server -s -j link show dev eth0")?;
        let stats: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let packets = stats[0]["stats64"]["rx"]["packets"].as_u64();
        packets.ok_or_else(|| BenchError::WrongWork(format!("ip tells no counters: {text}")))
    }

    /// Waits until connections are offloaded, if they are to be.
    pub fn settle(&self) -> Result<(), BenchError> {
        if self.forwarder != Forwarder::Offload {
            return Ok(());
        }
        for _ in 0..50 {
            let text = offload_statistics()?.unwrap_or_default();
            if number_after(&text, "CT bi-dir Connections: ").is_some_and(|count| count > 0) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(BenchError::WrongWork("the connection was not offloaded".to_owned()))
    }

    /// Packets that the device forwarded.
    pub fn offloaded(&self) -> Result<u64, BenchError> {
        if self.forwarder != Forwarder::Offload {
            return Ok(0);
        }
        let text = offload_statistics()?.unwrap_or_default();
        Ok(number_after(&text, "Forwarded packets: ").unwrap_or(0))
    }

    /// Processor time of the switch.
    pub fn switch_time(&self) -> Duration {
        let Some(switch) = &self.switch else { return Duration::ZERO };
        let tasks = std::fs::read_dir(format!("/proc/{}/task", switch.pid()));
        let ns = tasks.into_iter().flatten().flatten().filter_map(|task| {
            let times = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            times.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(ns.sum())
    }

    /// Removes everything, so that the next forwarder starts from scratch.
    pub fn remove(self) -> Result<(), BenchError> {
        if let Some(switch) = self.switch {
            switch.stop()?;
        }
        if self.forwarder == Forwarder::Kernel {
            run("nft flush ruleset")?;
        }
        if self.forwarder != Forwarder::Direct {
            run("ip link del p0")?;
            run("ip link del p1")?;
        }
        for host in ["client", "server"] {
            run(&format!("ip netns del {host}"))?;
        }
        Ok(())
    }
}

/// The offload statistics of the switch; the inner error is its refusal.
fn offload_statistics() -> Result<Result<String, String>, BenchError> {
    let answer = Stock::new("ovs-appctl -T 5 dpctl/offload-stats-show").ask()?;
    if answer.ok() {
        // Numbers follow any amount of white space.
        let words: Vec<&str> = answer.stdout.split_whitespace().collect();
        return Ok(Ok(words.join(" ")));
    }
    Ok(Err(answer.stderr.trim().to_owned()))
}

fn run(line: &str) -> Result<String, BenchError> {
    Ok(Stock::new(line).run()?)
}
