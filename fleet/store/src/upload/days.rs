//! Days of compacted fleets on their way into a store.
//!
//! A day's tables are replaced one by one, each whole, and its document after them ([`crate::day`]); objects of tables that the day does
//! not have any more go at last. A table that is in the store with the same content is not copied again, whoever copied it.

use std::collections::BTreeMap;

use object_store::ObjectStoreExt as _;

use super::{Passed, Upload};
use crate::day::{DayContent, FileContent};
use crate::error::{Result, StoreError};
use crate::journal::Version;
use crate::layout::{self, COMPLETE, Kind};
use crate::mirror::Version as Object;

impl Upload {
    /// Copies a day unless these versions of its tables are in the store; gives whether anything was copied.
    pub(super) async fn pass_day(&mut self, day: &str, files: &[(String, Kind)], passed: &mut Passed) -> Result<bool> {
        let names = files.iter().filter(|(name, kind)| *kind == Kind::DayTable && layout::day_of(name) == Some(day));
        let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
        let mut versions = Vec::with_capacity(names.len());
        for name in &names {
            let path = self.folder.join(name);
            versions.push(Version::of(&path).map_err(StoreError::file("look at", &path))?);
        }
        let document = format!("{day}/{COMPLETE}");
        let is_copied = |(name, version): (&&str, &Version)| self.journal.version(name) == Some(version);
        // The document, too; and nothing that is no longer there.
        let in_store = self.journal.names().filter(|name| layout::day_of(name) == Some(day));
        let is_same = in_store.filter(|name| **name != document).all(|name| names.contains(&name));
        if is_same && self.journal.version(&document).is_some() && names.iter().zip(&versions).all(is_copied) {
            return Ok(false);
        }
        let mut ours = self.content_of(day, &names)?;
        let found = DayContent::load(&self.place, day).await?;
        if let Some(base) = &self.base
            && !is_unchanged(found.as_ref().map(|(_, version)| version), base.get(&document))
        {
            let said = "was compacted by somebody else since it was copied; nothing of it was overwritten; type the same command again";
            return Err(StoreError::Document { what: self.place.url_of(day), said: said.to_owned() });
        }
        let theirs = found.map(|(content, _)| content);
        // Until the document is there again the day is not: a later process begins here, and not behind it.
        if self.journal.version(&document).is_some() {
            self.journal.removed(&document)?;
        }
        for (name, version) in names.iter().zip(&versions) {
            let file = file_name(name);
            let there = theirs.as_ref().and_then(|theirs| theirs.files.get(file));
            let Some(content) = ours.files.get_mut(file) else { continue };
            content.e_tag = self.unchanged(name, content, there).await?;
            if content.e_tag.is_none() {
                self.send_table(name).await?;
                passed.copied += 1;
                passed.copied_bytes += version.bytes;
                content.e_tag = self.e_tag(name, version.bytes).await?;
            }
            self.journal.copied(name, *version)?;
        }
        let is_same = theirs.as_ref() == Some(&ours);
        if !is_same {
            let text = ours.text(&document)?;
            passed.copied += 1;
            passed.copied_bytes += text.len() as u64;
            self.put_text(&document, text).await?;
        }
        self.journal.copied(&document, Version { bytes: 0, modified_ns: 0, inode: 0 })?;
        for gone in theirs.iter().flat_map(|theirs| theirs.files.keys()).filter(|file| !ours.files.contains_key(*file))
        {
            let name = format!("{day}/{gone}");
            // A document that others wrote can name anything.
            if layout::day_of(&name) == Some(day) {
                self.remove(&name).await?;
                passed.removed += 1;
            }
        }
        Ok(!is_same)
    }

    /// What the tables of a day hold. Refused if the document beside them says that they are another day's, or of two compactions.
    fn content_of(&self, day: &str, names: &[&str]) -> Result<DayContent> {
        let mut files = BTreeMap::new();
        for name in names {
            files.insert(file_name(name).to_owned(), FileContent::of(&self.folder.join(name))?);
        }
        if self.base.is_some() {
            return Ok(DayContent::new(files));
        }
        let path = self.folder.join(day).join(COMPLETE);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(DayContent::new(files)),
            text => text.map_err(StoreError::file("read", &path))?,
        };
        let told = DayContent::parse(&path.display().to_string(), &text)?;
        let differs = |file: &&String| match (told.files.get(*file), files.get(*file)) {
            (Some(told), Some(found)) => !told.is_same(found),
            _ => true,
        };
        if let Some(file) = told.files.keys().chain(files.keys()).find(differs) {
            let said = format!(
                "the day is not whole: {file} is not what {COMPLETE} says; nothing was copied; compact it again: pagelab fleet compact"
            );
            return Err(StoreError::Document { what: self.folder.join(day).display().to_string(), said });
        }
        Ok(DayContent::new(files))
    }

    /// The store's name for the object of a table, if it holds this content already.
    async fn unchanged(&self, name: &str, ours: &FileContent, there: Option<&FileContent>) -> Result<Option<String>> {
        let Some(there) = there.filter(|there| there.is_same(ours)) else { return Ok(None) };
        // The document may be older than the object: one that was replaced, and not its document, has another name.
        let Some(named) = &there.e_tag else { return Ok(None) };
        let found = self.e_tag(name, ours.bytes).await?;
        Ok(found.filter(|found| found == named))
    }

    /// The store's name for an object of this size; none if the store has none, or there is no such object.
    async fn e_tag(&self, name: &str, bytes: u64) -> Result<Option<String>> {
        let (object, url) = (self.place.object(name), self.place.url_of(name));
        let found = self.place.patiently(&url, || async {
            match self.place.store().head(&object).await {
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                found => found.map(Some),
            }
        });
        Ok(found.await?.filter(|found| found.size == bytes).and_then(|found| found.e_tag))
    }

    async fn send_table(&self, name: &str) -> Result<()> {
        let path = self.folder.join(name);
        if self.send(name, &path).await? {
            return Ok(());
        }
        let error = std::io::Error::from(std::io::ErrorKind::NotFound);
        Err(StoreError::File { path, doing: "read", error })
    }
}

/// Whether a document is what it was when it was copied, or is as little there as it was then.
fn is_unchanged(found: Option<&Object>, copied: Option<&Object>) -> bool {
    match (found, copied) {
        (Some(found), Some(copied)) => found.is_same(copied),
        (found, copied) => found.is_none() && copied.is_none(),
    }
}

fn file_name(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, file)| file)
}
