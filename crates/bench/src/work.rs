//! The benchmarks, dispatched in one place that also adds the provenance to each result.

use crate::slow_path::{failover, flow_setup, stats, upcall};
use crate::{BenchError, Outcome, conntrack, datapath, matrix, offload, rfc, traffic, zones};
use clap::Subcommand;
use load::provenance::Provenance;

/// The benchmarks, with their options.
#[derive(Subcommand, Clone, Debug)]
pub enum Work {
    Conntrack(conntrack::ConntrackArgs),
    Zones(zones::ZonesArgs),
    Datapath(datapath::DatapathArgs),
    Matrix(matrix::MatrixArgs),
    Rfc(Box<rfc::RfcArgs>),
    FlowSetup(flow_setup::FlowSetupArgs),
    Stats(stats::StatsArgs),
    Upcall(upcall::UpcallArgs),
    Failover(failover::FailoverArgs),
    Offload(offload::OffloadArgs),
}

impl Work {
    /// Whether it prints JSON.
    pub fn prints_json(&self) -> bool {
        match self {
            Work::Conntrack(args) => args.json,
            Work::Zones(args) => args.json,
            Work::Datapath(args) => args.json,
            Work::Matrix(args) => args.json,
            Work::Rfc(args) => args.json,
            Work::FlowSetup(args) => args.json,
            Work::Stats(args) => args.json,
            Work::Upcall(args) => args.json,
            Work::Failover(args) => args.json,
            Work::Offload(args) => args.json,
        }
    }

    /// Measures.
    pub fn measure(&self, provenance: &Provenance) -> Result<Outcome, BenchError> {
        let stamped = |outcome: Outcome| match self.lists() {
            true => outcome,
            false => {
                let json = provenance.stamp(self.verb(), self.seed(), outcome.json);
                Outcome { json, ..outcome }
            }
        };
        let measured = match self {
            Work::Conntrack(args) => conntrack::measure(args),
            Work::Zones(args) => zones::measure(args),
            Work::Datapath(args) => datapath::measure(args),
            Work::Rfc(args) => rfc::measure(args),
            Work::FlowSetup(args) => flow_setup::measure(args),
            Work::Stats(args) => stats::measure(args),
            Work::Upcall(args) => upcall::measure(args),
            Work::Failover(args) => failover::measure(args),
            Work::Offload(args) => offload::measure(args),
            // Each cell is stamped in its own process.
            Work::Matrix(args) => return matrix::measure(args, provenance),
        };
        match measured {
            Ok(outcome) => Ok(stamped(outcome)),
            Err(BenchError::Partly(outcome, why)) => {
                Err(BenchError::Partly(Box::new(stamped(*outcome)), why))
            }
            Err(error) => Err(error),
        }
    }

    fn verb(&self) -> &'static str {
        match self {
            Work::Conntrack(_) => "bench conntrack",
            Work::Zones(_) => "bench zones",
            Work::Datapath(_) => "bench datapath",
            Work::Matrix(_) => matrix::VERB,
            Work::Rfc(_) => "bench rfc",
            Work::FlowSetup(_) => "bench flow-setup",
            Work::Stats(_) => "bench stats",
            Work::Upcall(_) => "bench upcall",
            Work::Failover(_) => "bench failover",
            Work::Offload(_) => "bench offload",
        }
    }

    /// The seed of random numbers; `None` if there are none. Each cell of a table has its own.
    fn seed(&self) -> Option<u64> {
        match self {
            Work::Conntrack(args) => Some(args.seed),
            Work::Datapath(_) => Some(traffic::SEED),
            Work::Rfc(args) => Some(args.seed()),
            _ => None,
        }
    }

    /// Whether it only lists what could be measured.
    fn lists(&self) -> bool {
        match self {
            Work::Matrix(args) => args.list,
            Work::Rfc(args) => args.list,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        work: Work,
    }

    /// Runs the shortest form of every benchmark.
    #[test]
    fn every_result_says_where_it_comes_from() {
        let provenance = Provenance::new("tidegate bench as given".to_owned(), "0.1.0", "c0ffee");
        let folder = tempfile::tempdir().unwrap();
        // Only ours has ports in memory, so this table has no cell to measure.
        let matrix = format!("matrix {} --ports memory --versions ovs", folder.path().display());
        for (line, verb, seed) in [
            ("conntrack 1 64 32", "bench conntrack", Some(1)),
            ("conntrack 1 64 32 --churn", "bench conntrack", Some(1)),
            ("conntrack 1 64 32 --random 64 --seed 7", "bench conntrack", Some(7)),
            ("zones 10 2 1", "bench zones", None),
            ("datapath --seconds 1 --connections 10", "bench datapath", Some(traffic::SEED)),
            (
                "rfc rfc9693-establishment --dut none --connections 100 -m 100 -M 200 --seed 9 \
                 --precision 60",
                "bench rfc",
                Some(9),
            ),
            ("stats --flows 1000 --most 1000 --seconds 5", "bench stats", None),
            ("upcall --hosts 4", "bench upcall", None),
            ("failover --zones 2 --failovers 1", "bench failover", None),
            (&matrix, "bench matrix", None),
        ] {
            let words = std::iter::once("bench").chain(line.split_whitespace());
            let work = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).work;
            let json = match work.measure(&provenance) {
                Ok(outcome) => outcome.json,
                Err(BenchError::Partly(outcome, _)) => outcome.json,
                Err(error) => panic!("{line}: {error}"),
            };
            assert_eq!(json["verb"], verb, "{line}");
            let record = &json[load::provenance::KEY];
            assert_eq!(record["command"], "tidegate bench as given", "{line}: {json}");
            assert!(record["version"] == "0.1.0" && record["commit"] == "c0ffee", "{record}");
            assert!(record["machine"].is_object() && record["date"].is_string(), "{record}");
            assert_eq!(record["seed"].as_u64(), seed, "{line}");
        }
        let kept = std::fs::read_to_string(folder.path().join("matrix.json")).unwrap();
        assert!(kept.contains("\"commit\":\"c0ffee\""), "{kept}");
    }
}
