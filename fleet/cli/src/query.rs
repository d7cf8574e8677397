//! `pagelab-fleet query`: SQL over recordings in a store, answered by a cluster. `pagelab query ... --cluster` calls it.

use std::io::{self, BufWriter, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use pagelab_cluster::{AskOptions, ClusterUrl, ask_recordings};
use pagelab_sql::placed::Places;
use pagelab_sql::{Bound, Bounds, Format, QueryOptions};
use pagelab_store::Place;
use pagelab_store::mirror::{self, CacheKind};
use pagelab_store::select::Selection;

use crate::{Waiting, cache_folder, tell};

/// Options of `query`.
#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    /// The scheduler
    #[arg(long, value_name = "df://HOST[:PORT]")]
    cluster: ClusterUrl,
    /// Format of the answer: table, csv, json or parquet
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    /// Ignore events before this time: seconds since the start, or the name of a mark
    #[arg(long, value_name = "S|MARK", allow_negative_numbers = true)]
    from: Option<Bound>,
    /// Ignore events from this time on: seconds since the start, or the name of a mark
    #[arg(long, value_name = "S|MARK", allow_negative_numbers = true)]
    to: Option<Bound>,
    #[command(flatten)]
    waiting: Waiting,
    /// Recordings or sets in a store, then the SQL query
    #[arg(required = true, num_args = 2.., value_names = ["URL", "SQL"])]
    words: Vec<String>,
}

/// Brings the copies up to date, which say what counts, and has the cluster read the originals.
pub(crate) fn run(args: &QueryArgs, runtime: &tokio::runtime::Runtime) -> anyhow::Result<()> {
    let (sql, urls) = args.words.split_last().context("needed URL... SQL")?;
    let mut places = Places::default();
    for url in urls {
        let place = Place::open(url, args.waiting.patience())?;
        let folder = cache_folder(url, CacheKind::Copies, "HOME")?;
        let done = runtime.block_on(mirror::mirror(&place, &folder, &Selection::default()))?;
        tell(&done, url);
        places.add(&folder, url)?;
    }
    let limits =
        QueryOptions { bounds: Bounds { from: args.from.clone(), to: args.to.clone() }, ..QueryOptions::default() };
    let options = AskOptions { patience: Duration::from_secs(args.waiting.patience) };
    let mut out = BufWriter::new(io::stdout());
    let answer = ask_recordings(&args.cluster, &places, sql, (args.format, &mut out), (&limits, options))?;
    out.flush().context("cannot write the answer")?;
    for damage in answer.left_out {
        eprintln!("left out: {damage}");
    }
    Ok(())
}
