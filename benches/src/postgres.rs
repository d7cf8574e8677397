//! A cluster of PostgreSQL of one's own, and pgbench on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

const AS_POSTGRES: [&str; 4] = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"];
/// `$1` the server's programs, `$2` the directory, `$3` seconds.
const RUN: &str = r#"
"$1/postgres" -D "$2/cluster" -k "$2" -c listen_addresses= >"$2/server.log" 2>&1 &
server=$!
until "$1/pg_isready" -q -h "$2"; do sleep 0.05; done
"$1/pgbench" -h "$2" PGBENCH_OPTIONS postgres
status=$?
kill -INT $server
wait $server
exit $status
"#;

/// A cluster of scale 10 with the server's own settings; removed when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    programs: PathBuf,
    dir: PathBuf,
}

fn checked(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output)
}

/// A command to be run as a user who may run a server.
fn as_postgres(before: &[&str]) -> Command {
    let words: Vec<&str> = before.iter().chain(&AS_POSTGRES).copied().collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

impl Cluster {
    /// Makes it in a directory of its own in `place`, which the user postgres must be able to reach.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or does not run there.
    pub fn new(place: &Path) -> Result<Self> {
        let versions =
            fs::read_dir("/usr/lib/postgresql").context("PostgreSQL is not installed; try: make setup-test")?;
        let programs =
            versions.flatten().map(|version| version.path().join("bin")).find(|bin| bin.join("initdb").is_file());
        let programs = programs.context("no /usr/lib/postgresql/*/bin/initdb; try: make setup-test")?;
        let dir = place.join(format!("pagelab-pgbench-{}", std::process::id()));
        fs::create_dir_all(dir.join("cluster"))?;
        let cluster = Self { programs, dir };
        checked(Command::new("chown").arg("-R").arg("postgres:").arg(&cluster.dir))?;
        let make = cluster.programs.join("initdb");
        checked(as_postgres(&[]).arg(make).arg("--no-sync").arg("-D").arg(cluster.dir.join("cluster")))?;
        checked(&mut cluster.command("-i -s 10 -q", 0, &[]))?;
        Ok(cluster)
    }

    /// Where it is; the user postgres can write there.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A command that starts the server, runs pgbench with these options and stops the server. `-T "$3"` among the options is
    /// for so many seconds, `"$2"` is [`Cluster::dir`]. `before` are words to be put before it.
    pub fn command(&self, options: &str, seconds: u64, before: &[&str]) -> Command {
        let mut command = as_postgres(before);
        command.args(["sh", "-c", &RUN.replace("PGBENCH_OPTIONS", options), "sh"]);
        command.arg(&self.programs).arg(&self.dir).arg(seconds.to_string()).current_dir("/");
        command
    }

    /// Runs pgbench with two clients for some seconds and returns the transactions per second.
    ///
    /// # Errors
    /// It fails, or prints no figure.
    pub fn tps(&self, seconds: u64, before: &[&str]) -> Result<f64> {
        let output = checked(&mut self.command("-c 2 -j 2 -T \"$3\"", seconds, before))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let line = printed.lines().find_map(|line| line.strip_prefix("tps = ")).context("pgbench prints its tps")?;
        Ok(line.split_whitespace().next().context("a number")?.parse()?)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}
