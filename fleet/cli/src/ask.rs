//! `pagelab-fleet ask`: a question for a cluster, from standard input. `pagelab` asks so where `--cluster` is given.

use std::io::{self, BufWriter, Read as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use pagelab_cluster::{AskOptions, ClusterUrl, Question, ask};
use pagelab_sql::Format;

/// A question names its files: some hundred bytes for each day and table.
const LARGEST_BYTES: u64 = 256 << 20;

/// Options of `ask`.
#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The scheduler
    #[arg(long, value_name = "df://HOST[:PORT]")]
    cluster: ClusterUrl,
    /// Format of the answer: table, csv, json or parquet
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    /// Seconds that the cluster may take
    #[arg(long, value_name = "S", default_value_t = AskOptions::default().patience.as_secs())]
    patience: u64,
}

/// Asks, and prints the answer. The session makes its own threads.
pub(crate) fn run(args: &AskArgs) -> anyhow::Result<()> {
    let mut text = Vec::new();
    io::stdin()
        .lock()
        .take(LARGEST_BYTES)
        .read_to_end(&mut text)
        .context("cannot read the question from standard input")?;
    let question: Question = serde_json::from_slice(&text)
        .context("standard input: found no question; needed: {\"tables\": [{\"name\", \"columns\": [{\"name\", \"data_type\"}], \"files\"}], \"sql\"}")?;
    let options = AskOptions { patience: Duration::from_secs(args.patience) };
    let mut out = BufWriter::new(io::stdout());
    ask(&args.cluster, &question, args.format, &mut out, options)?;
    out.flush().context("cannot write the answer")
}
