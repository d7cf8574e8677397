//! Reads every setting of this host and of this process, and says how many there are and how long it took:
//! `cargo run -p pagelab-host --example settings_snapshot [-- PREFIX]` lists those whose key starts with PREFIX.

use std::path::Path;
use std::time::Instant;

use pagelab_host::settings::snapshot;

fn main() {
    let mut times = Vec::new();
    let mut rows = Vec::new();
    for _ in 0..9 {
        let start = Instant::now();
        rows = snapshot(Path::new("/"), Some(std::process::id()));
        times.push(start.elapsed());
    }
    times.sort_unstable();
    if let Some(prefix) = std::env::args().nth(1) {
        for row in rows.iter().filter(|row| row.key.starts_with(&prefix)) {
            let value = row.value.as_deref().map_or_else(
                || format!("(none: {})", row.reason.as_deref().unwrap_or_default()),
                |value| value.replace('\n', " | "),
            );
            println!("{} = {value}  [{}]", row.key, row.source);
        }
    }
    let unread = rows.iter().filter(|row| row.value.is_none()).count();
    println!(
        "{} settings, {unread} of them without a value; fastest {:.1?}, median {:.1?}, slowest {:.1?} of {}",
        rows.len(),
        times.first().copied().unwrap_or_default(),
        times.get(times.len() / 2).copied().unwrap_or_default(),
        times.last().copied().unwrap_or_default(),
        times.len(),
    );
}
