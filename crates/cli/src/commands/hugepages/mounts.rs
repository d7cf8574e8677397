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
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// All mounts of hugetlbfs, with their share of the pool.
    List(Form),
    /// Mount a hugetlbfs, and read back what was mounted.
    Create(CreateArgs),
    /// Unmount a hugetlbfs; the files on it are gone with it.
    Remove(RemoveArgs),
}

#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// The folder to mount on.
    mountpoint: PathBuf,
    /// Page size; the host's default size if not given.
    #[arg(long)]
    pagesize: Option<String>,
    /// Most bytes that its files may have together.
    #[arg(long, value_parser = above_zero)]
    size: Option<u64>,
    /// Bytes to reserve from the pool at once.
    #[arg(long, value_parser = above_zero)]
    min_size: Option<u64>,
    /// Most files and folders.
    #[arg(long)]
    nr_inodes: Option<u64>,
    /// Owner of the root.
    #[arg(long)]
    uid: Option<u32>,
    /// Group of the root.
    #[arg(long)]
    gid: Option<u32>,
    /// Permissions of the root, in octal.
    #[arg(long, value_parser = octal)]
    mode: Option<u32>,
    /// Make the folder, and those above it, if it is not there.
    #[arg(long)]
    mkdir: bool,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, clap::Args)]
struct RemoveArgs {
    /// Where it is mounted.
    mountpoint: PathBuf,
    /// Remove the folder, too, if it is empty.
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
pub fn run(args: &Args) -> Result<u8, Failure> {
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
