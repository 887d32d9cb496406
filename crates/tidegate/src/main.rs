//! `tidegate`: a stateful software switch in the place of `ovs-vswitchd`, and what shows it at work.
#![forbid(unsafe_code)]

mod ask;
mod cli;
mod conntrack;
mod demo;
mod trace;

use cli::Parsed;
use daemon::Directories;
use std::process::ExitCode;

fn main() -> ExitCode {
    let directories = Directories::from_environment();
    match cli::read(std::env::args_os(), &directories) {
        Ok(Parsed::Switch(options)) => switch::run::run(&options, &directories),
        Ok(Parsed::Demo(args)) => demo::run(&args),
        Ok(Parsed::Bench(args)) => bench::run(&args),
        Ok(Parsed::Generate(args)) => load::generate::run(&args),
        Ok(Parsed::CpsNdr(args)) => load::cps_ndr::run(&args),
        Ok(Parsed::Report(args)) => bench::report::run(&args),
        Ok(Parsed::Conntrack(args)) => conntrack::run(&args, &directories),
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
