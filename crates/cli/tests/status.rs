//! Whose fault a failure is decides the exit status: 2 for what was typed, 3 for what the host cannot do.

use crate::common;

use common::{pagelab, run, scratch, stderr};

#[test]
fn an_output_below_a_file_is_a_wrong_input() {
    let tmp = scratch();
    let file = tmp.path().join("file");
    std::fs::write(&file, "text").expect("a file");
    for below in ["rec", "deep/rec"] {
        let mut command = pagelab();
        command.args(["run", "-o"]).arg(file.join(below)).args(["--name=x", "--rw=read", "--size=1M"]);
        let said = stderr(&run(command.current_dir(tmp.path()), 2));
        assert!(said.contains("file") && said.contains("a directory is needed"), "{said}");
    }
}
