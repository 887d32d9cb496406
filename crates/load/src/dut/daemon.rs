//! A daemon under test in network namespaces: this program's switch or Open vSwitch's, both configured by the
//! stock tools.

use super::cores::Cores;
use super::profile;
use super::{Device, DutKind, Wanted, rules, setup};
use crate::error::LoadError;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;
use testbed::Switch;
use testbed::TestbedError;
use testbed::namespaces::FOLDER;
use testbed::stock::Stock;

/// A running daemon, which ends with the namespaces.
pub struct Daemon {
    wanted: Wanted,
    switch: Switch,
    version: String,
    cores: Option<Cores>,
    ports: Value,
}

impl Daemon {
    /// Starts Open vSwitch's `program`, or this program's switch, on these cores if given.
    pub fn start(
        wanted: &Wanted,
        program: &str,
        package: &str,
        cores: Option<Cores>,
    ) -> Result<Daemon, LoadError> {
        let program = (wanted.kind == DutKind::Ovs).then_some(Path::new(program));
        if let Some(missing) = program.filter(|program| !program.exists()) {
            return Err(LoadError::Options(format!(
                "there is no {}; install it: apt-get install {package}",
                missing.display()
            )));
        }
        let list = cores.as_ref().filter(|cores| cores.apart).map(Cores::device_list);
        let switch = Switch::start_on(program, list.as_deref())?;
        // This switch answers stock tools with the version of Open vSwitch that it replaces.
        let version = match wanted.kind {
            DutKind::Ovs => switch.version()?,
            _ => env!("CARGO_PKG_VERSION").to_owned(),
        };
        Ok(Daemon { wanted: *wanted, switch, version, cores, ports: Value::Null })
    }

    /// Adds the bridge with its ports (`add-port` commands of `ovs-vsctl`), the timeouts and the rules;
    /// `ports` describes the ports in results.
    pub fn configure(&mut self, add_ports: &str, ports: Value) -> Result<(), LoadError> {
        self.ports = ports;
        let file = format!("{FOLDER}/rules");
        fs::write(&file, rules(&self.wanted))
            .map_err(|source| LoadError::Write { file: file.clone().into(), source })?;
        let timeouts: Vec<String> =
            self.wanted.timeouts().map(|(name, seconds)| format!("{name}={seconds}")).collect();
        let lines = [
            format!(
                "ovs-vsctl --timeout=50 add-br br0 -- set bridge br0 datapath_type=netdev \
                 fail-mode=secure {add_ports}"
            ),
            "ovs-vsctl --timeout=50 -- --id=@m create Datapath datapath_version=0 \
             -- set Open_vSwitch . datapaths:netdev=@m"
                .to_owned(),
            format!("ovs-vsctl --timeout=50 add-zone-tp netdev zone=0 {}", timeouts.join(" ")),
            format!("ovs-appctl dpctl/ct-set-maxconns {}", self.wanted.maxconns),
            format!("ovs-ofctl add-flows br0 {file}"),
        ];
        for line in lines {
            let done = Stock::new(&line).run();
            self.switch.must_run()?;
            done?;
        }
        Ok(())
    }
}

impl Daemon {
    /// The error for a daemon of which `what` did not come up, with the end of its log.
    pub fn failure(&self, what: &str) -> TestbedError {
        self.switch.failure(what)
    }
}

impl Device for Daemon {
    fn describe(&self) -> Value {
        let kind = if self.wanted.kind == DutKind::Ovs { "ovs" } else { "tidegate" };
        let mut all = json!({ "kind": kind, "version": self.version });
        let Some(object) = all.as_object_mut() else { return all };
        if let Some(cores) = &self.cores {
            object.insert("workers".to_owned(), json!(self.wanted.workers));
            object.insert("queues".to_owned(), json!(self.wanted.queues));
            object.insert("generator_workers".to_owned(), json!(self.wanted.generators));
            object.insert("cores_of_their_own".to_owned(), json!(cores.apart));
            object.insert("cores".to_owned(), json!(cores.device));
            object.insert("generator_cores".to_owned(), json!(cores.generator));
        }
        for more in [&self.ports, &setup(&self.wanted)] {
            object.extend(more.as_object().cloned().unwrap_or_default());
        }
        all
    }

    fn table(&mut self) -> Result<Option<u64>, LoadError> {
        let text = Stock::new("ovs-appctl dpctl/ct-get-nconns").run()?;
        Ok(text.trim().parse().ok())
    }

    fn flush(&mut self) -> Result<(), LoadError> {
        Stock::new("ovs-appctl dpctl/flush-conntrack").run()?;
        Ok(())
    }

    fn linger(&self) -> Duration {
        // Open vSwitch removes expired connections at intervals of several seconds.
        Duration::from_secs(if self.wanted.kind == DutKind::Ovs { 6 } else { 2 })
    }

    fn check(&mut self) -> Result<(), LoadError> {
        Ok(self.switch.must_run()?)
    }

    fn watch(&mut self) -> Option<profile::Watch> {
        Some(profile::Watch::daemon(self.switch.pid()))
    }
}
