//! The exit status says whose fault a failure is: 2 for wrong input, 3 for a limitation of the host.

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
