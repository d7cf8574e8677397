//! Where a cluster is.

use std::fmt;
use std::str::FromStr;

use pagelab_sql::QueryError;
use url::Url;

/// The port of a scheduler that is started without one.
const USUAL_PORT: u16 = 50050;

/// The address of a scheduler: `df://HOST[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterUrl {
    host: String,
    port: u16,
}

impl ClusterUrl {
    /// Where the scheduler listens.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}:{}", self.host, self.port)
    }
}

impl FromStr for ClusterUrl {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        let wrong = || {
            // What stands before an @ may be a password.
            let shown = text.rsplit('@').next().unwrap_or_default();
            QueryError::Unanswered(format!(
                "found the cluster {shown:?}; needed: df://HOST[:PORT], such as df://10.0.0.7:{USUAL_PORT}"
            ))
        };
        let url = Url::parse(text).map_err(|_| wrong())?;
        let is_plain =
            url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
        let has_no_path = url.path().is_empty() || url.path() == "/";
        match url.host_str() {
            Some(host) if url.scheme() == "df" && is_plain && has_no_path && !host.is_empty() => {
                Ok(Self { host: host.to_owned(), port: url.port().unwrap_or(USUAL_PORT) })
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for ClusterUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "df://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_named_by_host_and_port() {
        let read = |text: &str| text.parse::<ClusterUrl>().map(|cluster| cluster.to_string());
        assert_eq!(read("df://host").expect("a cluster"), "df://host:50050");
        assert_eq!(read("df://[::1]:1234/").expect("a cluster"), "df://[::1]:1234");
        for text in ["host:50050", "http://host:50050", "df://", "df://a/b", "df://u:secret@host", "df://host?x=1", ""]
        {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains("needed: df://HOST[:PORT]") && !error.contains("secret"), "{error}");
        }
    }
}
