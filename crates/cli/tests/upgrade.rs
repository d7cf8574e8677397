//! The binary may be replaced while an experiment runs: a package upgrade, or `cargo build` in another window.

use crate::common;

use std::fs;
use std::process::Command;

use common::{copy_binary, is_root, run, scratch};

#[test]
fn an_experiment_outlives_its_own_binary() {
    if !is_root() {
        return;
    }
    let dir = scratch();
    let own = dir.path().join("pagelab-up");
    copy_binary(&own);
    fs::write(dir.path().join("j.fio"), "[j]\nioengine=psync\nfilename=data\nrw=read\nbs=4k\nsize=64k\n")
        .expect("scratch");
    // Each preparation puts another program in its place, as an upgrade does: written next to it, then renamed.
    let upgrade = format!("cp /bin/false {0}.new && mv {0}.new {0}", own.display());
    let plan = format!(
        "title = \"upgrade\"\nruns = 2\nobserve = \"settings\"\njob = \"j.fio\"\nprepare = {upgrade:?}\n\
         [variant.a]\nsettings = {{\"env.A\" = \"1\"}}\n[variant.b]\nsettings = {{\"env.A\" = \"2\"}}\n"
    );
    let file = dir.path().join("upgrade.toml");
    fs::write(&file, plan).expect("scratch");
    let set = dir.path().join("set");
    run(Command::new(&own).arg("experiment").arg(&file).arg("-o").arg(&set), 0);
    assert_eq!(fs::read(&own).expect("there"), fs::read("/bin/false").expect("there"), "it was replaced");
    let text = fs::read_to_string(set.join("set.json")).expect("a set");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let order = json["order"].as_array().expect("runs");
    assert_eq!(order.len(), 4);
    assert!(order.iter().all(|run| run["state"] == "done"), "{text}");
}
