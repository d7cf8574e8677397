//! `pagelab help-files`: what shells and `man` read, made from the options themselves.

use std::path::PathBuf;

use clap_complete::Shell;
use pagelab_output::OutputFile;

use crate::failure::Failure;
use crate::print;

/// Write shell completions or manual pages.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  pagelab help-files --shell bash > /etc/bash_completion.d/pagelab\n  \
                        pagelab help-files --man /usr/local/share/man/man1")]
#[group(required = true, multiple = false)]
pub(crate) struct Args {
    /// Print the completions for a shell.
    #[arg(long, value_enum)]
    shell: Option<Shell>,
    /// Write a manual page for pagelab and one for each of its commands into DIR, which is there.
    #[arg(long, value_name = "DIR")]
    man: Option<PathBuf>,
}

/// Writes them for `command`, which is pagelab with all of its commands.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> Result<u8, Failure> {
    if let Some(shell) = args.shell {
        let mut bytes = Vec::new();
        clap_complete::generate(shell, &mut command, "pagelab", &mut bytes);
        print::text(&String::from_utf8_lossy(&bytes))?;
    }
    if let Some(dir) = &args.man {
        command.build();
        write_pages(&command, "pagelab", dir)?;
    }
    Ok(0)
}

fn write_pages(command: &clap::Command, name: &str, dir: &std::path::Path) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    clap_mangen::Man::new(command.clone()).title(name).render(&mut bytes).map_err(Failure::input)?;
    OutputFile::write(&dir.join(format!("{name}.1")), &bytes)?;
    for one in command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help") {
        write_pages(one, &format!("{name}-{}", one.get_name()), dir)?;
    }
    Ok(())
}
