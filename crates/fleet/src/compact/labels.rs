//! What is known of hosts beside their recordings: instance types, groups, regions.

use std::collections::BTreeMap;

/// Labels of hosts, from a table of text: names in the first line, the host first, and a line for each host.
///
/// ```
/// use pagelab_fleet::compact::HostLabels;
/// let labels = HostLabels::parse("host,instance_type,host_group\nh1,m1.large,front\nh2,,back\n").unwrap();
/// assert_eq!(labels.of("h1").collect::<Vec<_>>(), [("host_group", "front"), ("instance_type", "m1.large")]);
/// assert_eq!(labels.of("h2").collect::<Vec<_>>(), [("host_group", "back")]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostLabels {
    by_host: BTreeMap<String, BTreeMap<String, String>>,
}

impl HostLabels {
    /// Reads lines of values between commas. An empty value is none; quotes mean nothing.
    ///
    /// # Errors
    /// In words: a first line that does not begin with `host`, a name that is empty or there twice, a line with another number of
    /// values, a host that is there twice.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (_, head) = lines.next().ok_or("found an empty file; needed: a first line such as host,instance_type")?;
        let names: Vec<&str> = head.split(',').map(str::trim).collect();
        if names.first() != Some(&"host") || names.len() < 2 {
            return Err(format!(
                "found the first line {head:?}; needed: host and at least one name, such as host,instance_type"
            ));
        }
        if let Some(bad) = names.iter().enumerate().find(|(at, name)| name.is_empty() || names[..*at].contains(name)) {
            return Err(format!("found the name {:?} in the first line; needed: names that differ", bad.1));
        }
        let mut by_host = BTreeMap::new();
        for (number, line) in lines {
            let values: Vec<&str> = line.split(',').map(str::trim).collect();
            let (found, needed) = (values.len(), names.len());
            if found != needed {
                return Err(format!("line {}: found {found} values, needed {needed} as in the first line", number + 1));
            }
            let pairs = names.iter().zip(&values).skip(1).filter(|(_, value)| !value.is_empty());
            let labels = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let host = values.first().copied().unwrap_or_default().to_owned();
            if by_host.insert(host.clone(), labels).is_some() {
                return Err(format!("line {}: host {host} is there twice", number + 1));
            }
        }
        Ok(Self { by_host })
    }

    /// The labels of a host with their values, by name.
    pub fn of<'a>(&'a self, host: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.by_host.get(host).into_iter().flatten().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_tables_say_what_is_wrong() {
        for (text, says) in [
            ("", "empty"),
            ("name,type\n", "host and at least one"),
            ("host\n", "host and at least one"),
            ("host,a,a\n", "names that differ"),
            ("host,a\nh1\n", "line 2: found 1 values, needed 2"),
            ("host,a\n\nh1,x\nh1,y\n", "line 4: host h1 is there twice"),
        ] {
            let error = HostLabels::parse(text).expect_err(text);
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
