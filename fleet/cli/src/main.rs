//! `pagelab-fleet`: recordings in object stores. `pagelab` calls it for every URL that it is given; users may call it, too.
//!
//! Exit statuses are pagelab's: 0 done, 1 the store or a file said no, 2 wrong words.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use pagelab_store::upload::Upload;
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
    /// Copy a recording, or a folder of recordings, into a store; or go on where that was broken off.
    ///
    /// What is there already is not copied again, and another recording is never overwritten. Parts are copied before the
    /// manifest that calls them complete.
    #[command(
        after_help = "Examples:\n  pagelab-fleet upload set s3://bench/nightly/2026-11-26\n  pagelab-fleet upload run.rec gs://bench/run --patience 3600"
    )]
    Upload(UploadArgs),
    /// Copy recordings from a store into a folder and print the folder.
    ///
    /// What is unchanged is not copied again; what is gone from the store is removed from the folder.
    #[command(
        after_help = "Examples:\n  pagelab-fleet mirror s3://bench/nightly/2026-11-26\n  pagelab-fleet mirror s3://bench/nightly --to nightly"
    )]
    Mirror(MirrorArgs),
}

#[derive(Debug, Args)]
struct Waiting {
    /// Seconds that a store may be away before this ends; what was copied stays
    #[arg(long, value_name = "S", default_value_t = 900)]
    patience: u64,
}

impl Waiting {
    fn patience(&self) -> Patience {
        Patience { total: Duration::from_secs(self.patience), ..Patience::default() }
    }
}

#[derive(Debug, Args)]
struct UploadArgs {
    /// The recording, or a folder of recordings
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Where to
    #[arg(value_name = "URL")]
    url: String,
    /// Copy what comes, too, until standard input ends
    #[arg(long)]
    follow: bool,
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start threads")?;
    match command {
        Command::Upload(args) => runtime.block_on(upload(args)),
        Command::Mirror(args) => runtime.block_on(copy_here(args)),
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
    let mut upload = Upload::new(&args.dir, place)?;
    let done = upload.follow(LOOK, || is_over.load(Relaxed)).await?;
    println!(
        "{} recordings ({} complete), {} files with {} bytes copied to {}",
        done.recordings, done.complete, done.copied, done.copied_bytes, args.url
    );
    Ok(())
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

async fn copy_here(args: &MirrorArgs) -> anyhow::Result<()> {
    let place = Place::open(&args.url, args.waiting.patience())?;
    let folder = match &args.to {
        Some(folder) => folder.clone(),
        None => mirror::cache_folder(&args.url)
            .context("no place for copies: found neither XDG_CACHE_HOME nor HOME; needed: --to DIR")?,
    };
    let done = mirror::mirror(&place, &folder).await?;
    let left_out = if done.left_out.is_empty() {
        String::new()
    } else {
        format!(", {} objects are no files of recordings", done.left_out.len())
    };
    eprintln!(
        "{}: {} recordings, {} files copied, {} unchanged{left_out}",
        args.url, done.recordings, done.copied, done.unchanged
    );
    print_path(&folder).context("cannot write the folder's path")
}

fn print_path(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut out = std::io::stdout().lock();
    out.write_all(folder.as_os_str().as_bytes())?;
    out.write_all(b"\n")
}
