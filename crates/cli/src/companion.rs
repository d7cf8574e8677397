//! `pagelab-fleet`, the program that speaks to object stores and clusters: its dependencies would double this one.

use std::path::PathBuf;
use std::process::Command;

use anyhow::anyhow;

use crate::failure::Failure;

/// Its name.
pub(crate) const FLEET: &str = "pagelab-fleet";

/// The program, beside this one or where programs are looked for.
pub(crate) fn program() -> PathBuf {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(FLEET)));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(FLEET))
}

/// The program, to be given its words.
pub(crate) fn fleet() -> Command {
    Command::new(program())
}

/// Why a place in a store cannot be spoken to.
pub(crate) fn cannot_start(url: &str, error: &std::io::Error) -> Failure {
    Failure::host(anyhow!(
        "{url}: cannot start {FLEET}, which speaks to object stores: {error}; needed: {FLEET} beside pagelab or in PATH; type: make pagelab-fleet"
    ))
}
