//! The host's package sources, read, and those of the lab derived from them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::error::{LabError, Result};

/// The release whose kernels and tools the lab takes.
pub(super) const RELEASE: &str = "bookworm";

/// Where packages come from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    /// A path of a key, or the key itself in the form of deb822; `None` is the host's default.
    signed_by: Option<String>,
}

/// The lab's sources in the form of deb822, from those of the host below `root`.
pub(super) fn derive(root: &Path) -> Result<String> {
    let mut sources = Vec::new();
    let etc = root.join("etc/apt");
    let one_line = fs::read_to_string(etc.join("sources.list")).unwrap_or_default();
    // The file may have either form, whatever its name says.
    sources.extend(if one_line.contains("URIs:") { deb822(&one_line) } else { lines(&one_line) });
    let mut files: Vec<_> =
        fs::read_dir(etc.join("sources.list.d")).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_default();
        match file.extension().and_then(|ending| ending.to_str()) {
            Some("sources") => sources.extend(deb822(&text)),
            Some("list") => sources.extend(lines(&text)),
            _ => {}
        }
    }
    let release = fs::read_to_string(root.join("etc/os-release")).unwrap_or_default();
    let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or(RELEASE);
    let text = derived(&sources, codename.trim_matches('"'));
    if text.is_empty() {
        return Err(LabError::PackageManager {
            command: format!("looking for a mirror of {RELEASE} in {}", etc.display()),
            said: format!(
                "found no source with the suite {codename} and the component main, needed one; type: apt edit-sources"
            ),
        });
    }
    Ok(text)
}

/// For each of the host's own mirrors the same mirror with the lab's suites.
fn derived(sources: &[Source], codename: &str) -> String {
    let mut stanzas = Vec::new();
    for source in sources.iter().filter(|source| source.components.iter().any(|component| component == "main")) {
        let (mut plain, mut security) = (false, false);
        for suite in &source.suites {
            let (base, pocket) = suite.split_once(['-', '/']).unwrap_or((suite, ""));
            if [codename, RELEASE, "stable", "oldstable"].contains(&base) {
                plain |= pocket.is_empty();
                security |= pocket == "security" || pocket == "updates" && suite.contains('/');
            }
        }
        let suites = match (plain, security) {
            (false, false) => continue,
            (false, true) => format!("{RELEASE}-security"),
            (true, false) => format!("{RELEASE} {RELEASE}-updates {RELEASE}-backports"),
            (true, true) => format!("{RELEASE} {RELEASE}-updates {RELEASE}-backports {RELEASE}-security"),
        };
        let mut stanza = format!("Types: deb\nURIs: {}\nSuites: {suites}\nComponents: main\n", source.uris.join(" "));
        if let Some(key) = &source.signed_by {
            let _ = writeln!(stanza, "Signed-By: {key}");
        }
        if !stanzas.contains(&stanza) {
            stanzas.push(stanza);
        }
    }
    stanzas.join("\n")
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// sources.list(5), the form with fields.
fn deb822(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    // A line of white space ends a stanza; comments may stand anywhere in one.
    let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for stanza in kept.split(|line| line.trim().is_empty()) {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in stanza {
            if line.starts_with([' ', '\t']) {
                if let Some((_, value)) = fields.last_mut() {
                    value.push('\n');
                    value.push_str(line);
                }
            } else if let Some((name, value)) = line.split_once(':') {
                fields.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        let field = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let list = |name: &str| words(&field(name).unwrap_or_default());
        let off = field("enabled").is_some_and(|value| ["no", "false", "0", "off"].contains(&value.as_str()));
        if off || !list("types").iter().any(|kind| kind == "deb") {
            continue;
        }
        sources.push(Source {
            uris: list("uris"),
            suites: list("suites"),
            components: list("components"),
            signed_by: field("signed-by"),
        });
    }
    sources
}

/// sources.list(5), the form of one line.
fn lines(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some(rest) = line.strip_prefix("deb").filter(|rest| rest.starts_with([' ', '\t'])) else { continue };
        let (options, rest) = match rest.trim_start().strip_prefix('[') {
            Some(rest) => rest.split_once(']').unwrap_or_default(),
            None => ("", rest),
        };
        let signed_by = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
        let mut fields = rest.split_whitespace().map(str::to_owned);
        let (Some(uri), Some(suite)) = (fields.next(), fields.next()) else { continue };
        sources.push(Source {
            uris: vec![uri],
            suites: vec![suite],
            components: fields.collect(),
            signed_by: signed_by.map(str::to_owned),
        });
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_give_the_lab_its_suites_on_the_same_mirrors() {
        let fields = "Types: deb\n# a comment\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\n\
             Components: main\nSigned-By: /k.gpg\n\nTypes: deb\nURIs: http://mirror.example/security\n\
             Suites: bookworm-security\nComponents: main contrib\nSigned-By:\n -----BEGIN\n .\n x\n";
        let expected = "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates \
             bookworm-backports\nComponents: main\nSigned-By: /k.gpg\n\nTypes: deb\nURIs: \
             http://mirror.example/security\nSuites: bookworm-security\nComponents: main\nSigned-By: \n -----BEGIN\n \
             .\n x\n";
        assert_eq!(derived(&deb822(fields), "bookworm"), expected);
        let line = "deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian trixie main non-free # x\n\
             deb-src http://mirror.example/debian trixie main\n#deb http://off.example trixie main\n\
             deb http://mirror.example/security trixie-security main\ndeb http://old.example stable/updates main\n";
        let found = derived(&lines(line), "trixie");
        assert_eq!(found.matches("Types: deb").count(), 3, "{found}");
        assert!(found.starts_with("Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates"));
        assert_eq!(found.matches("Suites: bookworm-security").count(), 2, "{found}");
    }

    #[test]
    fn what_is_off_foreign_or_without_main_is_left_out() {
        let text = "Types: deb\nEnabled: no\nURIs: http://a\nSuites: bookworm\nComponents: main\n\n\
             Types: deb-src\nURIs: http://b\nSuites: bookworm\nComponents: main\n\n\
             Types: deb\nURIs: http://c\nSuites: nodistro\nComponents: main\n\n\
             Types: deb\nURIs: http://d\nSuites: bookworm\nComponents: contrib\n";
        assert_eq!(derived(&deb822(text), "bookworm"), "");
        let root = tempfile::tempdir().expect("a folder");
        let error = derive(root.path()).expect_err("nothing there").to_string();
        assert!(error.contains("found no source with the suite bookworm"), "{error}");
    }

    #[test]
    fn the_hosts_files_are_read() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("etc/os-release", "ID=debian\nVERSION_CODENAME=trixie\n");
        write("etc/apt/sources.list", "deb http://one.example/debian trixie main\n");
        write(
            "etc/apt/sources.list.d/x.sources",
            "Types: deb\nURIs: http://two.example\nSuites: trixie\nComponents: main\n",
        );
        write("etc/apt/sources.list.d/y.disabled", "deb http://three.example trixie main\n");
        let found = derive(root.path()).expect("derived");
        assert!(found.contains("one.example") && found.contains("two.example") && !found.contains("three"), "{found}");
    }
}
