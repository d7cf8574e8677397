//! Which package has the newest kernel of a series.

use std::process::{Command, Stdio};

use super::Apt;
use super::package::Package;
use super::sources::RELEASE;
use crate::error::{LabError, Result};
use crate::options::Kernel;

/// The newest image package of the series. Signed ones appear later than unsigned ones, and of old versions only some
/// are kept; of two that are equally new the signed one is taken.
pub(crate) fn newest_kernel(apt: &Apt, kernel: Kernel) -> Result<Package> {
    let prefix = format!("linux-image-{}.", kernel.name());
    let names = apt.run("apt-cache", &["pkgnames", &prefix])?;
    let names: Vec<&str> = names.lines().filter(|name| is_image(name)).collect();
    let missing = || LabError::PackageNotFound {
        package: format!("{prefix}*-amd64"),
        suites: format!("{RELEASE}, {RELEASE}-security and {RELEASE}-backports"),
    };
    if names.is_empty() {
        return Err(missing());
    }
    let table = apt.run("apt-cache", &[&["madison"], names.as_slice()].concat())?;
    let (name, version) = newest(&table, is_newer).ok_or_else(missing)?;
    Package::show(apt, &name, Some(&version))
}

/// `linux-image-VERSION-amd64`, signed or not: no flavour, no debug information, no metapackage.
fn is_image(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("linux-image-") else { return false };
    let Some(version) = rest.strip_suffix("-amd64").or_else(|| rest.strip_suffix("-amd64-unsigned")) else {
        return false;
    };
    let mut words = version.split(|letter: char| !letter.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    words.all(|word| word == "deb" || word == "bpo")
}

/// Name and version of the newest in what `apt-cache madison` says: `NAME | VERSION | where`.
fn newest(table: &str, is_newer: impl Fn(&str, &str) -> bool) -> Option<(String, String)> {
    let mut best: Option<(&str, &str)> = None;
    for line in table.lines() {
        let mut fields = line.split('|').map(str::trim);
        let (Some(name), Some(version)) = (fields.next(), fields.next()) else { continue };
        let signed = !name.ends_with("-unsigned");
        let better = best.is_none_or(|(_, found)| is_newer(version, found) || (version == found && signed));
        if better {
            best = Some((name, version));
        }
    }
    best.map(|(name, version)| (name.to_owned(), version.to_owned()))
}

/// Debian's order of versions, by dpkg.
fn is_newer(one: &str, other: &str) -> bool {
    let mut command = Command::new("dpkg");
    command.args(["--compare-versions", one, "gt", other]).stdin(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_images_count() {
        for name in [
            "linux-image-6.1.0-56-amd64",
            "linux-image-6.1.0-56-amd64-unsigned",
            "linux-image-6.12.113+deb12-amd64",
            "linux-image-6.12.9+bpo-amd64",
        ] {
            assert!(is_image(name), "{name}");
        }
        for name in [
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.1.0-56-rt-amd64-unsigned",
            "linux-image-6.1.0-56-amd64-dbg",
            "linux-image-6.12-amd64-signed-template",
            "linux-headers-6.1.0-56-amd64",
        ] {
            assert!(!is_image(name), "{name}");
        }
    }

    #[test]
    fn the_newest_is_taken_and_of_equals_the_signed_one() {
        let table = " linux-image-6.1.0-53-amd64 | 6.1.180-1 | http://m bookworm/main amd64 Packages\n\
             linux-image-6.1.0-56-amd64-unsigned | 6.1.192-2 | http://m bookworm-security/main\n\
             linux-image-6.1.0-56-amd64 | 6.1.192-2 | http://m bookworm-security/main\n\
             linux-image-6.1.0-9-amd64 | 6.1.99-1 | http://m bookworm/main\n";
        let found = newest(table, is_newer).expect("one");
        assert_eq!(found, ("linux-image-6.1.0-56-amd64".to_owned(), "6.1.192-2".to_owned()));
        let unsigned = table.replace("linux-image-6.1.0-56-amd64 |", "linux-image-6.1.0-54-amd64-unsigned |");
        assert!(newest(&unsigned, is_newer).expect("one").0.ends_with("-unsigned"));
        assert_eq!(newest("N: no such\n", is_newer), None);
    }
}
