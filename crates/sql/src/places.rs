//! Where an engine elsewhere finds the files of recordings.

use std::path::{Path, PathBuf};

use datafusion::execution::object_store::ObjectStoreUrl;

use crate::error::{QueryError, Result};

/// Folders with recordings, and the URL of what each is a copy of.
#[derive(Debug, Clone, Default)]
pub struct Places {
    roots: Vec<(PathBuf, String)>,
}

impl Places {
    /// Adds a folder that is a copy of what is at `url`.
    ///
    /// # Errors
    /// The URL names no store.
    pub fn add(&mut self, folder: &Path, url: &str) -> Result<()> {
        let url = url.trim_end_matches('/');
        place_of(url, "").ok_or_else(|| {
            QueryError::Unanswered(format!("found the place {url}, needed a URL: s3://BUCKET/PREFIX"))
        })?;
        self.roots.push((folder.to_owned(), url.to_owned()));
        Ok(())
    }

    /// The folders.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.roots.iter().map(|(folder, _)| folder.clone()).collect()
    }

    /// The store and the object that a file here is a copy of.
    pub fn object_of(&self, file: &Path) -> Option<(ObjectStoreUrl, String)> {
        let (below, url) = self.roots.iter().find_map(|(folder, url)| Some((file.strip_prefix(folder).ok()?, url)))?;
        place_of(url, below.to_str()?)
    }
}

/// `s3://bucket/prefix` as the store `s3://bucket` and the name of an object in it.
fn place_of(url: &str, below: &str) -> Option<(ObjectStoreUrl, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let (host, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let store = ObjectStoreUrl::parse(format!("{scheme}://{host}")).ok()?;
    let names: Vec<&str> = [prefix, below].into_iter().filter(|name| !name.is_empty()).collect();
    Some((store, names.join("/")))
}
