//! A network namespace for one test: the test runs itself again inside, and the namespace ends with that
//! process. Also drives a host at a port in it.

use base::Instant;
use generator::Host;
use packet::{Batch, Pool};
use port::{RxQueue, TxQueue};
use std::io::Write;
use std::process::Command;
use std::time::Duration;

const INSIDE: &str = "TIDEGATE_GENERATOR_TEST_INSIDE";

/// Returns whether this process is inside the namespace. Outside, runs the test `name` inside.
pub fn inside(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let may = Command::new("unshare").args(["--net", "true"]).output();
    let why = match may {
        Ok(out) if out.status.success() && std::path::Path::new("/dev/net/tun").exists() => None,
        Ok(out) if out.status.success() => Some("TAP devices need /dev/net/tun"),
        _ => Some("network namespaces need root"),
    };
    if let Some(why) = why {
        // Written past the test harness, which would capture it.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {name}: {why}");
        return false;
    }
    let out = Command::new("unshare")
        .arg("--net")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = [&out.stdout[..], &out.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(out.status.success() && said.contains("1 passed"), "inside the namespace: {said}");
    print!("{said}");
    false
}

/// Runs `ip` with these arguments.
pub fn ip(words: &str) {
    let out = Command::new("ip").args(words.split_whitespace()).output().unwrap();
    assert!(out.status.success(), "ip {words}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Drives a host at the two ends of its port until `done`; fails if that takes too long.
pub fn drive(
    (mut rx, mut tx): (impl RxQueue, impl TxQueue),
    patience: Duration,
    host: &mut Host,
    mut done: impl FnMut(&mut Host) -> bool,
) {
    let (mut pool, mut batch) = (Pool::new(256), Batch::new());
    let start = std::time::Instant::now();
    while !done(host) {
        let failed = host.statistics().failed;
        assert!(start.elapsed() < patience, "{} alive, {failed:?}", host.alive());
        let now = Instant::from_nanos(start.elapsed().as_nanos() as u64);
        rx.receive(&mut pool, &mut batch).unwrap();
        let idle = batch.is_empty();
        host.receive(&mut pool, &mut batch, now);
        host.tick(now);
        host.transmit(&mut pool, &mut batch, now);
        if idle && batch.is_empty() {
            std::thread::sleep(Duration::from_micros(100));
        }
        assert_eq!(tx.send(&mut pool, &mut batch).errors, 0);
    }
}
