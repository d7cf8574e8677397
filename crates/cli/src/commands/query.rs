//! `pagelab query`: SQL over recordings.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use pagelab_output::OutputFile;
use pagelab_sql as sql;
use pagelab_sql::process::{ProcessError, ProcessLimits, within};

use crate::cluster::ClusterArgs;
use crate::failure::Failure;
use crate::options::{SpanArgs, parse_seconds, parse_size};
use crate::print;

/// Layout of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Columns of text.
    Table,
    /// Comma-separated values.
    Csv,
    /// An array of objects.
    Json,
    /// A Parquet file.
    Parquet,
}

impl From<Format> for sql::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Table => Self::Table,
            Format::Csv => Self::Csv,
            Format::Json => Self::Json,
            Format::Parquet => Self::Parquet,
        }
    }
}

/// Run SQL over recordings and sets of them. Every table of docs/recording.md is there, with the columns host, variant and
/// run beside its own.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "pagelab query [OPTIONS] DIR... SQL",
    after_help = "Example:\n  pagelab query set \"select variant, run, count(*) from faults group by 1, 2 order by 1, 2\""
)]
pub(crate) struct Args {
    /// Recordings or sets, then the SQL query.
    #[arg(required = true, num_args = 2.., value_names = ["DIR", "SQL"])]
    words: Vec<String>,
    #[command(flatten)]
    span: SpanArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    result: ResultArgs,
}

/// What a query may need beside what sorts, joins and aggregations are counted for.
const UNCOUNTED_BYTES: u64 = 1 << 30;

/// How the result of a query is laid out, and where it goes.
#[derive(Debug, clap::Args)]
pub(crate) struct ResultArgs {
    /// Format of the result [default: by the suffix of --output (.csv, .json, .parquet), else table].
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Memory for sorts, joins and aggregations; what needs more uses temporary files [default: 512M].
    /// A query for which the program comes to need 1 GiB more is ended.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<usize>,
    /// End a query that has no answer after this time [default: an hour].
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "1h", hide_default_value = true)]
    timeout: Duration,
    /// Write the result to this file [default: standard output].
    #[arg(short, long = "output", value_name = "FILE")]
    output: Option<PathBuf>,
}

impl ResultArgs {
    /// The layout asked for, or the one that the name of the output ends in.
    pub(crate) fn format(&self) -> Result<sql::Format, Failure> {
        let ending = self.output.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
        let known = ending.and_then(|ending| Format::from_str(ending, true).ok());
        let format = match (self.json, self.format.or(known)) {
            (true, _) => sql::Format::Json,
            (false, Some(format)) => format.into(),
            (false, None) => sql::Format::Table,
        };
        if self.output.is_none() && format == sql::Format::Parquet && io::stdout().is_terminal() {
            let needed =
                "--format parquet: found a terminal, needed a file; type: pagelab query ... --format parquet -o FILE";
            return Err(Failure::input(anyhow::anyhow!(needed)));
        }
        Ok(format)
    }

    /// The limits of a query.
    pub(crate) fn limits(&self) -> sql::QueryOptions {
        let mut options = sql::QueryOptions::default();
        if let Some(bytes) = self.memory {
            options.memory_bytes = bytes;
        }
        options
    }

    /// As [`ResultArgs::written`], for a question that is answered in this process, within its time and memory.
    pub(crate) fn written_within(
        &self,
        ask: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), Failure> + Send + 'static,
    ) -> Result<u8, Failure> {
        let out = self.output.as_deref().map(OutputFile::open).transpose()?;
        let copy = out.as_ref().map(|file| file.as_fd().try_clone_to_owned().map(File::from));
        let copy = copy.transpose().map_err(Failure::host)?;
        let path = self.output.clone();
        let cannot = move |error: io::Error| match path {
            Some(path) => Failure::host(anyhow::anyhow!("cannot write {}: {error}", path.display())),
            None => Failure::host(error),
        };
        let answered = within(self.process_limits(), move || {
            let mut to: Box<dyn Write + Send> = match copy {
                Some(file) => Box::new(BufWriter::new(file)),
                None => print::data(),
            };
            ask(&mut to)?;
            to.flush().map_err(cannot)
        });
        // A file that was begun goes with `out`.
        answered.map_err(|error| self.beyond(&error))??;
        out.map(OutputFile::commit).transpose()?;
        Ok(0)
    }

    fn process_limits(&self) -> ProcessLimits {
        let counted_bytes = self.limits().memory_bytes as u64;
        ProcessLimits { time: self.timeout, resident_bytes: counted_bytes.saturating_add(UNCOUNTED_BYTES) }
    }

    /// What to do about a query that was ended at a limit.
    fn beyond(&self, error: &ProcessError) -> Failure {
        let text = match error {
            ProcessError::Late { .. } => format!(
                "found no answer after {} s, needed one by then; ask about a shorter time (--from, --to), join on a key, or give it \
                 longer: --timeout 4h",
                self.timeout.as_secs_f64()
            ),
            ProcessError::TooLarge { found_bytes, limit_bytes } => format!(
                "found {} MiB in use, needed at most {}; ask for fewer columns or shorter text, or allow more: --memory {}M",
                found_bytes >> 20,
                limit_bytes >> 20,
                (self.limits().memory_bytes >> 20).saturating_mul(4)
            ),
            other => return Failure::host(anyhow::anyhow!("{other}")),
        };
        Failure::input(anyhow::anyhow!(text))
    }

    /// Lets `ask` write the result to where it is asked for.
    pub(crate) fn written(
        &self,
        ask: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), Failure>,
    ) -> Result<u8, Failure> {
        let Some(path) = &self.output else {
            let mut out = print::data();
            ask(&mut out)?;
            return out.flush().map(|()| 0).map_err(Failure::host);
        };
        let mut out = BufWriter::new(OutputFile::open(path)?);
        ask(&mut out)?;
        let cannot = |error: io::Error| Failure::host(anyhow::anyhow!("cannot write {}: {error}", path.display()));
        out.into_inner().map_err(|error| cannot(error.into_error()))?.commit()?;
        Ok(0)
    }
}

/// Runs the query and writes its result.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let Some((sql_text, dirs)) = args.words.split_last() else {
        return Err(Failure::input(anyhow::anyhow!("query: needed DIR... SQL")));
    };
    let format = args.result.format()?;
    if let Some(cluster) = args.cluster.cluster() {
        return args.result.written(|out| cluster.query(&args.words, &args.span, format, out));
    }
    let dirs: Vec<PathBuf> = dirs.iter().map(PathBuf::from).collect();
    let options = sql::QueryOptions { bounds: args.span.bounds(), ..args.result.limits() };
    let sql_text = sql_text.clone();
    args.result.written_within(move |out| {
        let answer = sql::answer(&dirs, &sql_text, format, out, &options).map_err(Failure::input)?;
        for damage in &answer.left_out {
            print::note(format!("left out: {damage}"));
        }
        Ok(())
    })
}
