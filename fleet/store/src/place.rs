//! A bucket and a prefix, opened with the credentials of the environment.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectMeta, ObjectStore, RetryConfig};
use url::Url;

use crate::credentials::Profile;
use crate::error::{Result, StoreError};

/// How long a store may be away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Time from the first failure of a request to the last try.
    pub total: Duration,
    /// Longest pause between two tries.
    pub longest_pause: Duration,
}

impl Default for Patience {
    /// A quarter of an hour, with pauses of up to half a minute.
    fn default() -> Self {
        Self { total: Duration::from_mins(15), longest_pause: Duration::from_secs(30) }
    }
}

/// A request that has no answer after this long is made again.
const REQUEST: Duration = Duration::from_secs(30);
/// The client's own tries, within one of ours: the usual hiccup of a server is over by then.
const CLIENT_TRIES: Duration = Duration::from_secs(20);

/// A bucket and a prefix.
#[derive(Clone)]
pub struct Place {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    url: String,
    patience: Patience,
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Place").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Place {
    /// The place that a URL names. Nothing is asked of the store yet.
    ///
    /// # Errors
    /// The URL names no store, or its credentials contradict each other.
    pub fn open(text: &str, patience: Patience) -> Result<Self> {
        let wrong = |found: String| StoreError::Url { url: without_secrets(text), found };
        let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
        if url.username() != "" || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("user, password, query and fragment have no meaning here".to_owned()));
        }
        let bucket = || url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| wrong("no bucket".to_owned()));
        let opened = |error: object_store::Error| StoreError::of(text, &error);
        let store: Arc<dyn ObjectStore> = match url.scheme() {
            "s3" => Arc::new(s3(bucket()?).build().map_err(opened)?),
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket()?);
                Arc::new(builder.with_retry(retry()).with_client_options(client()).build().map_err(opened)?)
            }
            "az" => {
                let builder = MicrosoftAzureBuilder::from_env().with_container_name(bucket()?);
                Arc::new(builder.with_retry(retry()).with_client_options(client()).build().map_err(opened)?)
            }
            "file" => Arc::new(LocalFileSystem::new()),
            other => return Err(wrong(format!("{other} is no store"))),
        };
        let prefix = Path::from_url_path(url.path()).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { store, prefix, url: text.trim_end_matches('/').to_owned(), patience })
    }

    /// A place in a store that is there already, such as one in memory.
    pub fn in_store(store: Arc<dyn ObjectStore>, prefix: &str, patience: Patience) -> Result<Self> {
        let url = format!("store:///{prefix}");
        let prefix =
            Path::parse(prefix).map_err(|error| StoreError::Url { url: url.clone(), found: error.to_string() })?;
        Ok(Self { store, prefix, url, patience })
    }

    /// As it was named.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The store.
    pub(crate) fn store(&self) -> &dyn ObjectStore {
        &*self.store
    }

    /// The same, for what keeps it.
    pub(crate) fn shared(&self) -> Arc<dyn ObjectStore> {
        self.store.clone()
    }

    /// The object of a file.
    pub(crate) fn object(&self, relative: &str) -> Path {
        relative.split('/').filter(|name| !name.is_empty()).fold(self.prefix.clone(), Path::join)
    }

    /// The URL of a file, for messages.
    pub(crate) fn url_of(&self, relative: &str) -> String {
        if relative.is_empty() { self.url.clone() } else { format!("{}/{relative}", self.url) }
    }

    /// All objects below, with their names from here on. Names that object stores allow and files do not are among them.
    pub(crate) async fn list(&self) -> Result<Vec<(String, ObjectMeta)>> {
        let listed =
            self.patiently(&self.url, || async { self.store.list(Some(&self.prefix)).try_collect::<Vec<_>>().await });
        let above = if self.prefix.as_ref().is_empty() { 0 } else { self.prefix.as_ref().len() + 1 };
        let named = |meta: ObjectMeta| Some((meta.location.as_ref().get(above..)?.to_owned(), meta));
        Ok(listed.await?.into_iter().filter_map(named).collect())
    }

    /// A pause of at most this length: shorter where nothing is waited for.
    pub(crate) fn pause_of(&self, longest: Duration) -> Duration {
        longest.min(self.patience.longest_pause)
    }

    /// Goes through the objects below, at most `most` of them, and adds each with its name from here on. A try that fails begins anew.
    pub(crate) async fn fold<T: Default>(
        &self,
        most: usize,
        add: impl Fn(&mut T, &str, ObjectMeta),
    ) -> Result<(T, bool)> {
        let above = if self.prefix.as_ref().is_empty() { 0 } else { self.prefix.as_ref().len() + 1 };
        self.patiently(&self.url, || async {
            let (mut all, mut objects) = (T::default(), 0);
            let mut listed = self.store.list(Some(&self.prefix));
            while let Some(meta) = listed.try_next().await? {
                if objects == most {
                    return Ok((all, true));
                }
                objects += 1;
                let location = meta.location.clone();
                if let Some(name) = location.as_ref().get(above..) {
                    add(&mut all, name, meta);
                }
            }
            Ok((all, false))
        })
        .await
    }

    /// Does something until it works, what the caller must mend comes up, or the patience is at an end.
    pub(crate) async fn patiently<T, F, Fut>(&self, url: &str, mut attempt: F) -> Result<T>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = object_store::Result<T>>,
    {
        let began = Instant::now();
        let mut pause = Duration::from_millis(200);
        loop {
            let error = match attempt().await {
                Ok(done) => return Ok(done),
                Err(error) => StoreError::of(url, &error),
            };
            if !error.may_pass() {
                return Err(error);
            }
            let left = self.patience.total.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(StoreError::Away {
                    url: url.to_owned(),
                    seconds: began.elapsed().as_secs(),
                    said: error.to_string(),
                });
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(self.patience.longest_pause);
        }
    }
}

/// A URL as it may be shown: nobody is to give a password in one, and if somebody does it is not repeated.
fn without_secrets(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}://***{}", &url[..scheme], &url[at..]),
        _ => url.to_owned(),
    }
}

/// S3, or what speaks its protocol (AWS_ENDPOINT_URL). What the environment says comes before the files.
fn s3(bucket: &str) -> AmazonS3Builder {
    let profile = Profile::of_user();
    let mut builder =
        AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry()).with_client_options(client());
    let is_set = |name: &str| std::env::var_os(name).is_some();
    if !is_set("AWS_ACCESS_KEY_ID") {
        if let (Some(id), Some(secret)) = (profile.get("aws_access_key_id"), profile.get("aws_secret_access_key")) {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        }
        if let Some(token) = profile.get("aws_session_token") {
            builder = builder.with_token(token);
        }
    }
    if let Some(region) = profile.get("region").filter(|_| !is_set("AWS_REGION") && !is_set("AWS_DEFAULT_REGION")) {
        builder = builder.with_region(region);
    }
    let named =
        ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"].iter().find_map(|name| std::env::var(name).ok());
    if let Some(endpoint) = named.or_else(|| profile.get("endpoint_url").map(str::to_owned)) {
        // Whoever names an endpoint without TLS means it.
        builder = builder.with_allow_http(endpoint.starts_with("http://")).with_endpoint(endpoint);
    }
    builder
}

fn retry() -> RetryConfig {
    let backoff =
        BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(5), base: 2.0 };
    RetryConfig { backoff, max_retries: 10, retry_timeout: CLIENT_TRIES }
}

fn client() -> ClientOptions {
    ClientOptions::new().with_timeout(REQUEST).with_connect_timeout(Duration::from_secs(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_name_no_store_are_refused_in_words() {
        let said = |url: &str| Place::open(url, Patience::default()).expect_err("refused").to_string();
        assert!(said("ftp://a/b").contains("ftp is no store"), "{}", said("ftp://a/b"));
        assert!(said("s3:///b").contains("s3://BUCKET/PREFIX"), "{}", said("s3:///b"));
        assert!(said("s3://user:secret@bucket/x").contains("no meaning"));
        assert!(!said("s3://user:secret@bucket/x?y=1").contains("secret"));
        assert!(said("nonsense").contains("needed"));
    }

    #[test]
    fn objects_are_named_below_the_prefix() {
        let place = Place::open("file:///tmp/fleet/", Patience::default()).expect("a folder");
        assert_eq!(place.object("a/manifest.json").as_ref(), "tmp/fleet/a/manifest.json");
        assert_eq!(place.object("").as_ref(), "tmp/fleet");
        assert_eq!(place.url_of("a"), "file:///tmp/fleet/a");
    }
}
