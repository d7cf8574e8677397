//! Holds the table of remedies to the kernel: each remedy under each setting, by counting the huge pages of a program.
//! It changes the transparent huge pages of the host, so it runs only where it is asked for, and puts everything back.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use pagelab_analysis::rules::{Remedy, thp_remedies};

const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
const OWN: &str = "hugepages-2048kB/enabled";

/// A switch of the kernel, put back when it goes out of scope.
struct Switch(String, String);

impl Switch {
    fn set(file: &str, value: &str) -> Self {
        let path = format!("{FOLDER}/{file}");
        let text = std::fs::read_to_string(&path).unwrap();
        let chosen = text.split(['[', ']']).nth(1).unwrap().to_owned();
        std::fs::write(&path, value).unwrap();
        Self(path, chosen)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        std::fs::write(&self.0, &self.1).unwrap();
    }
}

/// KiB of huge pages that a program has after filling 16 MiB, given its own requests and the prohibitions.
fn huge_kib(program: &Path, how: &str, forbidden: &str, tunable: bool) -> Option<u64> {
    let mut command = Command::new(program);
    command.args([how, forbidden]);
    if tunable {
        command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
    }
    let output = command.output().unwrap();
    // Status 2: the kernel does not know this prohibition.
    if output.status.code() == Some(2) {
        return None;
    }
    Some(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap())
}

/// Carries a remedy out and counts.
fn works(remedy: Remedy, program: &Path, forbidden: &str) -> Option<bool> {
    let run = |how, tunable| huge_kib(program, how, forbidden, tunable).map(|kib| kib > 8 << 10);
    match remedy {
        Remedy::Advise => run("advise", false),
        Remedy::Collapse => run("collapse", false),
        Remedy::TakeBack => run("lift", false),
        Remedy::TakeBackAndAdvise => run("lift_advise", false),
        Remedy::TakeBackAndCollapse => run("lift_collapse", false),
        Remedy::MallocTunable => run("malloc", true),
        Remedy::AllowAdvised => {
            let _enabled = Switch::set("enabled", "madvise");
            run("advise", false)
        }
        Remedy::InheritSize => {
            let _own = Switch::set(OWN, "inherit");
            run("fill", false)
        }
        Remedy::AllowAll => {
            let _enabled = Switch::set("enabled", "always");
            run("fill", false)
        }
    }
}

/// Remedies that do less than another one that is listed in their place, or change what is right already.
fn stands_for_itself(remedy: Remedy, listed: &[Remedy], enabled: &str, own: &str, forbidden: &str) -> bool {
    match remedy {
        Remedy::TakeBack => forbidden != "none",
        Remedy::TakeBackAndAdvise | Remedy::TakeBackAndCollapse => {
            forbidden == "all" && !listed.iter().any(|one| *one < remedy && one.takes_back())
        }
        Remedy::AllowAdvised => !listed.contains(&Remedy::Advise),
        Remedy::InheritSize => own != "inherit",
        Remedy::AllowAll => enabled != "always",
        Remedy::Advise | Remedy::Collapse | Remedy::MallocTunable => true,
    }
}

#[test]
#[ignore = "changes the transparent huge pages of the host"]
fn host_each_remedy_under_each_setting() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("touch");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/remedies/touch.c");
    assert!(Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(source).status().unwrap().success());
    let mut wrong = Vec::new();
    let mut tried = 0;
    for own in ["inherit", "never", "madvise"] {
        for enabled in ["always", "madvise", "never"] {
            for (forbidden, value) in [("none", "0"), ("all", "1"), ("except", "except-advised")] {
                let _own = Switch::set(OWN, own);
                let _enabled = Switch::set("enabled", enabled);
                let Some(kib) = huge_kib(&program, "fill", forbidden, false) else { continue };
                if kib > 0 {
                    continue;
                }
                let settings: BTreeMap<String, String> =
                    [("thp.enabled", enabled), ("thp.2M.enabled", own), ("mm.thp_disable", value)]
                        .map(|(key, value)| (key.to_owned(), value.to_owned()))
                        .into();
                let listed = thp_remedies(&settings, 2 << 20).unwrap();
                for remedy in Remedy::ALL {
                    let measured = works(remedy, &program, forbidden).unwrap();
                    let expected = listed.contains(&remedy);
                    tried += 1;
                    let wanted = measured && stands_for_itself(remedy, &listed, enabled, own, forbidden);
                    if expected != wanted {
                        wrong.push(format!(
                            "thp.enabled={enabled} thp.2M.enabled={own} thp_disable={value}: {remedy:?} works: {measured}, listed: {expected}"
                        ));
                    }
                }
            }
        }
    }
    println!("{tried} remedies under settings without huge pages tried");
    assert!(tried > 100 && wrong.is_empty(), "{wrong:#?}");
}
