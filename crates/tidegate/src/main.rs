//! `tidegate`: a stateful software switch that replaces `ovs-vswitchd`, and tools that show it at work.
#![forbid(unsafe_code)]

mod ask;
mod cli;
mod conntrack;
mod demo;
mod lab;
mod latency;
mod offload;
mod trace;

use cli::Parsed;
use daemon::Directories;
use load::provenance::Provenance;
use std::process::ExitCode;

fn main() -> ExitCode {
    let directories = Directories::from_environment();
    let args: Vec<_> = std::env::args_os().collect();
    let here = || {
        let commit = env!("TIDEGATE_COMMIT");
        Provenance::new(cli::whole_line(&args), env!("CARGO_PKG_VERSION"), commit)
    };
    match cli::read(args.iter().cloned(), &directories) {
        Ok(Parsed::Switch(options)) => switch::run::run(&options, &directories),
        Ok(Parsed::Demo(args)) => demo::run(&args, &here()),
        Ok(Parsed::Lab(args)) => lab::run(&args, &here()),
        Ok(Parsed::Bench(args)) => bench::run(&args, &here()),
        Ok(Parsed::Generate(args)) => load::generate::run(&args, &here()),
        Ok(Parsed::CpsNdr(args)) => load::cps_ndr::run(&args, &here()),
        Ok(Parsed::Report(args)) => bench::report::run(&args),
        Ok(Parsed::Conntrack(args)) => conntrack::run(&args, &directories),
        Ok(Parsed::Latency(args)) => latency::run(&args, &directories),
        Ok(Parsed::WhyNotOffloaded(args)) => offload::run(&args, &directories),
        Ok(Parsed::Trace(args)) => trace::run(&args, &directories),
        Ok(Parsed::Print(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(refused) => {
            eprint!("{}", refused.text);
            ExitCode::from(refused.status)
        }
    }
}
