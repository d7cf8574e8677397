//! Commands that pagelab gives itself.

use std::ffi::OsString;
use std::process::ExitCode;

/// The load process (`pagelab_load::worker`).
#[derive(Debug, clap::Args)]
pub struct LoadArgs {
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

/// The guard's helper (`pagelab_host::guard`).
#[derive(Debug, clap::Args)]
pub struct GuardArgs {
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

/// Runs a workload that comes on standard input.
pub fn load(args: &LoadArgs) -> ExitCode {
    pagelab_load::worker::main(args.words.iter().cloned())
}

/// Undoes changes when the pagelab that made them dies.
pub fn guard(args: &GuardArgs) -> ExitCode {
    ExitCode::from(u8::try_from(pagelab_host::guard::helper_main(&args.words)).unwrap_or(1))
}
