//! What is refused, and what short runs count.

use super::*;
use clap::Parser;
use serde_json::Value;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: DatapathArgs,
}

fn read(line: &str) -> Result<DatapathArgs, clap::Error> {
    let words = std::iter::once("datapath").chain(line.split_whitespace());
    Line::try_parse_from(words).map(|line| line.args)
}

fn short(line: &str) -> Result<Outcome, BenchError> {
    run(&read(line).unwrap(), Duration::from_millis(50))
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let lines = [
        "--connections 0",
        "--seconds 0",
        "--fwd x",
        "--rev x",
        "--fwd x --rev y --connections 5",
        "--rules x --ct",
        "--rules x --nat",
        "--port x",
        "--tunnel x",
        "--frame 59",
        "--frame 1515",
        "--workers 0",
        "x",
    ];
    for line in lines {
        assert!(read(line).is_err(), "{line}");
    }
}

#[test]
fn a_short_run_sends_every_packet_on() {
    let cases = [
        ("--connections 100", 0),
        ("--connections 100 --ct", 100),
        ("--connections 100 --nat", 100),
        ("--connections 100 --tunnel vxlan", 0),
        ("--connections 100 --tunnel vxlan --ct --frame 114", 100),
        ("--connections 100 --tunnel geneve --nat --frame 1514", 100),
    ];
    for (line, connections) in cases {
        let Outcome { text, json } = short(line).unwrap();
        let number = |name: &str| json[name].as_u64().unwrap();
        assert!(number("packets") > 0, "{line}: {json}");
        assert_eq!(number("packets"), number("sent"), "{line}: {json}");
        assert_eq!((number("dropped"), number("missed")), (0, 0), "{line}: {json}");
        assert_eq!(number("connections"), connections, "{line}: {json}");
        assert!(json["ns_per_packet"].as_f64().unwrap() > 0.0);
        let shares = json["stages"].as_object().unwrap();
        let sum: f64 = shares.values().map(|share| share.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{line}: {json}");
        assert!(shares["lookup"].as_f64().unwrap() > 0.0, "{line}: {json}");
        assert!(text.contains("million packets per second"), "{text}");
    }
}

#[test]
fn dpdk_ports_carry_the_same_traffic_or_there_are_none() {
    let line = "--connections 100 --ct --port dpdk";
    let mut args = read(line).unwrap();
    args.dpdk_extra = "--no-pci --no-huge -m 512".to_owned();
    let measured = run(&args, Duration::from_millis(50));
    if port_dpdk::version().is_none() {
        return assert!(measured.unwrap_err().to_string().contains("has no DPDK"));
    }
    let json = match measured {
        Ok(Outcome { json, .. }) => json,
        Err(BenchError::Dpdk(why)) => {
            println!("\nSKIPPED: dpdk_ports_carry_the_same_traffic: {why}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let number = |name: &str| json[name].as_u64().unwrap();
    assert!(number("packets") > 0, "{json}");
    assert_eq!(number("packets"), number("sent"), "{json}");
    assert_eq!((number("missed"), number("connections")), (0, 100), "{json}");
    assert_eq!(json["port"], "dpdk");
}

#[test]
fn files_are_played_and_flows_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let frame = |byte: u8| vec![byte; 60];
    for (name, byte) in [("a.pcap", 1), ("b.pcap", 2)] {
        let mut file =
            port::PcapTx::create(folder.path().join(name).as_path(), || Duration::ZERO).unwrap();
        file.record(Duration::ZERO, &frame(byte)).unwrap();
    }
    let flows = "# one way only\n\nin_port=p0 actions=mod_dl_src:02:00:00:00:00:09,p1\n";
    std::fs::write(path("rules"), flows).unwrap();
    let line =
        format!("--fwd {} --rev {} --rules {}", path("a.pcap"), path("b.pcap"), path("rules"));
    let Outcome { json, .. } = short(&line).unwrap();
    let number = |name: &str| json[name].as_u64().unwrap();
    assert_eq!(number("sent") * 2, number("packets"), "{json}");
    assert_eq!(number("dropped") * 2, number("packets"), "{json}");
    assert!(json["stages"]["actions"].as_f64().unwrap() > 0.0, "{json}");

    std::fs::write(path("rules"), "in_port=p0 actions=p1\nin_port=p9 actions=drop\n").unwrap();
    let error = short(&line).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("line 2: \"in_port=p9 actions=drop\""), "{error}");
    let error = short("--rules /nonexistent/x").map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/x: No such file"), "{error}");
}

#[test]
fn workers_are_measured_alone_and_together() {
    let cpus = port_linux::affinity::allowed_cpus().unwrap().len();
    if cpus < 2 {
        println!("\nSKIPPED: workers_are_measured_alone_and_together: one processor only");
        return;
    }
    for (line, connections) in [("--connections 100", 0), ("--connections 100 --nat", 200)] {
        let Outcome { text, json } = short(&format!("{line} --workers 2")).unwrap();
        let workers = json["per_worker"].as_array().unwrap();
        assert_eq!((workers.len(), json["workers"].as_u64()), (2, Some(2)), "{json}");
        for name in ["packets", "sent"] {
            let sum: u64 = workers.iter().map(|worker| worker[name].as_u64().unwrap()).sum();
            assert_eq!(json[name].as_u64(), Some(sum), "{json}");
        }
        assert!(workers.iter().all(|worker| worker["packets"] == worker["sent"]), "{json}");
        assert_ne!(workers[0]["cpu"], workers[1]["cpu"]);
        assert_eq!(json["connections"], connections, "{json}");
        let number = |value: &Value| value.as_f64().unwrap();
        let alone = number(&json["one_worker"]["packets_per_second"]);
        let ratio = number(&json["packets_per_second"]) / alone;
        assert!((number(&json["ratio"]) / ratio - 1.0).abs() < 1e-9, "{json}");
        assert!(number(&json["processor_ratio"]) > 0.0);
        assert!(text.contains("2 workers") && text.contains("times"), "{text}");
    }
    let line = format!("--workers {}", cpus.min(63) + 1);
    let error = short(&line).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("processors"), "{error}");
}

#[test]
fn files_are_every_worker_s_or_one_for_each() {
    let line = "--workers 3 --fwd a --fwd b --rev c";
    let error = short(line).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("--fwd names 2 files for 3 workers"), "{error}");
    let files: Vec<PathBuf> = ["a", "b"].map(PathBuf::from).to_vec();
    for (files, worker, expect) in
        [(&files[..], 1, Some("b")), (&files[..1], 1, Some("a")), (&files[..0], 0, None)]
    {
        assert_eq!(file_of(files, worker), expect.map(Path::new));
    }
}
