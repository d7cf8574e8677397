//! Queries over recordings: planned here to the last operator, because which parts count is decided here.

use std::io::Write;
use std::sync::Arc;

use ballista::prelude::SessionConfigExt;
use ballista_core::execution_plans::execute_physical_plan;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use datafusion::prelude::SessionContext;
use datafusion_proto::protobuf::PhysicalPlanNode;
use pagelab_sql::placed::{Places, query_placed};
use pagelab_sql::{Answer, Format, QueryError, QueryOptions};

use crate::{AskOptions, ClusterUrl, configured, explained};

/// Has a query over recordings answered by the cluster, and writes the answer. Damaged parts are left out and named.
///
/// # Errors
/// As [`crate::ask`].
pub fn ask_recordings(
    cluster: &ClusterUrl,
    places: &Places,
    sql: &str,
    (format, out): (Format, &mut (dyn Write + Send)),
    (limits, options): (&QueryOptions, AskOptions),
) -> Result<Answer, QueryError> {
    let execute = |plan, context| execute(plan, context, cluster);
    query_placed(places, sql, (format, out), (limits, options.patience), configured, execute)
        .map_err(|error| explained(error, cluster, options.patience))
}

async fn execute(
    plan: Arc<dyn ExecutionPlan>,
    context: SessionContext,
    cluster: &ClusterUrl,
) -> Result<SendableRecordBatchStream, DataFusionError> {
    let config = context.copied_config();
    let codec = config.ballista_physical_extension_codec();
    let ballista = config.ballista_config();
    execute_physical_plan::<PhysicalPlanNode>(
        cluster.endpoint(),
        &ballista,
        plan,
        codec.as_ref(),
        context.session_id(),
        config,
    )
    .await
}
