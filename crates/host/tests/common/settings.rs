//! Settings of this host, changed as another program would, and put back.

use std::path::Path;

use pagelab_host::settings::{known, read};

/// The present value of a setting of this host.
pub(crate) fn value(key: &str) -> Option<String> {
    read(Path::new("/"), key).ok()
}

/// The file of a setting.
pub(crate) fn file_of(key: &str) -> String {
    known(key).ok().and_then(|info| info.path()).expect("one file")
}

/// Settings as they were, also when a test fails; the last one first.
pub(crate) struct SetBack(pub Vec<(String, String)>);

impl SetBack {
    pub(crate) fn of(keys: &[&str]) -> Self {
        SetBack(keys.iter().filter_map(|key| Some(((*key).to_owned(), value(key)?))).collect())
    }

    pub(crate) fn value(&self, key: &str) -> &str {
        self.0.iter().find(|(known, _)| known == key).map_or("", |(_, value)| value)
    }

    pub(crate) fn now(&self) -> Vec<(String, String)> {
        self.0.iter().filter_map(|(key, _)| Some((key.clone(), value(key)?))).collect()
    }

    pub(crate) fn put(&self) {
        for _ in 0..2 {
            for (key, before) in self.0.iter().rev().filter(|(key, before)| value(key).as_ref() != Some(before)) {
                // If two exclude each other one brings the other along, and refuses its own zero.
                let _ = std::fs::write(file_of(key), before);
            }
        }
    }
}

impl Drop for SetBack {
    fn drop(&mut self) {
        self.put();
    }
}
