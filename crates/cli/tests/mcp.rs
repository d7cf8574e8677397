//! `pagelab mcp` as a client of the protocol finds it: every tool on real recordings, with the figures of the commands; what it must
//! not do (write, read elsewhere, end because of a question); and how it ends.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{json, pagelab, run, scratch, stderr};
use pagelab_views::view::VIEWS;
use rmcp::model::{CallToolRequest, CallToolRequestParams, CallToolResponse, Tool};
use rmcp::service::{PeerRequestOptions, RequestHandle, RunningService};
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::unix::pipe;

const TOOLS: [&str; 7] = ["compare", "doctor", "explain", "query", "recordings", "show", "tables"];

/// Most bytes of an answer.
const LIMIT: usize = 100_000;

/// A client of a server that it has started.
struct Client {
    runtime: tokio::runtime::Runtime,
    service: RunningService<RoleClient, ()>,
    server: Child,
}

impl Client {
    #[track_caller]
    fn of(dirs: &[&Path]) -> Self {
        let mut command = pagelab();
        command.arg("mcp").args(dirs);
        Self::started(command)
    }

    /// A client of a server whose queries have a limit, and `temporary` for their files.
    #[track_caller]
    fn with_limit(dir: &Path, seconds: &str, temporary: &Path) -> Self {
        let mut command = pagelab();
        command.arg("mcp").arg(dir).args(["--query-timeout", seconds]);
        command.env("TMPDIR", temporary).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
        Self::started(command)
    }

    #[track_caller]
    fn started(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().expect("the program starts");
        let (input, output) = (server.stdin.take().expect("a pipe"), server.stdout.take().expect("a pipe"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let service = runtime.block_on(async {
            let reader = pipe::Receiver::from_owned_fd(output.into()).expect("a pipe");
            let writer = pipe::Sender::from_owned_fd(input.into()).expect("a pipe");
            ().serve((reader, writer)).await.expect("a server of the protocol")
        });
        Self { runtime, service, server }
    }

    fn tools(&self) -> Vec<Tool> {
        self.runtime.block_on(self.service.list_all_tools()).expect("a list")
    }

    /// The text of an answer, or of an error.
    fn text(&self, tool: &str, arguments: &Value) -> Result<String, String> {
        let arguments = arguments.as_object().expect("arguments are an object").clone();
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let result = self.runtime.block_on(self.service.call_tool(request)).map_err(|error| error.to_string())?;
        let CallToolResponse::Complete(result) = CallToolResponse::from(result) else { panic!("an answer, at once") };
        let content = result.content.first().and_then(|content| content.as_text()).expect("text").text.clone();
        if result.is_error == Some(true) { Err(content) } else { Ok(content) }
    }

    /// The document of an answer.
    #[track_caller]
    fn ask(&self, tool: &str, arguments: &Value) -> Value {
        let text = self.text(tool, arguments).unwrap_or_else(|error| panic!("{tool} {arguments}: {error}"));
        assert!(text.len() <= LIMIT, "{tool} {arguments}: {} bytes", text.len());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{tool} {arguments}: {error}: {text}"))
    }

    /// What is said to a question that has no answer.
    #[track_caller]
    fn refused(&self, tool: &str, arguments: &Value) -> String {
        let answer = self.text(tool, arguments);
        answer.expect_err(&format!("{tool} {arguments}"))
    }

    /// Closes the server's input. Its status, and how long it took to end.
    fn close(self) -> (Option<i32>, Duration) {
        let Self { runtime, service, mut server } = self;
        let begun = Instant::now();
        runtime.block_on(service.cancel()).expect("the client ends");
        (server.wait().expect("ours").code(), begun.elapsed())
    }
}

/// A recording and a set of two variants with two runs each.
fn recorded() -> (TempDir, PathBuf, PathBuf) {
    let tmp = scratch();
    let (rec, set) = (tmp.path().join("one.rec"), tmp.path().join("set"));
    let work = "head -c 3000000 /dev/zero > /dev/null; ls / > /dev/null";
    let mut record = pagelab();
    record.args(["record", "--observe", "default,syscalls", "-o"]).arg(&rec).args(["--", "sh", "-c", work]);
    run(&mut record, 0);
    let mut compare = pagelab();
    compare.args(["compare", "-n", "2", "-o"]).arg(&set).args(["--", "head -c 9000000 /dev/zero > /dev/null", work]);
    run(&mut compare, 0);
    (tmp, rec, set)
}

/// Every file and folder below, with what changes when it is written.
fn state(dir: &Path) -> BTreeMap<PathBuf, (u64, u64, i64, i64)> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("ours").flatten() {
            let meta = entry.path().symlink_metadata().expect("it is there");
            found.insert(entry.path(), (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()));
            if meta.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn every_tool_answers_as_its_command_does_and_writes_nothing() {
    let (tmp, rec, set) = recorded();
    let before = state(tmp.path());
    let client = Client::of(&[&rec, &set]);
    let tools = client.tools();
    assert_eq!(tools.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>(), TOOLS);

    let listed = client.ask("recordings", &json!({}));
    assert_eq!((&listed["recordings_total"], &listed["unreadable"]), (&5.into(), &json!([])), "{listed:#}");
    let rows = listed["recordings"].as_array().expect("a list");
    let one = rows.iter().find(|row| row["path"] == text(&rec)).expect("it is listed");
    assert!(one["command"].as_str().is_some_and(|command| command.starts_with("sh -c ")), "{one:#}");
    assert!(one["complete"] == true && one["duration_s"].as_f64().is_some_and(|s| s > 0.0 && s < 60.0), "{one:#}");

    views_are_those_of_show(&client, &rec);
    let explained = json(&run(pagelab().arg("explain").arg(&rec).arg("--json"), 0));
    assert_eq!(client.ask("explain", &json!({"recording": text(&rec)})), explained);
    a_set_is_compared(&client, &listed);
    let doctor = pagelab().args(["doctor", "--json"]).output().expect("it runs");
    let (by_command, by_tool) = (json(&doctor), client.ask("doctor", &json!({})));
    let keys = |document: &Value| document.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>());
    assert_eq!((keys(&by_tool), keys(&by_tool["host"])), (keys(&by_command), keys(&by_command["host"])));
    assert_eq!(by_tool["host"]["facts"]["kernel"], by_command["host"]["facts"]["kernel"]);
    sql_has_rows(&client, &rec, &set);

    assert_eq!(client.close().0, Some(0));
    assert_eq!(state(tmp.path()), before, "nothing is written where recordings are");
}

#[track_caller]
fn views_are_those_of_show(client: &Client, rec: &Path) {
    for view in VIEWS {
        let shown = json(&run(pagelab().arg("show").arg(rec).args([view.name, "--json"]), 0));
        let arguments = json!({"recording": text(rec), "view": view.name});
        match client.text("show", &arguments) {
            Ok(answer) => assert_eq!(serde_json::from_str::<Value>(&answer).expect("JSON"), shown, "{}", view.name),
            Err(said) => {
                // It says how long it is, and the way that it names makes it shorter.
                let bytes = shown.to_string().len();
                assert!(bytes > LIMIT && said.contains(&format!("{bytes} bytes")), "{}: {said}", view.name);
                assert!(said.contains("top") && view.takes.contains(&"top"), "{said}");
                let short = json!({"recording": text(rec), "view": view.name, "top": 3});
                assert_eq!(client.ask("show", &short)["view"], view.name);
            }
        }
    }
    let narrow = json!({"recording": text(rec), "view": "metrics", "words": ["vmstat.thp_"], "top": 2, "to_s": 60.0});
    let shown =
        run(pagelab().arg("show").arg(rec).args(["metrics", "vmstat.thp_", "--top", "2", "--to", "60", "--json"]), 0);
    assert_eq!(client.ask("show", &narrow), json(&shown));
    let by_comm = json!({"recording": text(rec), "view": "syscalls", "by": "comm", "name": ["%file"], "sort": "calls"});
    let options = ["syscalls", "--by", "comm", "--name", "%file", "--sort", "calls", "--json"];
    let found = client.ask("show", &by_comm);
    assert_eq!(found, json(&run(pagelab().arg("show").arg(rec).args(options), 0)));
    assert!(found["groups"].as_array().is_some_and(|groups| !groups.is_empty()), "{found:#}");
}

#[track_caller]
fn a_set_is_compared(client: &Client, listed: &Value) {
    let rows = listed["recordings"].as_array().expect("a list");
    let mut variants: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        if let (Some(variant), Some(path)) = (row["variant"].as_str(), row["path"].as_str()) {
            variants.entry(variant).or_default().push(path);
        }
    }
    let sides: Vec<&Vec<&str>> = variants.values().collect();
    let [base, test] = sides.as_slice() else { panic!("two variants: {listed:#}") };
    let found = client.ask("compare", &json!({"base": base, "test": test}));
    let mut command = pagelab();
    command.args(["compare", "--json", "--base"]).args(*base).arg("--test").args(*test);
    let whole = json(&run(&mut command, 0));
    for key in ["primary", "findings", "notes", "unknown", "failures", "alpha"] {
        assert_eq!(found[key], whole[key], "{key}");
    }
    assert_eq!((&found["base"]["n"], &found["primary"]["metric"]), (&2.into(), &"run.elapsed_ns".into()));
    let significant = |row: &&Value| row["significant"] == true;
    let all = whole["metrics"].as_array().expect("a list");
    assert_eq!(found["metrics_total"], all.iter().filter(significant).count());
    assert_eq!(found["metrics_compared"], all.len());
    let named = client.ask("compare", &json!({"base": base, "test": test, "words": ["vmstat.pg"], "top": 3}));
    let rows = named["metrics"].as_array().expect("a list");
    assert!(rows.len() == 3 && rows.iter().all(|row| row["name"].to_string().contains("vmstat.pg")), "{named:#}");
    assert!(named["budget"]["components"].as_array().is_none_or(|rows| rows.len() <= 3), "{named:#}");
}

#[track_caller]
fn sql_has_rows(client: &Client, rec: &Path, set: &Path) {
    let sql = "select variant, run, count(*) as n from faults group by 1, 2 order by 1, 2";
    let found = client.ask("query", &json!({"sql": sql}));
    let by_command = json(&run(pagelab().args(["query", "--json"]).args([rec, set]).arg(sql), 0));
    assert_eq!((&found["rows"], &found["rows_total"], &found["left_out"]), (&by_command, &5.into(), &json!([])));
    let runs = json!({"sql": "select dir from runs", "recordings": [text(rec)]});
    assert_eq!(client.ask("query", &runs)["rows"], json!([{"dir": text(rec)}]));
    let said = client.refused("query", &json!({"sql": "select * from generate_series(1, 20000)"}));
    assert!(
        said.contains("found an answer of 308896 bytes, needed at most 100000") && said.contains("LIMIT"),
        "{said}"
    );
    let said = client.refused("query", &json!({"sql": "select * from generate_series(1, 3000000)"}));
    assert!(said.contains("found an answer of more than "), "{said}");
    let tables = client.ask("tables", &json!({}));
    for table in tables["tables"].as_array().expect("a list") {
        let name = table["table"].as_str().expect("a name");
        // What is told of a table is what SQL takes.
        for column in client.ask("tables", &json!({"name": name}))["columns"].as_array().expect("columns") {
            let column = column["column"].as_str().expect("a name");
            assert!(!column.is_empty(), "{name}");
        }
        client.ask("query", &json!({"sql": format!("select count(*) as n from {name}")}));
    }
}

#[test]
fn wrong_questions_are_refused_with_what_was_found_and_what_is_needed() {
    let tmp = scratch();
    let (rec, beside) = (tmp.path().join("in/one.rec"), tmp.path().join("beside.rec"));
    fs::create_dir(tmp.path().join("in")).expect("ours");
    for out in [&rec, &beside] {
        run(pagelab().args(["record", "-o"]).arg(out).args(["--", "true"]), 0);
    }
    let served = tmp.path().join("in");
    let before = state(tmp.path());
    let client = Client::of(&[&served]);
    let one = text(&rec);
    let dots = format!("{}/in/../beside.rec", tmp.path().display());
    let stolen = tmp.path().join("stolen.csv");
    let copy = format!("COPY (SELECT 1) TO '{}'", stolen.display());
    let questions = [
        ("shell", json!({}), "found no tool \"shell\"; needed one of: compare, doctor"),
        ("show", json!({"recording": one, "view": "fauts"}), "did you mean 'faults'?"),
        ("show", json!({"recording": one}), "missing field `view`"),
        ("show", json!({"recording": one, "view": "faults", "command": "id"}), "unknown field `command`"),
        ("show", json!({"recording": one, "view": "faults", "top": "5"}), "invalid type: string \"5\""),
        ("show", json!({"recording": one, "view": "faults", "top": -1}), "invalid value: integer `-1`"),
        (
            "show",
            json!({"recording": one, "view": "loss", "pid": 1}),
            "view loss does not take pid; it takes: top sort",
        ),
        ("show", json!({"recording": one, "view": "faults", "sort": "x"}), "needed one of: faults per_page"),
        ("show", json!({"recording": one, "view": "faults", "from_s": 2, "to_s": 1}), "from"),
        ("show", json!({"recording": one, "view": "profile", "group": ["x=("]}), "x"),
        ("show", json!({"recording": text(&beside), "view": "faults"}), "(1 are there)"),
        ("show", json!({"recording": dots, "view": "faults"}), "(1 are there)"),
        ("show", json!({"recording": format!("{one}/"), "view": "faults"}), "(1 are there)"),
        ("show", json!({"recording": text(&served), "view": "faults"}), "(1 are there)"),
        ("explain", json!({"recording": "../beside.rec"}), "(1 are there)"),
        ("explain", json!({}), "missing field `recording`"),
        ("compare", json!({"base": [one], "test": [text(&beside)]}), "(1 are there)"),
        ("compare", json!({"base": [one], "test": []}), "test: found no recording"),
        ("compare", json!({"base": one, "test": [one]}), "invalid type"),
        ("compare", json!({"base": [one], "test": [one]}), "both sides"),
        ("compare", json!({"base": [one], "test": [one], "alpha": 1}), "unknown field `alpha`"),
        ("doctor", json!({"pid": 1}), "unknown field `pid`"),
        ("doctor", json!({"path": "/etc/passwd"}), "unknown field `path`"),
        ("recordings", json!({"dir": "/"}), "unknown field `dir`"),
        ("tables", json!({"name": "fault"}), "did you mean 'faults'?"),
        ("query", json!({"sql": "SELEC 1"}), "no SQL"),
        ("query", json!({"sql": "select adr from faults"}), "addr"),
        ("query", json!({"sql": "select 1", "recordings": []}), "found no recording"),
        ("query", json!({"sql": "select 1", "recordings": [text(&beside)]}), "(1 are there)"),
        ("query", json!({"sql": copy}), "may only read"),
        ("query", json!({"sql": "create table t as select 1"}), "may only read"),
        ("query", json!({"sql": "insert into faults select * from faults"}), "may only read"),
        ("query", json!({"sql": "drop table faults"}), "may only read"),
        ("query", json!({"sql": "set datafusion.execution.batch_size = 1"}), "may only read"),
        ("query", json!({"sql": "select 1; drop table faults"}), "single SQL statement"),
    ];
    for (tool, arguments, said) in questions {
        let refused = client.refused(tool, &arguments);
        assert!(refused.contains(said), "{tool} {arguments}: {refused}");
    }
    let long = client.refused("show", &json!({"recording": "x".repeat(1 << 20), "view": "faults"}));
    assert!(long.len() < 5000 && long.contains("more bytes)"), "{} bytes", long.len());
    // None of them ended it.
    assert_eq!(client.ask("recordings", &json!({}))["recordings_total"], 1);
    assert_eq!(client.close().0, Some(0));
    assert_eq!(state(tmp.path()), before);
    assert!(!stolen.exists());
}

/// What `/etc/passwd` has and nothing that pagelab says.
const SECRET: &str = "root:x:0:0";

#[test]
fn no_tool_reads_a_file_elsewhere() {
    assert!(
        fs::read_to_string("/etc/passwd").expect("it is there").contains(SECRET),
        "the file has what is looked for"
    );
    let tmp = scratch();
    let set = tmp.path().join("set");
    fs::create_dir(&set).expect("ours");
    run(pagelab().args(["record", "-o"]).arg(set.join("run")).args(["--", "true"]), 0);
    // Planted: a manifest, a table and a folder that are links to elsewhere.
    fs::create_dir(set.join("planted")).expect("ours");
    symlink("/etc/passwd", set.join("planted/manifest.json")).expect("ours");
    symlink("/etc", set.join("etc")).expect("ours");
    let _ = fs::remove_dir_all(set.join("run/marks"));
    fs::create_dir(set.join("run/marks")).expect("ours");
    symlink("/etc/passwd", set.join("run/marks/part-0000.parquet")).expect("ours");
    let client = Client::of(&[&set]);
    let listed = client.ask("recordings", &json!({}));
    assert_eq!(listed["recordings_total"], 1, "{listed:#}");
    assert!(!listed.to_string().contains(SECRET), "{listed:#}");
    for path in [
        "/etc/passwd",
        "/etc",
        "/etc/",
        "file:///etc/passwd",
        "../../../../../../etc/passwd",
        text(&set.join("etc")),
        text(&set.join("planted")),
    ] {
        for (tool, arguments) in [
            ("show", json!({"recording": path, "view": "summary"})),
            ("explain", json!({"recording": path})),
            ("compare", json!({"base": [path], "test": [path]})),
            ("query", json!({"sql": "select * from runs", "recordings": [path]})),
            ("query", json!({"sql": format!("select * from '{path}'")})),
            ("query", json!({"sql": format!("select * from \"{path}\"")})),
            ("query", json!({"sql": format!("select * from read_csv('{path}')")})),
            ("query", json!({"sql": format!("select * from read_parquet('{path}')")})),
            ("query", json!({"sql": format!("create external table t stored as csv location '{path}'")})),
            (
                "query",
                json!({"sql": format!("create external table t (line text) stored as csv location '{path}'; select * from t")}),
            ),
            ("query", json!({"sql": format!("copy (select 1) to '{path}'")})),
        ] {
            let said = client.refused(tool, &arguments);
            assert!(!said.contains(SECRET), "{tool} {arguments}: {said}");
        }
    }
    // What is planted is damage, and named; what it is a link to is not told.
    let found = client.ask("query", &json!({"sql": "select * from marks"}));
    let left_out = found["left_out"].to_string();
    assert!(left_out.contains("part-0000.parquet") && left_out.contains("planted/manifest.json"), "{found:#}");
    assert!(!found.to_string().contains(SECRET), "{found:#}");
    assert_eq!(client.close().0, Some(0));
}

#[test]
fn runs_appear_and_a_long_call_does_not_hold_the_end() {
    let tmp = scratch();
    let first = tmp.path().join("run1");
    run(pagelab().args(["record", "-o"]).arg(&first).args(["--", "true"]), 0);
    let client = Client::of(&[tmp.path()]);
    assert_eq!(client.ask("recordings", &json!({}))["recordings_total"], 1);
    let second = tmp.path().join("run2");
    run(pagelab().args(["record", "-o"]).arg(&second).args(["--", "true"]), 0);
    assert_eq!(client.ask("recordings", &json!({}))["recordings_total"], 2);
    assert_eq!(client.ask("explain", &json!({"recording": text(&second)}))["dir"], text(&second));
    // Hours of counting. Other calls are answered beside it, and the end of the input ends it.
    let sql = json!({"sql": "select count(*) from generate_series(1, 1000000000000) where value % 3 = 1"});
    let request = CallToolRequestParams::new("query").with_arguments(sql.as_object().expect("an object").clone());
    let peer = client.service.peer().clone();
    client.runtime.spawn(async move { peer.call_tool(request).await });
    assert_eq!(client.ask("recordings", &json!({"top": 1}))["recordings_total"], 2);
    let queries = client.queries(1);
    let (status, took) = client.close();
    assert_eq!(status, Some(0));
    assert!(took < Duration::from_secs(30), "{took:?}");
    gone(&queries);
}

/// What no query may know.
const SECRET_KEY: &str = "a key of an object store";

/// Two tables of ten million rows each: it takes days, and the engine does not look up from it.
const CROSS_JOIN: &str = "select count(*) as n from generate_series(1, 10000000) a, generate_series(1, 10000000) b \
                          where (a.value * b.value) % 7 = 3";

/// Longer than a limit may be overrun, and than a process may take to go.
const SOON: Duration = Duration::from_secs(2);

/// A word of `/proc/PID/stat` behind the name: 0 is the state, 1 the parent.
fn stat_word(pid: u32, number: usize) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit(')').next()?.split_whitespace().nth(number).map(str::to_owned)
}

/// The processes that a process has started and not waited for.
fn children(of: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| stat_word(*pid, 1) == Some(of.to_string())).collect()
}

/// Waits until the processes have gone. One whose parent was killed may be left for another to collect.
#[track_caller]
fn gone(pids: &[u32]) {
    let begun = Instant::now();
    let is_there = |pid: &&u32| stat_word(**pid, 0).is_some_and(|state| state != "Z" && state != "X");
    while let Some(pid) = pids.iter().find(is_there) {
        assert!(begun.elapsed() < SOON, "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Client {
    /// The processes of `count` running queries.
    #[track_caller]
    fn queries(&self, count: usize) -> Vec<u32> {
        let begun = Instant::now();
        loop {
            // What was asked for is sent while the client waits for something.
            self.tools();
            let running = children(self.server.id());
            // Until it is another program it is the server's own image, with its environment.
            let is_query = |pid: &u32| {
                fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|words| words.contains("__query"))
            };
            if running.len() == count && running.iter().all(is_query) {
                return running;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{running:?}, needed {count}");
        }
    }

    /// Asks a query, and waits for nothing.
    fn begin(&self, sql: &str) -> RequestHandle<RoleClient> {
        let arguments = json!({"sql": sql}).as_object().expect("an object").clone();
        let call = CallToolRequest::new(CallToolRequestParams::new("query").with_arguments(arguments));
        let (peer, options) = (self.service.peer(), PeerRequestOptions::no_options());
        self.runtime.block_on(peer.send_cancellable_request(call.into(), options)).expect("it is sent")
    }
}

/// A recording, and an empty folder beside it.
fn recorded_briefly() -> (TempDir, PathBuf, PathBuf) {
    let tmp = scratch();
    let (rec, temporary) = (tmp.path().join("rec"), tmp.path().join("temporary"));
    run(pagelab().args(["record", "-o"]).arg(&rec).args(["--", "true"]), 0);
    fs::create_dir(&temporary).expect("ours");
    (tmp, rec, temporary)
}

fn files_in(folder: &Path) -> usize {
    fs::read_dir(folder).expect("ours").count()
}

#[test]
fn a_cross_join_ends_at_its_limit_and_the_next_call_is_answered() {
    let (_tmp, rec, temporary) = recorded_briefly();
    let client = Client::with_limit(&rec, "1.5", &temporary);
    let begun = Instant::now();
    let said = client.refused("query", &json!({"sql": CROSS_JOIN}));
    let took = begun.elapsed();
    assert!(said.contains("no end of the query after 1.5 s") && said.contains("--query-timeout S"), "{said}");
    let limit = Duration::from_millis(1500);
    assert!(limit <= took && took < limit + SOON, "{took:?}");
    assert_eq!((children(client.server.id()), files_in(&temporary)), (Vec::new(), 0));
    assert_eq!(client.ask("query", &json!({"sql": "select 1 as one"}))["rows"], json!([{"one": 1}]));
    assert_eq!(client.close().0, Some(0));
    run(pagelab().arg("mcp").arg(&rec).args(["--query-timeout", "0"]).stdin(Stdio::null()), 2);
}

#[test]
fn a_query_ends_at_its_limit_of_memory() {
    let (_tmp, rec, temporary) = recorded_briefly();
    let client = Client::with_limit(&rec, "600", &temporary);
    // The engine's own account of memory does not have it.
    let said = client.refused("query", &json!({"sql": "select length(repeat('x', 2000000000)) as n"}));
    assert!(said.contains("found 1") && said.contains("bytes in use, needed at most 1073741824"), "{said}");
    assert_eq!(client.ask("query", &json!({"sql": "select 2 as two"}))["rows"], json!([{"two": 2}]));
    assert_eq!(client.close().0, Some(0));
}

#[test]
fn a_cancelled_query_leaves_no_process_and_makes_room() {
    let (_tmp, rec, temporary) = recorded_briefly();
    let client = Client::with_limit(&rec, "600", &temporary);
    // One more than run at a time: it is cancelled while it waits.
    let asked: Vec<_> = (0..5).map(|_| client.begin(CROSS_JOIN)).collect();
    let queries = client.queries(4);
    assert_eq!(files_in(&temporary), 4, "each has a folder");
    for pid in &queries {
        let environment = fs::read(format!("/proc/{pid}/environ")).expect("ours");
        assert!(!String::from_utf8_lossy(&environment).contains(SECRET_KEY), "a query knows no keys");
    }
    client.runtime.block_on(async {
        for handle in asked {
            handle.cancel(Some("somebody lost interest".to_owned())).await.expect("it is sent");
        }
    });
    client.tools();
    gone(&queries);
    // If the fifth were running, this would be the second of two.
    assert_eq!(client.ask("query", &json!({"sql": "select 1 as one"}))["rows"], json!([{"one": 1}]));
    assert_eq!((children(client.server.id()), files_in(&temporary)), (Vec::new(), 0));
    assert_eq!(client.close().0, Some(0));
}

#[test]
fn a_query_dies_with_a_killed_server() {
    let (_tmp, rec, temporary) = recorded_briefly();
    let mut client = Client::with_limit(&rec, "600", &temporary);
    let _asked = client.begin(CROSS_JOIN);
    let queries = client.queries(1);
    client.server.kill().expect("ours");
    client.server.wait().expect("ours");
    gone(&queries);
}

/// The answer of a query's process that is started without a server.
fn answered(query: &Value, temporary: &Path) -> Value {
    let mut command = pagelab();
    command.arg("__query").env("TMPDIR", temporary).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().expect("it starts");
    let mut input = process.stdin.take().expect("a pipe");
    write!(input, "{query}").expect("it reads");
    drop(input);
    let output = process.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    json(&output)
}

#[test]
fn the_process_of_a_query_writes_to_its_folder_and_reads_its_recordings_alone() {
    let (tmp, rec, temporary) = recorded_briefly();
    let ask = |dirs: &[&Path], sql: &str, temporary: &Path| {
        let query = json!({"dirs": dirs, "sql": sql, "memory_bytes": 8 << 20, "most_bytes": LIMIT});
        answered(&query, temporary)
    };
    let sort = "select max(r) as most from (select row_number() over (order by value % 97, value) as r from \
                generate_series(1, 3000000))";
    let found = ask(&[&rec], sort, &temporary);
    assert_eq!((&found["Ok"]["rows_json"], files_in(&temporary)), (&"[{\"most\":3000000}]".into(), 0), "{found}");
    let without = ask(&[&rec], sort, &tmp.path().join("nowhere"));
    assert!(without["Err"]["Unanswered"].is_string(), "it needs temporary files: {without}");

    // A folder of a recording that leads to one which nobody named.
    let (linked, count) = (tmp.path().join("linked"), "select count(*) as n from tasks");
    run(pagelab().args(["record", "-o"]).arg(&linked).args(["--", "true"]), 0);
    fs::remove_dir_all(linked.join("tasks")).expect("ours");
    symlink(rec.join("tasks"), linked.join("tasks")).expect("ours");
    let both = ask(&[&linked, &rec], count, &temporary);
    assert!(both["Ok"]["rows"] == 1, "{both}");
    let alone = ask(&[&linked], count, &temporary);
    assert!(alone["Err"]["Unanswered"].as_str().is_some_and(|said| said.contains("Permission denied")), "{alone}");

    let nothing = answered(&json!({}), &temporary);
    assert!(nothing["Err"]["Unanswered"].as_str().is_some_and(|said| said.contains("own use")), "{nothing}");
}

/// Lines that the server writes on these lines, and its status.
fn raw(dir: &Path, lines: &[String]) -> (Vec<Value>, Option<i32>) {
    let mut command: Command = pagelab();
    let mut server = command
        .arg("-v")
        .arg("mcp")
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut input = server.stdin.take().expect("a pipe");
    for line in lines {
        writeln!(input, "{line}").expect("it reads");
    }
    drop(input);
    let output = BufReader::new(server.stdout.take().expect("a pipe"));
    let said = output.lines().map(|line| {
        let line = line.expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    });
    let said: Vec<Value> = said.collect();
    (said, server.wait().expect("ours").code())
}

#[test]
fn standard_output_has_the_protocol_alone_and_the_end_of_input_ends_it() {
    let tmp = scratch();
    let rec = tmp.path().join("rec");
    run(pagelab().args(["record", "-o"]).arg(&rec).args(["--", "true"]), 0);
    assert_eq!(raw(&rec, &[]), (Vec::new(), Some(0)), "nobody asked");
    let client =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let call = |id: u64, sql: &str| {
        let params = json!({"name": "query", "arguments": {"sql": sql}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}).to_string(),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        "no JSON at all".to_owned(),
        call(2, "select 1 as one"),
        call(3, "SELEC"),
        json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "doctor"}}).to_string(),
    ];
    let (said, status) = raw(&rec, &lines);
    assert_eq!(status, Some(0));
    assert!(said.iter().all(|line| line["jsonrpc"] == "2.0"), "{said:#?}");
    // What was asked before the end is answered.
    for id in 1..=4 {
        assert!(said.iter().any(|line| line["id"] == id && line["result"].is_object()), "{id}: {said:#?}");
    }
    let about = &said.iter().find(|line| line["id"] == 1).expect("an answer")["result"];
    assert_eq!(about["serverInfo"]["name"], "pagelab");
    assert!(about["instructions"].as_str().is_some_and(|text| text.contains("never instructions")), "{about:#}");

    let nothing = stderr(&run(pagelab().arg("mcp").arg(tmp.path().join("nowhere")).stdin(Stdio::null()), 2));
    assert!(nothing.contains("no such path"), "{nothing}");
    run(pagelab().arg("mcp").stdin(Stdio::null()), 2);
}
