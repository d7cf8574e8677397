//! SQL over tables of files, carried out by a cluster of Ballista: stock schedulers and executors, no code of ours in them.
//!
//! A query is planned here, by the session that plans it for the embedded engine: one plan, two engines. Of tables of files
//! ([`pagelab_sql::listed`], [`ask`]) the logical plan goes to the scheduler, which lists the files; of recordings
//! ([`pagelab_sql::placed`], [`ask_recordings`]) the physical one, because parts are chosen and checked here. The scheduler divides the
//! work among its executors, and names the place of the result, which is read from them. So the files must be where scheduler and
//! executors read: in S3, on HTTP, or in folders that all of them have. Credentials for S3 are theirs, from their environment; none goes
//! over the wire.
//!
//! # What is held to what
//! The tables are lists of files ([`Question`]), made by whoever asks: the plan that arrives names exactly these. A cluster that cannot
//! read one fails the query. Client, scheduler and executors are of one version of Ballista ([`BALLISTA_VERSION`]), and a scheduler of
//! another is refused.
//!
//! # When something dies
//! The scheduler gives the work of an executor that was lost to another one (of version 55.0.0 where executors ask for work,
//! `pull-staged`); what cannot be finished ends the query with the scheduler's words. A result that ends early is an error, never a
//! short answer. A query that has no end within [`AskOptions::patience`] is given up here, because a scheduler without executors waits for
//! one.

mod question;
mod recordings;
mod url;

use std::io::Write;
use std::time::Duration;

use ballista::prelude::{SessionConfigExt, SessionContextExt};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use pagelab_sql::listed::{ListedTable, query_listed_with};
use pagelab_sql::{Format, QueryError, QueryOptions};

pub use question::{Column, Question, Table};
pub use recordings::ask_recordings;
pub use url::ClusterUrl;

/// The version of Ballista that is spoken.
pub use ballista_core::BALLISTA_VERSION;

/// Settings of the client, in seconds. A scheduler that is there answers at once; the result of a query comes when it comes.
const CLIENT: [(&str, u64); 2] =
    [("ballista.client.grpc_connect_timeout_seconds", 5), ("ballista.client.grpc_timeout_seconds", 60)];

/// Limits of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskOptions {
    /// How long the cluster may take.
    pub patience: Duration,
}

impl Default for AskOptions {
    fn default() -> Self {
        Self { patience: Duration::from_secs(900) }
    }
}

/// Has a question answered by the cluster, and writes the answer. Returns the number of rows.
///
/// # Errors
/// The query is wrong, the cluster cannot be reached or does not answer in time, or says no.
pub fn ask(
    cluster: &ClusterUrl,
    question: &Question,
    format: Format,
    out: &mut (dyn Write + Send),
    options: AskOptions,
) -> Result<u64, QueryError> {
    let tables = question.tables.iter().map(Table::listed).collect::<Result<Vec<ListedTable>, _>>()?;
    let limits = QueryOptions::default();
    let done = query_listed_with(&tables, &question.sql, format, out, &limits, options.patience, |context| {
        distributed(context, cluster)
    });
    done.map_err(|error| explained(error, cluster, options.patience))
}

/// A session's settings as a cluster has them.
fn configured(config: SessionConfig) -> SessionConfig {
    // Planned anew after each stage, version 55.0.0 lost the output of a stage whose executor died, and the query had no end.
    let config = config.upgrade_for_ballista().with_ballista_adaptive_query_planner(false);
    CLIENT.iter().fold(config, |config, (key, seconds)| config.set_u64(key, *seconds))
}

/// The session, with the cluster in place of the embedded engine.
async fn distributed(context: SessionContext, cluster: &ClusterUrl) -> Result<SessionContext, DataFusionError> {
    let state = context.state();
    let config = configured(state.config().clone());
    let state = SessionStateBuilder::new_from_existing(state).with_config(config).build();
    SessionContext::remote_with_state(&cluster.to_string(), state).await
}

/// What the client says, with what can be done about it.
fn explained(error: QueryError, cluster: &ClusterUrl, patience: Duration) -> QueryError {
    match error {
        QueryError::Unanswered(said) => QueryError::Unanswered(in_words(&said, cluster)),
        QueryError::TooLate => QueryError::Unanswered(format!(
            "{cluster}: found no end of the query after {} s; a scheduler without executors waits for one: see whether they run, or \
             type --patience with more seconds",
            patience.as_secs()
        )),
        other => other,
    }
}

fn in_words(said: &str, cluster: &ClusterUrl) -> String {
    let holds = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if holds(&["ConnectError", "tcp connect error", "Connection refused", "dns error", "ConnectTimeout"]) {
        return format!(
            "{cluster}: cannot reach a scheduler of Ballista or one of its executors: {said}; needed: ballista-scheduler {BALLISTA_VERSION} \
             there, and executors whose addresses this host can reach (docs/fleet.md)"
        );
    }
    if holds(&[
        "Stream closed without job completing",
        "h2 protocol error",
        "connection closed",
        "broken pipe",
        "transport error",
    ]) {
        return format!(
            "{cluster}: the scheduler went away before the query had ended: {said}; ask once more when it is back"
        );
    }
    said.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_says_is_explained() {
        let cluster: ClusterUrl = "df://127.0.0.1:50050".parse().expect("a cluster");
        let text = |said: &str| in_words(said, &cluster);
        let refused = text(
            "Execution error: tonic::transport::Error(Transport, ConnectError(Os { code: 111, message: \"Connection refused\" }))",
        );
        assert!(refused.starts_with("df://127.0.0.1:50050: cannot reach") && refused.contains("55.0.0"), "{refused}");
        assert!(text("Execution error: Stream closed without job completing").contains("went away"));
        let late = explained(QueryError::TooLate, &cluster, Duration::from_secs(7)).to_string();
        assert!(late.contains("after 7 s"), "{late}");
        assert_eq!(text("there is no table x"), "there is no table x");
    }
}
