//! Queries that a cluster answers: `pagelab-fleet` speaks to it.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::anyhow;
use pagelab_sql::Format;

use crate::failure::Failure;
use crate::options::SpanArgs;
use crate::{companion, print};

/// What stock executors read.
const READ_BY_EXECUTORS: [&str; 2] = ["s3://", "file:///"];

/// Which cluster answers.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ClusterArgs {
    /// Let a cluster of Ballista read: its scheduler. Places are then URLs that its machines read, too (docs/fleet.md)
    #[arg(long, value_name = "df://HOST[:PORT]")]
    cluster: Option<String>,
    /// Seconds that the cluster may take [default: 900]
    #[arg(long, value_name = "S", requires = "cluster")]
    patience: Option<u64>,
}

impl ClusterArgs {
    /// The cluster; none if none is asked.
    pub(crate) fn cluster(&self) -> Option<Cluster> {
        let address = self.cluster.clone()?;
        Some(Cluster { address, patience_s: self.patience })
    }
}

/// A cluster that `pagelab-fleet` speaks to.
#[derive(Debug)]
pub(crate) struct Cluster {
    address: String,
    patience_s: Option<u64>,
}

/// The place, if executors can read it.
///
/// # Errors
/// It is no URL, or one of another store.
pub(crate) fn readable(place: &Path) -> Result<&str, Failure> {
    let is_readable = |text: &&str| READ_BY_EXECUTORS.iter().any(|scheme| text.starts_with(scheme));
    place.to_str().filter(is_readable).ok_or_else(|| {
        Failure::input(anyhow!(
            "--cluster: found {}, needed a URL that executors of Ballista read: {}; to copy a folder there type: pagelab fleet upload \
             FOLDER s3://bucket/prefix",
            place.display(),
            READ_BY_EXECUTORS.join(" or ")
        ))
    })
}

impl Cluster {
    /// Has `pagelab-fleet COMMAND` with these words speak to it, and gives what it printed, in a file without a name. It reads `asked`.
    pub(crate) fn ask(&self, command: &str, format: Format, words: &[String], asked: &[u8]) -> anyhow::Result<File> {
        let mut program = companion::fleet();
        program.args([command, "--cluster", &self.address, "--format", format.name()]);
        program.args(self.patience_s.iter().flat_map(|seconds| ["--patience".to_owned(), seconds.to_string()]));
        answered(program.args(words), asked)
    }

    /// Runs SQL over recordings at URLs; the query is the last word.
    pub(crate) fn query(
        &self,
        words: &[String],
        span: &SpanArgs,
        format: Format,
        out: &mut (dyn io::Write + Send),
    ) -> Result<(), Failure> {
        let (_, urls) = words.split_last().unwrap_or((&String::new(), &[]));
        for url in urls {
            readable(Path::new(url))?;
        }
        let mut all = Vec::new();
        for (option, bound) in [("--from", &span.from), ("--to", &span.to)] {
            all.extend(bound.iter().map(|bound| format!("{option}={bound}")));
        }
        all.push("--".to_owned());
        all.extend_from_slice(words);
        copy(self.ask("query", format, &all, &[]), out)
    }
}

/// Writes an answer.
pub(crate) fn copy(answer: anyhow::Result<File>, out: &mut (dyn io::Write + Send)) -> Result<(), Failure> {
    let mut answer = answer.map_err(Failure::input)?;
    io::copy(&mut answer, out).map(drop).map_err(Failure::host)
}

/// Runs a program that reads `asked` and gives what it printed.
fn answered(command: &mut Command, asked: &[u8]) -> anyhow::Result<File> {
    let mut answer = tempfile::tempfile()?;
    command.stdin(Stdio::piped()).stdout(answer.try_clone()?).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| anyhow!("cannot start pagelab-fleet: {error}; type: make cluster"))?;
    if let Some(mut input) = child.stdin.take() {
        // It may end before it has read all: then its words say why.
        drop(input.write_all(asked));
    }
    let done = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() {
        // What was copied, and damage that was left out.
        said.lines().for_each(print::note);
        answer.rewind()?;
        return Ok(answer);
    }
    let said = said.trim();
    let why = said.rsplit_once("pagelab-fleet: ").map_or(said, |(_, why)| why);
    anyhow::bail!(
        "{}",
        if why.is_empty() { format!("pagelab-fleet ended with {}", done.status) } else { why.to_owned() }
    )
}
