//! A program that only faults: maps 64 MiB of fresh memory (4 GiB for random order), touches it page by page, unmaps it,
//! until it has taken the number of faults asked for. Prints how long that took, in ns.
//!
//! With a third argument it also keeps a log of its own: one line for every 1024 faults, `CLOCK_MONOTONIC ns, faults so
//! far`, flushed each time, so that what a recording holds can be checked against it.
//!
//! Usage: fault_program FAULTS [ascending|descending|random] [LOG]

use std::io::Write;

use anyhow::{Context, Result, bail};
use pagelab_benches::{Order, fault_some, now_ns};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let wanted: u64 = args.next().context("needed: FAULTS")?.parse().context("FAULTS: needed a number")?;
    let order: Order = args.next().map_or(Ok(Order::Ascending), |word| word.parse()).map_err(anyhow::Error::msg)?;
    let mut log = args.next().map(std::fs::File::create).transpose().context("LOG: needed a path to write to")?;
    if args.next().is_some() {
        bail!("needed at most three arguments");
    }
    let begin = now_ns();
    let mut faults = 0;
    let mut failed = None;
    while faults < wanted {
        faults += fault_some(order, 1024, |position| {
            if let Some(log) = &mut log
                && let Err(error) = writeln!(log, "{} {}", now_ns(), faults + position)
            {
                failed = Some(error);
            }
        });
        if let Some(error) = failed {
            return Err(error).context("writing the log");
        }
    }
    println!("{}", now_ns() - begin);
    Ok(())
}
