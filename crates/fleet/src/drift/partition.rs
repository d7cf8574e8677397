//! How the values of a setting divide the hosts.

use std::collections::{BTreeMap, BTreeSet};

use super::HostSetting;

/// Class of hosts that have no value.
const NO_VALUE: u32 = 0;

/// The classes that the values of one setting divide the hosts into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Partition<'a> {
    pub key: &'a str,
    /// Per host its class: 1 and up in the order in which hosts, by name, show a new value, so that equal partitions
    /// are equal lists; 0 without a value.
    pub class_of_host: Vec<u32>,
    /// The value of each class, without 0.
    pub values: Vec<&'a str>,
    pub hosts_changed: usize,
    pub hosts_unknown: usize,
}

/// The partition of every key, in the order of keys.
pub(super) fn partitions<'a>(settings: &[HostSetting<'a>], hosts: &[&str]) -> Vec<Partition<'a>> {
    let mut by_key: BTreeMap<&str, BTreeMap<&str, BTreeSet<Option<&str>>>> = BTreeMap::new();
    for setting in settings {
        by_key.entry(setting.key).or_default().entry(setting.host).or_default().insert(setting.value);
    }
    by_key.into_iter().map(|(key, of_host)| Partition::of(key, &of_host, hosts)).collect()
}

impl<'a> Partition<'a> {
    fn of(key: &'a str, of_host: &BTreeMap<&str, BTreeSet<Option<&'a str>>>, hosts: &[&str]) -> Self {
        let mut partition = Self {
            key,
            class_of_host: Vec::with_capacity(hosts.len()),
            values: Vec::new(),
            hosts_changed: 0,
            hosts_unknown: 0,
        };
        let mut classes: BTreeMap<&str, u32> = BTreeMap::new();
        for host in hosts {
            let values = of_host.get(host);
            let class = match values.map(|values| (values.len(), values.first().copied().flatten())) {
                Some((1, Some(value))) => *classes.entry(value).or_insert_with(|| {
                    partition.values.push(value);
                    partition.values.len() as u32
                }),
                Some((several, _)) if several > 1 => {
                    partition.hosts_changed += 1;
                    NO_VALUE
                }
                _ => {
                    partition.hosts_unknown += 1;
                    NO_VALUE
                }
            };
            partition.class_of_host.push(class);
        }
        partition
    }

    /// Number of hosts of each class, without those that have none.
    fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.values.len()];
        for class in &self.class_of_host {
            if let Some(size) = (*class as usize).checked_sub(1).and_then(|class| sizes.get_mut(class)) {
                *size += 1;
            }
        }
        sizes
    }

    /// Indices of the values, most hosts first, then by value.
    pub(super) fn classes_by_size(&self) -> Vec<u32> {
        let sizes = self.sizes();
        let mut order: Vec<u32> = (0..self.values.len() as u32).collect();
        order.sort_by_key(|class| {
            let class = *class as usize;
            (std::cmp::Reverse(sizes.get(class).copied()), self.values.get(class).copied())
        });
        order
    }

    /// Whether the class of a host follows from its class in `label`: each value of the label has one value of this key. A label
    /// that nearly every host has a value of its own of says nothing, and is left out.
    pub(super) fn follows_from(&self, label: &Self) -> bool {
        let pairs = self.class_of_host.iter().zip(&label.class_of_host);
        let pairs: Vec<(u32, u32)> =
            pairs.map(|(own, of)| (*own, *of)).filter(|(own, of)| *own != NO_VALUE && *of != NO_VALUE).collect();
        let distinct: BTreeSet<(u32, u32)> = pairs.iter().copied().collect();
        let labels: BTreeSet<u32> = pairs.iter().map(|(_, of)| *of).collect();
        let values: BTreeSet<u32> = pairs.iter().map(|(own, _)| *own).collect();
        values.len() > 1 && distinct.len() == labels.len() && 2 * labels.len() <= pairs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows<'a>(key: &'a str, of: &[(&'a str, Option<&'a str>)]) -> Vec<HostSetting<'a>> {
        of.iter().map(|(host, value)| HostSetting { host, key, value: *value }).collect()
    }

    #[test]
    fn names_of_values_do_not_matter_to_a_partition() {
        let hosts = ["a", "b", "c", "d"];
        let one = rows("x", &[("a", Some("1")), ("b", Some("2")), ("c", Some("1")), ("d", None)]);
        let other = rows("y", &[("c", Some("always")), ("b", Some("never")), ("a", Some("always"))]);
        let found = partitions(&[one, other].concat(), &hosts);
        let [x, y] = found.as_slice() else { panic!("two keys: {found:?}") };
        assert_eq!(x.class_of_host, [1, 2, 1, 0]);
        assert_eq!(x.class_of_host, y.class_of_host);
        assert_eq!((x.hosts_unknown, y.hosts_unknown), (1, 1));
        assert_eq!(y.values, ["always", "never"]);
    }

    #[test]
    fn a_host_on_which_it_changed_has_no_value() {
        let found =
            partitions(&rows("x", &[("a", Some("1")), ("a", Some("2")), ("b", Some("1")), ("b", None)]), &["a", "b"]);
        assert_eq!(found.first().map(|one| (one.hosts_changed, one.values.len())), Some((2, 0)));
    }

    #[test]
    fn a_setting_follows_from_a_finer_label_only() {
        let hosts = ["a", "b", "c", "d", "e", "f"];
        let of = |key, values: [&'static str; 6]| {
            let pairs: Vec<_> = hosts.iter().copied().zip(values.map(Some)).collect();
            partitions(&rows(key, &pairs), &hosts).remove(0)
        };
        let instance = of("instance_type", ["m", "m", "l", "l", "x", "x"]);
        let setting = of("s", ["1", "1", "2", "2", "2", "2"]);
        let own_name = of("name", ["a", "b", "c", "d", "e", "f"]);
        assert!(setting.follows_from(&instance));
        assert!(!instance.follows_from(&setting));
        assert!(!setting.follows_from(&own_name), "every host has a name of its own");
        assert!(!of("other", ["1", "2", "1", "2", "1", "2"]).follows_from(&instance));
    }
}
