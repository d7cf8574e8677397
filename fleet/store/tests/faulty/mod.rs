//! A store of which one request in some fails.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};

/// Every n-th request fails as those of a server that is overloaded do.
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: Arc<InMemory>,
    every: u64,
    requests: AtomicU64,
    failures: AtomicU64,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<InMemory>, every: u64) -> Self {
        Self { inner, every, requests: AtomicU64::new(0), failures: AtomicU64::new(0) }
    }

    #[allow(dead_code, reason = "each test file is a crate of its own, and not all of them ask")]
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    fn request(&self) -> Result<()> {
        if !(self.requests.fetch_add(1, Relaxed) + 1).is_multiple_of(self.every) {
            return Ok(());
        }
        self.failures.fetch_add(1, Relaxed);
        Err(object_store::Error::Generic { store: "faulty", source: "503 Slow Down".into() })
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("faulty")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.request()?;
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.request()?;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.request()?;
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<bytes::Bytes>> {
        self.request()?;
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.request() {
            Ok(()) => self.inner.list(prefix),
            Err(error) => Box::pin(futures::stream::once(async { Err(error) })),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.request()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.request()?;
        self.inner.copy_opts(from, to, options).await
    }
}
