//! A compacted fleet in an object store, read by a cluster: `pagelab-fleet` lists its days, and has the cluster answer in SQL.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Stdio;

use anyhow::anyhow;
use pagelab_fleet::rollup::{ColumnDef, Engine, FleetElsewhere, ListedDay, TableFiles};
use pagelab_sql::Format;
use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, ClusterArgs, copy, readable};
use crate::failure::Failure;
use crate::{companion, print};

/// The fleet as the cluster sees it; none if no cluster is asked.
///
/// # Errors
/// The fleet is no URL that executors read, or cannot be listed.
pub(super) fn fleet(args: &ClusterArgs, place: &Path) -> Result<Option<FleetElsewhere<Cluster>>, Failure> {
    let Some(cluster) = args.cluster() else { return Ok(None) };
    let url = readable(place)?;
    Ok(Some(FleetElsewhere::new(url, listed(url)?, cluster)))
}

/// What `pagelab-fleet ls --json` says.
#[derive(Debug, Deserialize)]
struct Listed {
    recordings: Vec<serde_json::Value>,
    days: Vec<ListedFolder>,
    is_cut: bool,
}

#[derive(Debug, Deserialize)]
struct ListedFolder {
    name: String,
    state: String,
    tables: Vec<String>,
}

/// The days of the fleet at a URL.
fn listed(url: &str) -> Result<Vec<ListedDay>, Failure> {
    let output = companion::fleet().args(["ls", url, "--json"]).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| companion::cannot_start(url, &error))?;
    if !output.status.success() {
        return Err(Failure::input(anyhow!("{url} was not listed: pagelab-fleet ls ended with {}", output.status)));
    }
    let said: Listed = serde_json::from_slice(&output.stdout).map_err(|error| {
        let needed = "needed: pagelab and pagelab-fleet of one version; type: make build fleet";
        Failure::input(anyhow!("{url}: pagelab-fleet ls says what is not understood here: {error}; {needed}"))
    })?;
    let mut days = Vec::new();
    for folder in said.days {
        let Some(day) = folder.name.strip_prefix("day=").and_then(|date| date.parse().ok()) else { continue };
        if folder.state == "half_replaced" {
            let name = &folder.name;
            print::note(format!(
                "{url}/{name}: is being replaced, or that was broken off: its tables are of two compactions"
            ));
        }
        days.push(ListedDay { day, tables: folder.tables.into_iter().collect() });
    }
    if said.is_cut || days.is_empty() {
        let found = if said.is_cut {
            "more objects than are listed".to_owned()
        } else {
            format!("no compacted fleet, {} recordings", said.recordings.len())
        };
        let needed = format!("the URL of a compacted fleet; to make one: pagelab fleet compact {url} FLEET");
        return Err(Failure::input(anyhow!("{url}: found {found}; needed: {needed}")));
    }
    Ok(days)
}

/// What `pagelab-fleet ask` reads.
#[derive(Debug, Serialize)]
struct Question<'q> {
    tables: Vec<QuestionTable<'q>>,
    sql: &'q str,
}

#[derive(Debug, Serialize)]
struct QuestionTable<'q> {
    name: &'static str,
    columns: Vec<QuestionColumn>,
    files: &'q [String],
}

#[derive(Debug, Serialize)]
struct QuestionColumn {
    name: &'static str,
    data_type: String,
}

/// The answer of a cluster to a query, in a file without a name.
fn asked(cluster: &Cluster, tables: &[TableFiles], sql: &str, format: Format) -> anyhow::Result<File> {
    let column = |one: &ColumnDef| QuestionColumn { name: one.name, data_type: one.ty.arrow().to_string() };
    let mut question = Question { tables: Vec::new(), sql };
    for TableFiles { table, files } in tables {
        let columns = table.columns.iter().map(column).collect();
        question.tables.push(QuestionTable { name: table.name, columns, files });
    }
    cluster.ask("ask", format, &[], &serde_json::to_vec(&question)?)
}

impl Engine for Cluster {
    fn parquet(&self, tables: &[TableFiles], sql: &str) -> Result<File, String> {
        asked(self, tables, sql, Format::Parquet).map_err(|error| format!("{error:#}"))
    }
}

/// Writes the answer to a query.
pub(super) fn write_answer(
    fleet: &FleetElsewhere<Cluster>,
    tables: &[TableFiles],
    (sql, format): (&str, Format),
    out: &mut (dyn io::Write + Send),
) -> Result<(), Failure> {
    copy(asked(fleet.engine(), tables, sql, format), out)
}
