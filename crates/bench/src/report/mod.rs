//! `tidegate report`: one HTML file, whole in itself, from the JSON results in a folder.

mod matrix;
mod page;
pub mod plot;
mod results;
mod rfc;
mod workers;

use clap::Args;
use results::{Results, Unreadable};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Make one HTML page from results
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate cps-ndr -o results/memory.json
  tidegate generate --rate 10k --json > results/generate.json
  tidegate bench datapath --ct --json > results/datapath.json
  tidegate bench rfc rfc2544-latency --json > results/latency.json
  tidegate bench matrix results
  tidegate report results                    writes results/report.html
  tidegate report results -o page.html

Every file DIR/*.json that tidegate wrote with --json or -o is taken: cps-ndr, generate and its \
self-test, bench, its table and its tests of RFCs. The page is one file without external parts, can \
be printed, and has a text for every plot.")]
pub struct ReportArgs {
    /// The folder with the results
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Where to write the page [default: DIR/report.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Errors of the report.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error("{}: {source}; name a folder with results", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error(
        "{}: there is no result in it; write some with --json, as files that end in .json",
        .0.display()
    )]
    Nothing(PathBuf),
    #[error("{}: {source}; name a file in a folder that you may write to", file.display())]
    Write { file: PathBuf, source: io::Error },
}

/// Runs the verb.
pub fn run(args: &ReportArgs) -> ExitCode {
    match write(args) {
        Ok((file, left_out)) => {
            for Unreadable { file, why } in left_out {
                eprintln!("tidegate report: left out {}: {why}", file.display());
            }
            println!("{}", file.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tidegate report: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(args: &ReportArgs) -> Result<(PathBuf, Vec<Unreadable>), ReportError> {
    let results = Results::read(&args.folder)
        .map_err(|source| ReportError::Folder { folder: args.folder.clone(), source })?;
    if results.all.is_empty() {
        return Err(ReportError::Nothing(args.folder.clone()));
    }
    let file = args.output.clone().unwrap_or_else(|| args.folder.join("report.html"));
    std::fs::write(&file, page::html(&results))
        .map_err(|source| ReportError::Write { file: file.clone(), source })?;
    Ok((file, results.left_out))
}

#[cfg(test)]
mod tests;
