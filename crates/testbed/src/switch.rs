//! The switch and its database. It is controlled only by commands of the stock tools, so that it can be any
//! daemon that supports them.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use crate::Check;
use crate::TestbedError;
use crate::namespaces::{FOLDER, RUN_FOLDER};
use crate::programs::SCHEMA;
use crate::stock::{Stock, end_of, start};

/// The published rule set of the connection-tracking measurements, with an additional rule for ARP, since the
/// hosts of the test bed do not know each other's Ethernet addresses.
pub const RULES: &str = "\
priority=1 ip ct_state=-trk actions=ct(table=0)
priority=1 ip ct_state=+trk+new in_port=client actions=ct(commit),normal
priority=1 ip ct_state=+trk+est actions=normal
priority=0 actions=drop
priority=2,arp actions=normal
";
/// The file that [`RULES`] are loaded from.
pub const RULES_FILE: &str = "/run/tidegate/rules";

/// The timeouts published with the rules, in seconds.
const TIMEOUTS: &str = "udp_first=1 udp_single=1 udp_multiple=30 tcp_syn_sent=1 tcp_syn_recv=1 \
                        tcp_fin_wait=1 tcp_time_wait=1 tcp_close=1 tcp_established=30";

/// The running switch and its database. Both end with the namespaces.
#[derive(Debug)]
pub struct Switch {
    daemon: Child,
    database: Child,
}

/// Counters of the switch since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Packets received on the ports of both hosts.
    pub packets: u64,
    /// Drops and errors of these ports, and lost upcalls.
    pub drops: u64,
    /// Connections in the table.
    pub tracked: u64,
}

impl Switch {
    /// Starts a database and the switch: `program`, or this program.
    pub fn start(program: Option<&Path>) -> Result<Switch, TestbedError> {
        Switch::start_on(program, None)
    }

    /// Starts them, the switch only on these processors (in the syntax of `taskset -c`).
    pub fn start_on(program: Option<&Path>, cpus: Option<&str>) -> Result<Switch, TestbedError> {
        let database = start_database()?;
        let own = env::current_exe().map_err(TestbedError::io("find this program's file"))?;
        // The tools find the daemon by the name under which it was started.
        let named = Path::new(FOLDER).join("ovs-vswitchd");
        symlink(program.unwrap_or(&own), &named).map_err(TestbedError::io("name the switch"))?;
        let mut command = match cpus {
            Some(cpus) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cpus]).arg(&named);
                command
            }
            None => Command::new(&named),
        };
        command.arg(format!("unix:{RUN_FOLDER}/db.sock"));
        command.args(["--pidfile", "--log-file", "-vconsole:off", "-vsyslog:off"]);
        let daemon = start(&mut command, &format!("{FOLDER}/switch.printed"))?;
        let mut switch = Switch { daemon, database };
        for _ in 0..100 {
            switch.must_run()?;
            if Stock::new("ovs-appctl -T 2 version").ask()?.ok() {
                return Ok(switch);
            }
            sleep(Duration::from_millis(100));
        }
        Err(switch.failure("the switch does not answer ovs-appctl"))
    }

    /// Ends the switch and its database, so that others can be started.
    pub fn stop(mut self) -> Result<(), TestbedError> {
        for process in [&mut self.daemon, &mut self.database] {
            // It fails if the process has ended already.
            let _ = process.kill();
            process.wait().map_err(TestbedError::io("wait for the switch to end"))?;
        }
        for file in ["ovs-vswitchd", "conf.db", ".conf.db.~lock~"] {
            // It fails if the file does not exist.
            let _ = fs::remove_file(Path::new(FOLDER).join(file));
        }
        for entry in fs::read_dir(RUN_FOLDER).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        Ok(())
    }

    /// Returns the process id of the switch.
    pub fn pid(&self) -> u32 {
        self.daemon.id()
    }

    /// Returns the first line of `ovs-appctl version`.
    pub fn version(&self) -> Result<String, TestbedError> {
        let text = Stock::new("ovs-appctl version").run()?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    /// Creates the bridge and its ports, sets the timeouts, and loads the rules.
    pub fn configure(&mut self) -> Result<(), TestbedError> {
        let lines = [
            "ovs-vsctl --timeout=15 add-br br0 -- set bridge br0 datapath_type=netdev \
             fail-mode=secure -- add-port br0 client -- add-port br0 server"
                .to_owned(),
            "ovs-vsctl --timeout=15 -- --id=@m create Datapath datapath_version=0 \
             -- set Open_vSwitch . datapaths:netdev=@m"
                .to_owned(),
            format!("ovs-vsctl --timeout=15 add-zone-tp netdev zone=0 {TIMEOUTS}"),
            format!("ovs-ofctl add-flows br0 {RULES_FILE}"),
        ];
        fs::write(RULES_FILE, RULES).map_err(TestbedError::io(format!("write {RULES_FILE}")))?;
        for line in lines {
            let result = Stock::new(&line).run();
            self.must_run()?;
            result?;
        }
        for port in ["client", "server"] {
            let line = Stock::new(&format!("ovs-vsctl get interface {port} ofport error"));
            let answer = line.run()?;
            if answer.trim().starts_with("-1") || answer.trim().starts_with("[]") {
                return Err(self.failure(&format!("the switch has no port {port}: {answer}")));
            }
        }
        Ok(())
    }

    /// Checks that the switch has exactly the loaded rules.
    pub fn rules_read_back(&self) -> Result<Check, TestbedError> {
        let answer = Stock::new(&format!("ovs-ofctl --names diff-flows br0 {RULES_FILE}")).ask()?;
        let text = if answer.ok() {
            format!("{} rules loaded, and read back as they were", RULES.lines().count())
        } else {
            format!("rules read back: {}{}", answer.stdout.trim(), answer.stderr.trim())
        };
        Ok(Check::new("rules_read_back", answer.ok(), text))
    }

    /// Checks that the database contains the timeouts and that the switch supports them.
    pub fn timeouts_read_back(&self) -> Result<Check, TestbedError> {
        let policies = Stock::new("ovs-vsctl list-zone-tp netdev").run()?;
        let able = Stock::new("ovs-vsctl list-dp-cap netdev").run()?.contains("ct_timeout=true");
        let ok = able && TIMEOUTS.split_whitespace().all(|one| policies.contains(one));
        Ok(Check::new("timeouts", ok, format!("timeouts of zone 0, in seconds: {TIMEOUTS}")))
    }

    /// Checks that the last rule counted the packets that are not allowed.
    pub fn drops_counted(&self) -> Result<Check, TestbedError> {
        let flows = Stock::new("ovs-ofctl dump-flows br0").run()?;
        let counted = flows.lines().filter(|line| line.contains("priority=0 actions=drop"));
        let refused: u64 = counted.filter_map(|line| number_after(line, "n_packets=")).sum();
        let text = format!("`priority=0 actions=drop` has counted {refused} packets");
        Ok(Check::new("drops_counted", refused > 0, text))
    }

    /// Checks that the switch still runs.
    pub fn still_runs(&mut self) -> Result<Check, TestbedError> {
        let ended = self.daemon.try_wait().map_err(TestbedError::io("look after the switch"))?;
        let text = match ended {
            None => "the switch is still running".to_owned(),
            Some(status) => format!("the switch has ended ({status})"),
        };
        Ok(Check::new("switch_still_runs", ended.is_none(), text))
    }

    /// Returns the current counters.
    pub fn read(&mut self) -> Result<Reading, TestbedError> {
        self.must_run()?;
        let mut reading = Reading::default();
        for port in ["client", "server"] {
            let text = Stock::new(&format!("ovs-ofctl dump-ports br0 {port}")).run()?;
            let (packets, drops) = port_counts(&text);
            reading.packets += packets;
            reading.drops += drops;
        }
        let text = Stock::new("ovs-appctl dpctl/show").run()?;
        reading.drops += number_after(&text, "lost:").unwrap_or(0);
        let text = Stock::new("ovs-appctl dpctl/ct-get-nconns").run()?;
        reading.tracked = text.trim().parse().map_err(|_| TestbedError::Unreadable {
            line: "ovs-appctl dpctl/ct-get-nconns".to_owned(),
            answer: text.chars().take(200).collect(),
        })?;
        Ok(reading)
    }

    /// Returns the connections, one per line.
    pub fn connections(&self) -> Result<String, TestbedError> {
        Stock::new("ovs-appctl dpctl/dump-conntrack").run()
    }

    /// Returns an error if the switch has ended.
    pub fn must_run(&mut self) -> Result<(), TestbedError> {
        match self.daemon.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.failure(&format!("the switch has ended ({status})"))),
            Err(error) => Err(TestbedError::Io { what: "look after the switch".to_owned(), error }),
        }
    }

    /// Returns an error with this text and the end of the switch's log.
    pub fn failure(&self, what: &str) -> TestbedError {
        let printed = end_of(&format!("{FOLDER}/switch.printed"));
        let log = end_of(&format!("{FOLDER}/ovs-vswitchd.log"));
        TestbedError::Daemon { what: what.to_owned(), log: format!("{printed}\n{log}") }
    }
}

fn start_database() -> Result<Child, TestbedError> {
    Stock::new(&format!("ovsdb-tool create {FOLDER}/conf.db {SCHEMA}")).run()?;
    let line = format!(
        "ovsdb-server {FOLDER}/conf.db --remote=punix:{RUN_FOLDER}/db.sock --pidfile \
         --log-file={FOLDER}/ovsdb-server.log -vconsole:off -vsyslog:off"
    );
    let database = Stock::new(&line).start(&format!("{FOLDER}/ovsdb-server.printed"))?;
    for _ in 0..50 {
        if Path::new(RUN_FOLDER).join("db.sock").exists() {
            Stock::new("ovs-vsctl --no-wait --timeout=5 init").run()?;
            return Ok(database);
        }
        sleep(Duration::from_millis(100));
    }
    let log = end_of(&format!("{FOLDER}/ovsdb-server.log"));
    Err(TestbedError::Daemon { what: "ovsdb-server does not come up".to_owned(), log })
}

/// Returns the received packets, and the sum of all drops and errors, of one port in the output of `ovs-ofctl
/// dump-ports`. A `?` means that the port does not have the counter.
fn port_counts(text: &str) -> (u64, u64) {
    let packets = number_after(text, "rx pkts=").unwrap_or(0);
    let drops = ["drop=", "errs="].iter().flat_map(|key| text.split(key).skip(1));
    (packets, drops.filter_map(leading_number).sum())
}

/// Returns the number after a key.
pub fn number_after(text: &str, key: &str) -> Option<u64> {
    leading_number(text.split_once(key)?.1)
}

/// Returns the number at the start of a text.
pub fn leading_number(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{number_after, port_counts};

    #[test]
    fn reads_port_counters() {
        let check = |text: &str, expect| assert_eq!(port_counts(text), expect, "{text}");
        let port = "OFPST_PORT reply (xid=0x4): 1 ports\n  port  1: rx pkts=177, bytes=1525, \
                    drop=3, errs=1, frame=0, over=0, crc=0\n           tx pkts=175, bytes=2672, \
                    drop=5, errs=?, coll=0\n";
        check(port, (177, 9));
        check("", (0, 0));
        check("rx pkts=?, drop=?", (0, 0));
    }

    #[test]
    fn reads_numbers_after_keys() {
        let check = |text, key, expect| assert_eq!(number_after(text, key), expect, "{text}");
        check("lookups: hit:24 missed:2 lost:7\n", "lost:", Some(7));
        check("n_packets=19, n_bytes=5", "n_packets=", Some(19));
        check("n_packets=", "n_packets=", None);
        check("n_packets=99999999999999999999", "n_packets=", None);
        check("", "lost:", None);
    }
}
