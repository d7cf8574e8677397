//! `hugepages mounts`: list, create, remove.

use std::path::PathBuf;

use clap::Subcommand;
use pagelab_host::hugetlb::mounts::{self, MountRequest, MountTable};
use serde::Serialize;

use super::{Form, failure, page_bytes, root};
use crate::failure::Failure;
use crate::options::above_zero;

/// Arguments of `hugepages mounts`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List mounts of hugetlbfs, with the pages each holds and reserves.
    List(Form),
    /// Mount a hugetlbfs, and read back its options.
    Create(CreateArgs),
    /// Unmount a hugetlbfs. Its files are lost.
    Remove(RemoveArgs),
}

#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// Mount point.
    mountpoint: PathBuf,
    /// Page size [default: the host's default huge page size].
    #[arg(long)]
    pagesize: Option<String>,
    /// Limit of the files' total size, in bytes (mount option size=).
    #[arg(long, value_parser = above_zero)]
    size: Option<u64>,
    /// Bytes to reserve from the pool at mount time (mount option min_size=).
    #[arg(long, value_parser = above_zero)]
    min_size: Option<u64>,
    /// Limit of the number of files and directories (mount option nr_inodes=).
    #[arg(long)]
    nr_inodes: Option<u64>,
    /// Owner of the root directory (uid) [default: the caller].
    #[arg(long)]
    uid: Option<u32>,
    /// Group of the root directory (gid) [default: the caller's].
    #[arg(long)]
    gid: Option<u32>,
    /// Permissions of the root directory, in octal [default: 755].
    #[arg(long, value_parser = octal)]
    mode: Option<u32>,
    /// Create the mount point and its parents if they do not exist.
    #[arg(long)]
    mkdir: bool,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, clap::Args)]
struct RemoveArgs {
    /// Mount point.
    mountpoint: PathBuf,
    /// Remove the mount point too if it is empty.
    #[arg(long)]
    rmdir: bool,
    #[command(flatten)]
    form: Form,
}

fn octal(typed: &str) -> Result<u32, String> {
    u32::from_str_radix(typed, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| format!("found {typed:?}, needed permissions in octal such as 1777"))
}

/// The document of `list`.
#[derive(Debug, Serialize)]
struct List<'a> {
    mounts: &'a [mounts::HugetlbMount],
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<u8, Failure> {
    match &args.command {
        Command::List(form) => {
            let all = mounts::mounts(root()).map_err(failure)?;
            form.print(&List { mounts: &all }, &MountTable(&all))?;
        }
        Command::Create(args) => {
            let request = MountRequest {
                mountpoint: args.mountpoint.clone(),
                page_bytes: args.pagesize.as_deref().map(page_bytes).transpose()?,
                size_bytes: args.size,
                min_bytes: args.min_size,
                inodes: args.nr_inodes,
                uid: args.uid,
                gid: args.gid,
                mode: args.mode,
                make_folder: args.mkdir,
            };
            let report = mounts::create(&request).map_err(failure)?;
            args.form.print(&report, &report)?;
        }
        Command::Remove(args) => {
            let removed = mounts::remove(&args.mountpoint, args.rmdir).map_err(failure)?;
            let text = format!("{} is not mounted any more\n", removed.mountpoint);
            args.form.print(&removed, &text)?;
        }
    }
    Ok(0)
}
