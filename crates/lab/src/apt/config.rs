//! apt with a configuration of the lab's own.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use pagelab_output::Lock;

use super::sources;
use crate::Event;
use crate::error::{LabError, Result, need_space};
use crate::folders::{lock_file, make_open, write_whole};
use crate::tool;

/// Lists that are older are read anew.
const FRESH: Duration = Duration::from_hours(7 * 24);
/// Bytes of disk that the package lists need, old and new together.
const LISTS_BYTES: u64 = 150 << 20;
/// Settings of the host that say how to reach the network; its hooks and its own sources are left out.
const NETWORK: [&str; 8] = [
    "Acquire::http",
    "Acquire::https",
    "Acquire::ftp",
    "Acquire::socks",
    "Acquire::Retries",
    "Acquire::ForceIPv",
    "Acquire::Check-Valid-Until",
    "Acquire::Check-Date",
];

/// apt in the lab's cache. Only one process at a time works there.
pub(crate) struct Apt {
    folder: PathBuf,
    /// Holds the lock.
    _lock: Lock,
}

impl Apt {
    /// Writes the configuration, and reads the lists if there are none, they are old, or `refresh` says so.
    pub(crate) fn open(cache: &Path, refresh: bool, say: &mut dyn FnMut(Event)) -> Result<Self> {
        make_open(cache)?;
        let file = || lock_file(&cache.join("lock"));
        let lock = if let Ok(lock) = Lock::try_take(file()?) {
            lock
        } else {
            say(Event::WaitingForCache);
            Lock::take(file()?).map_err(LabError::io(cache))?
        };
        let apt = Apt { folder: cache.to_owned(), _lock: lock };
        for folder in ["apt/lists/partial", "apt/archives/partial", "apt/empty", "packages", "unpacked"] {
            // Not with `make_open`: apt gives its partial folders to its own user.
            let folder = apt.folder.join(folder);
            fs::DirBuilder::new().recursive(true).mode(0o755).create(&folder).map_err(LabError::io(&folder))?;
        }
        // What an earlier one that was killed left behind.
        let _ = fs::remove_dir_all(apt.temporary());
        let sources_file = apt.folder.join("apt/lab.sources");
        let wanted = sources::derive(Path::new("/"))?;
        let same = fs::read_to_string(&sources_file).is_ok_and(|found| found == wanted);
        write_whole(&sources_file, wanted.as_bytes())?;
        write_whole(&apt.folder.join("apt/status"), b"")?;
        let network = tool::output("apt", Command::new("apt-config").arg("dump"))?;
        write_whole(&apt.config(), config(&apt.folder, &String::from_utf8_lossy(&network)).as_bytes())?;
        let marker = apt.folder.join("apt/read");
        let read = fs::metadata(&marker).and_then(|found| found.modified()).ok();
        let fresh = read.is_some_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age < FRESH));
        if refresh || !same || !fresh {
            apt.update(read.is_some() && same && !refresh, say)?;
            write_whole(&marker, b"")?;
        }
        Ok(apt)
    }

    /// Reads the lists. If old ones are there, a mirror out of reach is said and they are used.
    fn update(&self, old_will_do: bool, say: &mut dyn FnMut(Event)) -> Result<()> {
        need_space(&self.folder, LISTS_BYTES)?;
        say(Event::ReadingLists);
        match self.run("apt-get", &["update", "-q", "--error-on=any"]) {
            Err(error @ LabError::PackageManager { .. }) if old_will_do => {
                say(Event::OldLists { why: error.to_string() });
                Ok(())
            }
            done => done.map(drop),
        }
    }

    /// Runs a program of apt's with the lab's configuration.
    pub(super) fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        self.run_in(&self.folder, program, arguments)
    }

    pub(super) fn run_in(&self, folder: &Path, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder).env("APT_CONFIG", self.config());
        let output = tool::output("apt", &mut command)?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    fn config(&self) -> PathBuf {
        self.folder.join("apt/apt.conf")
    }

    /// Below this is what is not whole yet.
    pub(super) fn temporary(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// Packages as they came.
    pub(super) fn packages(&self) -> PathBuf {
        self.folder.join("packages")
    }

    /// Packages unpacked.
    pub(super) fn unpacked(&self) -> PathBuf {
        self.folder.join("unpacked")
    }
}

/// The text of apt.conf: everything of the host's that could bring in its sources, pins or hooks is replaced.
fn config(cache: &Path, host: &str) -> String {
    let apt = cache.join("apt");
    let at = |name: &str| apt.join(name).display().to_string();
    let mut text = String::new();
    for (key, value) in [
        ("Dir::Etc::main", at("none")),
        ("Dir::Etc::parts", at("empty")),
        ("Dir::Etc::sourcelist", at("lab.sources")),
        ("Dir::Etc::sourceparts", at("empty")),
        ("Dir::Etc::preferences", at("none")),
        ("Dir::Etc::preferencesparts", at("empty")),
        ("Dir::State", apt.display().to_string()),
        ("Dir::State::lists", at("lists")),
        ("Dir::State::status", at("status")),
        ("Dir::Cache", apt.display().to_string()),
        ("APT::Architecture", "amd64".to_owned()),
        ("APT::Architectures", "amd64".to_owned()),
        ("APT::Get::AllowUnauthenticated", "false".to_owned()),
        ("APT::Install-Recommends", "false".to_owned()),
        ("Acquire::AllowInsecureRepositories", "false".to_owned()),
        ("Acquire::AllowWeakRepositories", "false".to_owned()),
        ("Acquire::Languages", "none".to_owned()),
    ] {
        let _ = writeln!(text, "{key} \"{value}\";");
    }
    for line in host.lines().filter(|line| NETWORK.iter().any(|key| line.starts_with(key))) {
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_gives_its_network_and_nothing_else() {
        let host = "Dir::Etc::sourcelist \"sources.list\";\nAPT::Update::Post-Invoke:: \"rm -rf x\";\n\
             Acquire::http::Proxy \"http://proxy.example:3128\";\nAcquire::AllowInsecureRepositories \"1\";\n";
        let text = config(Path::new("/cache"), host);
        assert!(text.contains("Acquire::http::Proxy \"http://proxy.example:3128\";"), "{text}");
        assert!(text.contains("Dir::Etc::sourcelist \"/cache/apt/lab.sources\";"), "{text}");
        assert!(!text.contains("Post-Invoke") && !text.contains("\"1\""), "{text}");
    }
}
