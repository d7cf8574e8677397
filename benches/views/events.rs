//! The cost of views without rollups: each made from 10 million events, compared with SQL for the same figures in
//! DuckDB on the same Parquet files.
//!
//! `cargo bench -p pagelab-views --no-default-features --bench events -- [EVENTS] [ROUNDS] [VIEW]`, with DuckDB from
//! `tools/install-venv dataframes`. The SQL asks for what the view's tables show and for nothing else; where the view takes
//! percentiles from a histogram, DuckDB may estimate them, too. The recording is closed: faults have their mappings. Both
//! have the files in the page cache, and DuckDB has two threads; they take turns, first one and then the other. Figures that
//! both have must be equal. Times are medians of all rounds; the ratio is the median of the rounds' ratios.

mod shared;

use std::path::Path;
use std::time::Instant;

use pagelab_recording::Recording;
use pagelab_views::selection::Selection;
use pagelab_views::view;
use shared::duckdb::DuckDb;
use shared::recordings::{Push, VIEWS, new_writer};
use shared::{Beside, median};

const THREADS: usize = 2;

/// Queries of which the first gives the figures that [`figures`] gives, too.
fn queries(view: &str) -> &'static [&'static str] {
    match view {
        "faults" => &[
            // The head.
            "SELECT count(*), sum((error_code & 2)::BIGINT // 2), sum((error_code & 1)::BIGINT) FROM faults",
            "SELECT task_id, count(*) FROM faults GROUP BY task_id",
            "SELECT m.mapping_id, f.ip, count(*) AS n FROM faults f LEFT JOIN mappings m ON f.ip BETWEEN m.ret AND m.ret + m.len GROUP BY ALL ORDER BY n DESC LIMIT 20",
            // Order of touches, and slots.
            "WITH f AS (SELECT mapping_id, addr >> 12 AS page, (addr >> 12)::BIGINT - lag(addr >> 12) OVER (PARTITION BY mapping_id ORDER BY ts)::BIGINT AS step FROM faults) \
             SELECT mapping_id, count(*), count(*) FILTER (step BETWEEN 1 AND 16), count(*) FILTER (step BETWEEN -16 AND -1), count(DISTINCT page >> 9) FROM f GROUP BY mapping_id",
        ],
        "syscalls" => &[
            "SELECT count(*), sum((ret BETWEEN -4095 AND -1)::BIGINT), sum(dur) FROM syscalls",
            "SELECT name, count(*), sum((ret BETWEEN -4095 AND -1)::BIGINT), sum(dur), avg(dur), approx_quantile(dur, 0.5), approx_quantile(dur, 0.99), max(dur), sum(cpu_ns) FROM syscalls GROUP BY name",
        ],
        _ => &[
            "SELECT count(*), sum(weight)::BIGINT, count(*) FILTER (ustack_end = 'entry') FROM samples",
            "SELECT cpu, count(*), sum(weight) FROM samples GROUP BY cpu",
            "SELECT t.comm, count(*), sum(weight) FROM samples s JOIN tasks t USING (task_id) GROUP BY t.comm",
            // Functions by themselves and with their callees.
            "WITH g AS (SELECT kstack_id, ustack_id, count(*) AS n, sum(weight) AS w FROM samples GROUP BY ALL), \
             s AS (SELECT n, w, list_concat(coalesce(k.frame_ids, []), coalesce(u.frame_ids, [])) AS frames FROM g \
             LEFT JOIN stacks k ON k.stack_id = g.kstack_id LEFT JOIN stacks u ON u.stack_id = g.ustack_id), \
             own AS (SELECT frames[1] AS frame_id, sum(n) AS own_n, sum(w) AS own_w FROM s GROUP BY ALL), \
             total AS (SELECT frame_id, sum(n) AS all_n, sum(w) AS all_w FROM (SELECT unnest(list_distinct(frames)) AS frame_id, n, w FROM s) GROUP BY frame_id) \
             SELECT symbol, module, own_n, own_w, all_n, all_w FROM total LEFT JOIN own USING (frame_id) LEFT JOIN frames USING (frame_id) ORDER BY own_w DESC",
        ],
    }
}

/// Figures of the view's head that SQL gives without doubt.
fn figures(recording: &Recording, name: &str) -> [u64; 3] {
    let selection = Selection::default();
    match name {
        "faults" => {
            let view = view::faults::collect(recording, &selection).expect("a view").data;
            [view.faults, view.write.unwrap_or(0), view.protection.unwrap_or(0)]
        }
        "syscalls" => {
            let view = view::syscalls::collect(recording, &selection).expect("a view").data;
            [view.calls, view.errors, view.total_ns]
        }
        _ => {
            let view = view::profile::collect(recording, &selection).expect("a view").data;
            [view.samples, view.weight, view.quality.ustacks_to_entry]
        }
    }
}

fn measure(name: &str, events: u64, rounds: usize, push: Push, duckdb: &mut DuckDb) {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let dir = tmp.path().join("recording");
    let mut writer = new_writer(&dir);
    push(&mut writer, events);
    writer.close(|_| ()).expect("close");
    let mut beside = Beside::default();
    let mut each = vec![Vec::new(); queries(name).len()];
    for round in 0..=rounds {
        let mut rival = || {
            let answers = queries(name).iter().map(|sql| duckdb.query(&with_files(sql, &dir)));
            answers.collect::<Vec<(f64, String)>>()
        };
        let first = (round % 2 == 0).then(&mut rival);
        let start = Instant::now();
        let figures = figures(&Recording::open(&dir).expect("a recording"), name);
        let seconds = start.elapsed().as_secs_f64();
        let answers = first.unwrap_or_else(rival);
        assert_eq!(answers[0].1, format!("1 {}", figures.iter().sum::<u64>()), "{name}: {figures:?}");
        // The first round fills the caches.
        if round > 0 {
            beside.add(seconds, answers.iter().map(|(seconds, _)| seconds).sum());
            answers.iter().zip(&mut each).for_each(|((seconds, _), all)| all.push(*seconds * 1e3));
        }
    }
    println!("{}", beside.line(name));
    let each = each.into_iter().map(|all| format!("{:.0}", median(all)));
    println!("{:34} queries of DuckDB, ms: {}", "", each.collect::<Vec<_>>().join(", "));
}

/// The query, with the files of the tables in place of their names.
fn with_files(sql: &str, dir: &Path) -> String {
    let mut sql = sql.to_owned();
    for table in ["faults", "syscalls", "samples", "tasks", "mappings", "stacks", "frames"] {
        let files = format!("read_parquet('{}/{table}/*.parquet')", dir.display());
        sql = sql.replace(&format!("FROM {table}"), &format!("FROM {files}"));
        sql = sql.replace(&format!("JOIN {table}"), &format!("JOIN {files}"));
    }
    sql
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let events = words.first().and_then(|word| word.parse().ok()).unwrap_or(10_000_000);
    let rounds = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(7);
    let only = words.get(2).map(String::as_str);
    let mut duckdb = DuckDb::start(THREADS);
    for (name, push) in VIEWS {
        if only.is_none_or(|only| only == name) {
            measure(name, events, rounds, push, &mut duckdb);
        }
    }
}
