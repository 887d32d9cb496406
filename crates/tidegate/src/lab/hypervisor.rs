//! Hypervisors: namespaces with a database, a switch, a physical and an integration bridge.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Child;
use std::thread::sleep;
use std::time::Duration;
use testbed::TestbedError;
use testbed::namespaces::FOLDER;
use testbed::programs::SCHEMA;
use testbed::stock::{Stock, end_of};

/// The published rule sets, as printed.
const BR_EX: &str = include_str!("br-ex.rules");
const BR_INT: &str = include_str!("br-int.rules");
const NGINX: &str = include_str!("nginx.conf");
/// Number of hypervisors.
pub const COUNT: usize = 3;
/// MTU of the guests, so that VXLAN's headers fit into the underlay's 1,500 bytes.
const GUEST_MTU: u32 = 1450;

/// Clock ticks per second in `/proc`, which Linux has fixed (`USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

/// A switch to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch<'a> {
    /// Its name in results.
    pub name: &'static str,
    /// Its file, or none for this program.
    pub program: Option<&'a Path>,
    /// Whether it offloads connections to XDP.
    pub offloads: bool,
}

/// One hypervisor's database and switch.
#[derive(Debug)]
pub struct Hypervisor {
    number: usize,
    daemon: Child,
    database: Child,
}

/// Creates the underlay, the hypervisors' namespaces and the guests.
pub fn build_hosts(offloads: bool) -> Result<(), TestbedError> {
    let run = |line: String| Stock::new(&line).run().map(drop);
    run("ip link add underlay type bridge".to_owned())?;
    run("ip link set underlay up".to_owned())?;
    for n in 1..=COUNT {
        run(format!("ip netns add hv{n}"))?;
        run(format!("ip netns add guest{n}"))?;
        run(format!("ip link add u{n} type veth peer name eth2 netns hv{n}"))?;
        run(format!("ip link set u{n} master underlay up"))?;
        run(format!("ip -n hv{n} link set lo up"))?;
        run(format!("ip -n hv{n} link set eth2 up"))?;
        run(format!("ip -n hv{n} link add pf0vf0 type veth peer name eth0 netns guest{n}"))?;
        run(format!("ip -n hv{n} link set pf0vf0 up"))?;
        run(format!("ip -n guest{n} link set lo up"))?;
        let mac = format!("02:00:00:00:01:{n:02x}");
        run(format!("ip -n guest{n} link set eth0 address {mac} mtu {GUEST_MTU} up"))?;
        run(format!("ip -n guest{n} addr add 10.0.1.{n}/24 dev eth0"))?;
        if !offloads {
            let off = Stock::new("ethtool -K eth0 tx off tso off gso off");
            off.on(&format!("guest{n}")).run()?;
        }
        let ports = "echo 1024 65535 >/proc/sys/net/ipv4/ip_local_port_range";
        Stock::new("sh -c").word(ports).on(&format!("guest{n}")).run()?;
    }
    Ok(())
}

/// Starts the web server of the first guest.
pub fn start_nginx() -> Result<Child, TestbedError> {
    let folder = format!("{FOLDER}/nginx");
    fs::create_dir_all(&folder).map_err(TestbedError::io(format!("create {folder}")))?;
    let file = format!("{folder}/nginx.conf");
    fs::write(&file, NGINX.replace("{folder}", &folder))
        .map_err(TestbedError::io(format!("write {file}")))?;
    Stock::new(&format!("nginx -p {folder} -e {folder}/error.log -c {file}"))
        .on("guest1")
        .start(&format!("{folder}/printed"))
}

/// Starts all hypervisors with this switch.
pub fn start_all(switch: &Switch<'_>) -> Result<Vec<Hypervisor>, TestbedError> {
    (1..=COUNT).map(|number| Hypervisor::start(number, switch)).collect()
}

impl Hypervisor {
    fn start(number: usize, switch: &Switch<'_>) -> Result<Hypervisor, TestbedError> {
        let (host, folder) = (format!("hv{number}"), format!("{FOLDER}/hv{number}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(TestbedError::io(format!("create {folder}")))?;
        Stock::new(&format!("ovsdb-tool create {folder}/conf.db {SCHEMA}")).run()?;
        let line = format!(
            "env OVS_RUNDIR={folder} ovsdb-server {folder}/conf.db --remote=punix:{folder}/db.sock \
             --pidfile --log-file={folder}/ovsdb-server.log -vconsole:off -vsyslog:off"
        );
        let database = Stock::new(&line).on(&host).start(&format!("{folder}/ovsdb.printed"))?;
        wait_for(&format!("{folder}/db.sock"), &format!("{folder}/ovsdb.printed"))?;
        let own = env::current_exe().map_err(TestbedError::io("find this program's file"))?;
        let named = format!("{folder}/ovs-vswitchd");
        symlink(switch.program.unwrap_or(&own), &named)
            .map_err(TestbedError::io("name the switch"))?;
        let line = format!(
            "env OVS_RUNDIR={folder} {named} unix:{folder}/db.sock --pidfile \
             --log-file={folder}/ovs-vswitchd.log -vconsole:off -vsyslog:off"
        );
        let hypervisor = Hypervisor {
            number,
            daemon: Stock::new(&line).on(&host).start(&format!("{folder}/switch.printed"))?,
            database,
        };
        hypervisor.tool("ovs-vsctl --no-wait --timeout=5 init").run()?;
        hypervisor.configure()?;
        if switch.offloads {
            hypervisor
                .tool(
                    "ovs-vsctl --timeout=30 set open_vswitch . other_config:hw-offload=true \
                     -- set interface eth2 options:xdp-offload=true \
                     -- set interface pf0vf0 options:xdp-offload=true",
                )
                .run()?;
        }
        Ok(hypervisor)
    }

    /// Returns a stock tool for this hypervisor's switch.
    pub fn tool(&self, line: &str) -> Stock {
        Stock::new(&format!("env OVS_RUNDIR={FOLDER}/hv{} {line}", self.number))
            .on(&format!("hv{}", self.number))
    }

    /// Adds the bridges of the published configuration, with the names in its rules.
    fn configure(&self) -> Result<(), TestbedError> {
        let n = self.number;
        self.tool(
            "ovs-vsctl --timeout=30 add-br br-phy0 -- set bridge br-phy0 datapath_type=netdev \
             fail_mode=standalone -- add-port br-phy0 eth2 -- add-port br-phy0 br-int-patch \
             -- set interface br-int-patch type=patch options:peer=br-ex-patch \
             -- add-br br-int0 -- set bridge br-int0 datapath_type=netdev fail_mode=standalone \
             -- add-port br-int0 pf0vf0",
        )
        .run()?;
        for (bridge, rules) in [("br-phy0", BR_EX), ("br-int0", BR_INT)] {
            let file = self.rules_file(bridge);
            fs::write(&file, rules).map_err(TestbedError::io(format!("write {file}")))?;
            self.tool(&format!("ovs-ofctl del-flows {bridge}")).run()?;
            self.tool(&format!("ovs-ofctl --names add-flows {bridge} {file}")).run()?;
        }
        // Added last: with the default rules, bridges and tunnels would form a loop.
        self.tool(
            "ovs-vsctl --timeout=30 add-port br-int0 br-ex-patch \
             -- set interface br-ex-patch type=patch options:peer=br-int-patch",
        )
        .run()?;
        let run = |line: String| Stock::new(&line).run().map(drop);
        run(format!("ip -n hv{n} addr replace 1.1.1.{n}/24 dev br-phy0"))?;
        run(format!("ip -n hv{n} link set br-phy0 up"))?;
        // The other hypervisors are connected to the server's, as a star.
        let others: &[usize] = if n == 1 { &[2, 3] } else { &[1] };
        for (index, other) in others.iter().enumerate() {
            self.tool(&format!(
                "ovs-vsctl --timeout=30 add-port br-int0 vxlan{index} -- set interface vxlan{index} \
                 type=vxlan options:key=101 options:local_ip=1.1.1.{n} \
                 options:remote_ip=1.1.1.{other}"
            ))
            .run()?;
        }
        Ok(())
    }

    /// Returns the path of a bridge's rules file.
    pub fn rules_file(&self, bridge: &str) -> String {
        format!("{FOLDER}/hv{}/{bridge}.rules", self.number)
    }

    /// Returns the switch's processor time so far, in seconds (proc(5)).
    pub fn processor_s(&self) -> Result<f64, TestbedError> {
        let file = format!("/proc/{}/stat", self.daemon.id());
        let text = fs::read_to_string(&file).map_err(TestbedError::io(format!("read {file}")))?;
        let behind_name = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = behind_name.split(' ').collect();
        let ticks = |at: usize| fields.get(at).and_then(|it| it.parse::<u64>().ok());
        let (Some(user), Some(system)) = (ticks(11), ticks(12)) else {
            let answer = text.chars().take(200).collect();
            return Err(TestbedError::Unreadable { line: file, answer });
        };
        Ok((user + system) as f64 / TICKS_PER_S)
    }

    /// Stops the switch with its devices, and the database.
    pub fn stop(mut self) -> Result<(), TestbedError> {
        self.tool("ovs-appctl -T 10 exit --cleanup").run()?;
        self.daemon.wait().map_err(TestbedError::io("wait for the switch to end"))?;
        // A process that has ended needs no signal.
        let _ = self.database.kill();
        self.database.wait().map_err(TestbedError::io("wait for the database to end"))?;
        Ok(())
    }
}

fn wait_for(file: &str, printed: &str) -> Result<(), TestbedError> {
    for _ in 0..100 {
        if Path::new(file).exists() {
            return Ok(());
        }
        sleep(Duration::from_millis(100));
    }
    Err(TestbedError::Daemon { what: format!("{file} does not appear"), log: end_of(printed) })
}
