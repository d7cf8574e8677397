//! Commands that pagelab gives itself.

use std::ffi::OsString;
use std::process::ExitCode;

/// Whatever follows the command: for the crate that it belongs to.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

/// Runs a workload that comes on standard input.
pub(crate) fn load(args: &Words) -> ExitCode {
    pagelab_load::process::main(args.words.iter().cloned())
}

/// Undoes changes when the pagelab that made them dies.
pub(crate) fn guard(args: &Words) -> ExitCode {
    ExitCode::from(u8::try_from(pagelab_host::guard::helper_main(&args.words)).unwrap_or(1))
}

/// Does in a lab's guest what its host asks for.
pub(crate) fn guest(args: &Words) -> ExitCode {
    ExitCode::from(u8::try_from(pagelab_experiment::guest_main(&args.words)).unwrap_or(1))
}

/// Runs one case and says how it came out.
pub(crate) fn case(args: &Words) -> ExitCode {
    ExitCode::from(u8::try_from(pagelab_conformance::child_main(&args.words)).unwrap_or(1))
}

/// Starts a lab's QEMU and looks after it.
pub(crate) fn lab(args: &Words) -> ExitCode {
    ExitCode::from(u8::try_from(pagelab_lab::supervisor_main(&args.words)).unwrap_or(1))
}

/// Runs the query that comes on standard input.
pub(crate) fn query() -> ExitCode {
    pagelab_sql::process::process_main()
}
