//! The AWS files that hold credentials, `~/.aws/credentials` and `~/.aws/config`, which the client library does not read.
//!
//! Format: <https://docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html>. Of a profile the keys below are read, and nothing
//! that would run a program.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;

/// What a profile says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Profile(BTreeMap<String, String>);

impl Profile {
    /// The value of a key such as `aws_access_key_id`.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The profile that `AWS_PROFILE` names, else `default`, from the files that `AWS_SHARED_CREDENTIALS_FILE` and `AWS_CONFIG_FILE`
    /// name, else from `~/.aws`. Files that are not there say nothing.
    pub(crate) fn of_user() -> Self {
        let name = env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
        let home = env::var_os("HOME").map(PathBuf::from);
        let file = |variable: &str, usual: &str| {
            let named = env::var_os(variable).map(PathBuf::from);
            named.or_else(|| Some(home.as_ref()?.join(".aws").join(usual)))
        };
        let text = |path: Option<PathBuf>| path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        let config = text(file("AWS_CONFIG_FILE", "config"));
        let credentials = text(file("AWS_SHARED_CREDENTIALS_FILE", "credentials"));
        Self::parse(&name, &config, &credentials)
    }

    /// The keys of `name`; where both files have one, that of the credentials.
    fn parse(name: &str, config: &str, credentials: &str) -> Self {
        let mut keys = BTreeMap::new();
        for text in [config, credentials] {
            let mut is_ours = false;
            for line in text.lines() {
                let bare = line.trim();
                if let Some(section) = bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                    let section = section.trim();
                    // In `config` a profile is `[profile NAME]`, but for the default one.
                    is_ours = section.strip_prefix("profile").map_or(section, str::trim) == name;
                } else if is_ours && !line.starts_with([' ', '\t', '#', ';']) {
                    // Indented lines belong to the key above, such as s3 =, and are another level.
                    if let Some((key, value)) = bare.split_once('=') {
                        keys.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
                    }
                }
            }
        }
        keys.retain(|_, value| !value.is_empty());
        Self(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_what_both_files_say() {
        let config = "[default]\nregion = eu-west-1\n[profile lab]\nregion=us-east-2\ns3 =\n  addressing_style = path\n# no\nendpoint_url = http://127.0.0.1:1\n";
        let credentials =
            "[default]\naws_access_key_id = A\n[lab]\naws_access_key_id = B\naws_secret_access_key = s=e=c\n";
        let lab = Profile::parse("lab", config, credentials);
        assert_eq!(lab.get("region"), Some("us-east-2"));
        assert_eq!(lab.get("aws_access_key_id"), Some("B"));
        assert_eq!(lab.get("aws_secret_access_key"), Some("s=e=c"));
        assert_eq!(lab.get("endpoint_url"), Some("http://127.0.0.1:1"));
        assert_eq!(lab.get("addressing_style"), None);
        assert_eq!(Profile::parse("default", config, credentials).get("region"), Some("eu-west-1"));
        assert_eq!(Profile::parse("none", config, credentials), Profile::default());
    }
}
