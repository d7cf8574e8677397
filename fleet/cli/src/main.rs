//! `pagelab-fleet`: recordings and compacted fleets in object stores, and questions for a cluster. `pagelab` calls it for every URL that it
//! is given; users may call it, too.
//!
//! Exit statuses are pagelab's: 0 done, 1 the store or a file said no, 2 wrong words.

#[cfg(feature = "cluster")]
mod ask;
mod list;
#[cfg(feature = "cluster")]
mod query;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use pagelab_store::mirror::{CacheKind, Mirrored};
use pagelab_store::select::{Days, Selection};
use pagelab_store::upload::{Passed, Upload};
use pagelab_store::{Patience, Place, mirror};

/// Recordings in object stores: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copy a recording, a folder of recordings, or a compacted fleet into a store; or go on where that was broken off.
    ///
    /// What is there already is not copied again, and another recording is never overwritten. Parts are copied before the
    /// manifest that calls them complete. Days of a compacted fleet replace those that are there.
    #[command(
        after_help = "Examples:\n  pagelab-fleet upload set s3://bench/nightly/2026-11-26\n  pagelab-fleet upload run.rec gs://bench/run --patience 3600"
    )]
    Upload(UploadArgs),
    /// Copy recordings and compacted fleets from a store into a folder and print the folder.
    ///
    /// What is unchanged is not copied again; what is gone from the store is removed from the folder.
    #[command(
        after_help = "Examples:\n  pagelab-fleet mirror s3://bench/nightly/2026-11-26\n  pagelab-fleet mirror s3://bench/fleet --days 2026-11-01..2026-11-30 --only runs,metrics"
    )]
    Mirror(MirrorArgs),
    /// List the recordings and the days of compacted fleets in a store: state, host, begin and size.
    ///
    /// Only manifests are read, and those that did not change are remembered in the cache.
    #[command(
        after_help = "Examples:\n  pagelab-fleet ls s3://bench/nightly\n  pagelab-fleet ls s3://bench/nightly --json"
    )]
    Ls(list::ListArgs),
    /// Said where a question for a cluster comes and none is spoken to.
    #[cfg(not(feature = "cluster"))]
    #[command(hide = true, aliases = ["query"], disable_help_flag = true)]
    Ask {
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        words: Vec<String>,
    },
    /// Have a cluster of Ballista answer a question.
    ///
    /// The question comes on standard input as JSON: `pagelab fleet QUESTION URL --cluster df://HOST:PORT` writes it.
    #[command(after_help = "Example:\n  pagelab-fleet ask --cluster df://10.0.0.7:50050 --format csv <question.json")]
    #[cfg(feature = "cluster")]
    Ask(ask::AskArgs),
    /// Have a cluster of Ballista answer a query over recordings in a store.
    ///
    /// Which parts of recordings count is decided here, on copies; the cluster reads the originals.
    #[command(
        after_help = "Example:\n  pagelab-fleet query --cluster df://10.0.0.7:50050 s3://bench/set \"select variant, count(*) from faults group by 1\""
    )]
    #[cfg(feature = "cluster")]
    Query(query::QueryArgs),
}

#[derive(Debug, Args)]
pub(crate) struct Waiting {
    /// Seconds that a store may be away before this ends; what was copied stays
    #[arg(long, value_name = "S", default_value_t = 900)]
    patience: u64,
}

impl Waiting {
    pub(crate) fn patience(&self) -> Patience {
        Patience { total: Duration::from_secs(self.patience), ..Patience::default() }
    }
}

#[derive(Debug, Args)]
struct UploadArgs {
    /// The recording, a folder of recordings, or a compacted fleet
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Where to
    #[arg(value_name = "URL")]
    url: String,
    /// Copy what comes, too, until standard input ends
    #[arg(long)]
    follow: bool,
    /// DIR is what `mirror --working-copy` printed, and was compacted into
    #[arg(long, conflicts_with = "follow")]
    working_copy: bool,
    #[command(flatten)]
    waiting: Waiting,
}

#[derive(Debug, Args)]
struct MirrorArgs {
    /// Where from
    #[arg(value_name = "URL")]
    url: String,
    /// The folder [default: one of this user's cache]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Copy only these tables, of compacted days and of recordings [default: all]
    #[arg(long, value_name = "TABLE", value_delimiter = ',')]
    only: Option<Vec<String>>,
    /// Copy only compacted days in this range, FROM..TO, FROM.., ..TO, .. or one day (YYYY-MM-DD), and no recordings
    #[arg(long, value_name = "DAYS")]
    days: Option<Days>,
    /// The folder is one to compact into and to upload: another one of the cache, and nothing in the store is no error
    #[arg(long)]
    working_copy: bool,
    #[command(flatten)]
    waiting: Waiting,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pagelab-fleet: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn run(command: &Command) -> anyhow::Result<()> {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("cannot start threads")
    };
    match command {
        Command::Upload(args) => runtime()?.block_on(upload(args)),
        Command::Mirror(args) => runtime()?.block_on(copy_here(args)),
        Command::Ls(args) => runtime()?.block_on(list::run(args)),
        #[cfg(feature = "cluster")]
        Command::Ask(args) => ask::run(args),
        #[cfg(feature = "cluster")]
        Command::Query(args) => query::run(args, &runtime()?),
        #[cfg(not(feature = "cluster"))]
        Command::Ask { .. } => {
            anyhow::bail!("found a question for a cluster, and this pagelab-fleet speaks to none; type: make cluster")
        }
    }
}

/// Pause between two looks at a recording that is made: its parts come once a second.
const LOOK: Duration = Duration::from_secs(1);

async fn upload(args: &UploadArgs) -> anyhow::Result<()> {
    let place = Place::open(&args.url, args.waiting.patience())?;
    let is_over = if args.follow { until_standard_input_ends() } else { Arc::new(AtomicBool::new(true)) };
    // Whoever makes the recording makes its folder, too.
    while !args.dir.exists() && !is_over.load(Relaxed) {
        tokio::time::sleep(LOOK / 10).await;
    }
    let mut upload =
        if args.working_copy { Upload::of_working_copy(&args.dir, place)? } else { Upload::new(&args.dir, place)? };
    let done = upload.follow(LOOK, || is_over.load(Relaxed)).await?;
    println!("{}", uploaded(&done, &args.url));
    Ok(())
}

fn uploaded(done: &Passed, url: &str) -> String {
    let mut parts = Vec::new();
    if done.recordings > 0 || done.days == 0 {
        parts.push(format!("{} recordings ({} complete)", done.recordings, done.complete));
    }
    if done.days > 0 {
        parts.push(format!("{} days ({} new or replaced)", done.days, done.days_replaced));
    }
    format!("{}, {} files with {} bytes copied to {url}", parts.join(", "), done.copied, done.copied_bytes)
}

/// Says when whoever holds the other end of standard input has ended.
fn until_standard_input_ends() -> Arc<AtomicBool> {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    std::thread::spawn(move || {
        drop(std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()));
        over.store(true, Relaxed);
    });
    is_over
}

/// The folder of the cache for a URL.
pub(crate) fn cache_folder(url: &str, kind: CacheKind, needed: &str) -> anyhow::Result<PathBuf> {
    mirror::cache_folder(url, kind)
        .with_context(|| format!("no place for copies: found neither XDG_CACHE_HOME nor HOME; needed: {needed}"))
}

async fn copy_here(args: &MirrorArgs) -> anyhow::Result<()> {
    let place = Place::open(&args.url, args.waiting.patience())?;
    let kind = if args.working_copy { CacheKind::WorkingCopies } else { CacheKind::Copies };
    let folder = match &args.to {
        Some(folder) => folder.clone(),
        None => cache_folder(&args.url, kind, "--to DIR")?,
    };
    let selection = Selection {
        tables: args.only.clone().map(|tables| tables.into_iter().collect()),
        days: args.days.clone(),
        may_be_empty: args.working_copy,
    };
    if args.working_copy && folder.exists() {
        // What a broken-off upload left half-replaced is whole here only: it must not be copied over.
        Upload::of_working_copy(&folder, place.clone())?.finish_days().await?;
    }
    let done = mirror::mirror(&place, &folder, &selection).await?;
    tell(&done, &args.url);
    if args.working_copy && !done.days_half_replaced.is_empty() {
        anyhow::bail!("nothing is compacted into days that are half-replaced");
    }
    print_path(&folder).context("cannot write the folder's path")
}

/// Says what was copied, and what is odd about it.
pub(crate) fn tell(done: &Mirrored, url: &str) {
    let days = if done.days > 0 { format!(", {} days", done.days) } else { String::new() };
    let left_out = match done.left_out.len() {
        0 => String::new(),
        objects => format!(", {objects} objects are no files of recordings"),
    };
    eprintln!(
        "{url}: {} recordings{days}, {} files copied, {} unchanged{left_out}",
        done.recordings, done.copied, done.unchanged
    );
    for day in &done.days_half_replaced {
        eprintln!(
            "{url}/{day}: is being replaced, or that was broken off: its tables are of two compactions; to mend it: \
             pagelab-fleet upload FLEET {url}"
        );
    }
}

fn print_path(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut out = std::io::stdout().lock();
    out.write_all(folder.as_os_str().as_bytes())?;
    out.write_all(b"\n")
}
