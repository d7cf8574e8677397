//! `pagelab agent` runs as root and for long: what somebody else could have written, could reach or already uses is refused before
//! anything is recorded.

use crate::common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use common::{binary, is_root, scratch, stderr};

const NOBODY: u32 = 65534;

/// What the agent says; it must end at once, with a status that is not 0. One that is not refused would go on for ever.
#[track_caller]
fn refused(words: &[&str], config: Option<&Path>) -> String {
    let mut command = Command::new("timeout");
    command.arg("30").arg(binary()).arg("agent").args(words).env("LC_ALL", "C");
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    let output = command.output().expect("timeout (coreutils)");
    let said = stderr(&output);
    assert!(matches!(output.status.code(), Some(2 | 3)), "{words:?}: {:?}: {said}", output.status);
    said
}

/// The file has commands run as root: whoever can write it is root.
#[test]
fn a_configuration_that_others_can_write_is_refused() {
    let dir = scratch();
    let path = dir.path().join("agent.toml");
    // A key that there is none of: a file that is read at all is refused for that.
    fs::write(&path, "evry = 60\n").expect("scratch");
    let said_at = |mode: u32| {
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("ours");
        refused(&[], Some(&path))
    };
    for mode in [0o600, 0o640, 0o644, 0o755] {
        let said = said_at(mode);
        assert!(said.contains("evry") && !said.contains("chmod"), "{mode:o}: {said}");
    }
    for mode in [0o620, 0o602, 0o664, 0o646, 0o775, 0o757] {
        let said = said_at(mode);
        assert!(said.contains(&format!("mode {mode:04o}")) && said.contains("chmod go-w"), "{mode:o}: {said}");
        assert!(!said.contains("evry"), "{mode:o}: it was read: {said}");
    }
    if is_root() {
        said_at(0o644);
        chown(&path, Some(NOBODY), None).expect("root");
        let said = refused(&[], Some(&path));
        assert!(said.contains(&format!("belongs to user {NOBODY}")) && !said.contains("evry"), "{said}");
    }
}

#[test]
fn addresses_that_other_machines_reach_are_refused() {
    let dir = scratch();
    let out = dir.path().join("agent");
    let out = out.to_str().expect("plain");
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9464", "128.0.0.1:0", "[::ffff:10.0.0.1]:0"] {
        let said = refused(&["-o", out, "--listen", listen], None);
        assert!(said.contains("other machines can reach") && said.contains("listen-to-others"), "{listen}: {said}");
    }
    assert!(!Path::new(out).exists(), "nothing was begun");
}

#[test]
fn folders_of_others_are_refused() {
    if !is_root() {
        return pagelab_testing::skipped("needs root, as the agent does");
    }
    let dir = scratch();
    let out = dir.path().join("agent");
    fs::create_dir(&out).expect("scratch");
    let refused = || refused(&["-o", out.to_str().expect("plain"), "--listen", "none"], None);
    for mode in [0o775, 0o757, 0o777] {
        fs::set_permissions(&out, Permissions::from_mode(mode)).expect("ours");
        let said = refused();
        assert!(said.contains(&format!("mode {mode:04o}")) && said.contains("chmod go-w"), "{mode:o}: {said}");
    }
    fs::set_permissions(&out, Permissions::from_mode(0o755)).expect("ours");
    chown(&out, Some(NOBODY), None).expect("root");
    let said = refused();
    assert!(said.contains(&format!("belongs to user {NOBODY}")), "{said}");
    assert_eq!(fs::read_dir(&out).expect("ours").count(), 0, "nothing was begun");
}
