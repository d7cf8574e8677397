//! Names in recordings were chosen by other programs. Every text in a recording is given bytes that a terminal acts on,
//! and every command is asked for it: none of them may come out raw.
//!
//! The story: `show` cleaned its tables, and `explain`, `compare`, `check`, `query`, `doctor` and every error message
//! printed what they found. A label of `ESC ]0;PWNED BEL` renamed the window of whoever looked at the recording.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

use crate::common;
#[allow(dead_code, reason = "each test file uses a part")]
use crate::show_fixture;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use common::{pagelab, run, scratch};
use pagelab_vocab::terminal::is_active;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use tempfile::TempDir;

/// What stands in every hostile text, so that a test sees that it was printed at all.
const MARK: &str = "PWNED";

/// Every control character and every mark that turns the direction of writing around, with sequences that set the title
/// of the window and write to the clipboard.
fn hostile() -> String {
    let controls = (1..0x20).chain(0x7f..0xa0).filter_map(char::from_u32);
    let marks = "\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";
    format!("\u{1b}]0;{MARK}\u{7}\u{1b}]52;c;\u{9c}\u{9b}31m\u{1b}[1m{}{marks}", controls.collect::<String>())
}

/// Columns and keys whose few values pagelab itself writes. Changed, they make a recording that cannot be read, which is
/// the second of the two ways that are tried.
const WORDS: &[&str] =
    &["op", "kind", "stream", "at", "direction", "state", "outcome", "offset_kind", "event", "format", "id"];

/// Which texts are changed.
#[derive(Clone, Copy, PartialEq)]
enum Which {
    /// Names that other programs chose; every second row keeps its own, so that views have something to say.
    Names,
    /// Every text there is.
    All,
}

impl Which {
    fn takes(self, name: &str) -> bool {
        self == Self::All || !WORDS.contains(&name)
    }
}

fn changed_column(array: &ArrayRef, which: Which) -> ArrayRef {
    let takes = |row: usize| which == Which::All || row % 2 == 1;
    let text = |array: &ArrayRef| -> ArrayRef {
        let values = cast(array, &DataType::Utf8).unwrap();
        let values = values.as_any().downcast_ref::<StringArray>().unwrap();
        let new = values.iter().enumerate().map(|(row, value)| {
            value.map(|value| if takes(row) { format!("{value}{}", hostile()) } else { value.to_owned() })
        });
        Arc::new(new.collect::<StringArray>())
    };
    let bytes = |array: &ArrayRef| -> ArrayRef {
        let values = cast(array, &DataType::Binary).unwrap();
        let values = values.as_any().downcast_ref::<BinaryArray>().unwrap();
        let new = values.iter().enumerate().map(|(row, value)| {
            // Not all of it is UTF-8: a path need not be.
            value.map(
                |value| if takes(row) { [value, hostile().as_bytes(), b"\x9b1m\xff"].concat() } else { value.to_vec() },
            )
        });
        Arc::new(new.collect::<BinaryArray>())
    };
    let new = match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => text(array),
        DataType::Binary | DataType::LargeBinary => bytes(array),
        DataType::Dictionary(_, values) if **values == DataType::Utf8 => text(array),
        DataType::Dictionary(_, values) if **values == DataType::Binary => bytes(array),
        _ => return array.clone(),
    };
    cast(&new, array.data_type()).unwrap()
}

fn change_part(path: &Path, which: Which) -> usize {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let schema = reader.schema().clone();
    let mut changed = 0;
    let mut batches = Vec::new();
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        let columns = batch.columns().iter().zip(schema.fields()).map(|(array, field)| {
            let new = if which.takes(field.name()) { changed_column(array, which) } else { array.clone() };
            changed += usize::from(!Arc::ptr_eq(&new, array));
            new
        });
        batches.push(RecordBatch::try_new(schema.clone(), columns.collect()).unwrap());
    }
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), schema, None).unwrap();
    for batch in &batches {
        writer.write(batch).unwrap();
    }
    writer.close().unwrap();
    changed
}

fn change_json(value: &mut Value, which: Which) {
    match value {
        Value::String(text) => text.push_str(&hostile()),
        Value::Array(values) => values.iter_mut().for_each(|value| change_json(value, which)),
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            for name in names {
                if which.takes(&name) {
                    change_json(&mut fields[&name], which);
                }
            }
            fields.insert(format!("extra{}", hostile()), Value::from(hostile()));
        }
        _ => {}
    }
}

fn change_document(path: &Path, which: Which) {
    let mut document: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change_json(&mut document, which);
    fs::write(path, serde_json::to_vec(&document).unwrap()).unwrap();
}

/// Changes a recording, or all recordings of a set.
fn change(dir: &Path, which: Which) -> usize {
    let mut changed = 0;
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        match path.extension().and_then(OsStr::to_str) {
            _ if path.is_dir() => changed += change(&path, which),
            Some("parquet") => changed += change_part(&path, which),
            Some("json") => change_document(&path, which),
            _ => {}
        }
    }
    changed
}

/// A recording of all streams, of a program that has a bit of everything.
fn recorded(dir: &Path, name: &str) -> PathBuf {
    let rec = dir.join(name);
    let script =
        "for i in 1 2 3; do dd if=/dev/zero of=f bs=64k count=20 conv=fsync 2>&1; cat f f > g; done; sleep 0.3";
    let mut command = pagelab();
    command.current_dir(dir).args(["record", "-q", "--observe", "all", "--best-effort", "-o"]).arg(&rec);
    run(command.args(["--", "sh", "-c", script]), 0);
    rec
}

/// The first raw character of an output, with what stands around it.
fn raw(bytes: &[u8]) -> Option<String> {
    let around = |at: usize| {
        String::from_utf8_lossy(&bytes[at.saturating_sub(60)..(at + 20).min(bytes.len())]).escape_debug().to_string()
    };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return Some(format!("no UTF-8: {}", around(error.valid_up_to()))),
    };
    let (at, _) = text.char_indices().find(|(_, letter)| is_active(*letter) && !matches!(letter, '\n' | '\t'))?;
    Some(around(at))
}

/// Runs a command; gives whether the mark came out.
#[track_caller]
fn assert_clean(command: &mut Command) -> bool {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let line: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    let line = line.join(" ").escape_debug().to_string();
    for (bytes, name) in [(&output.stdout, "standard output"), (&output.stderr, "standard error")] {
        if let Some(found) = raw(bytes) {
            panic!("pagelab {line}: {name} has a raw character: {found}");
        }
    }
    let died = output.status.code().is_none_or(|status| status > 100);
    assert!(!died, "pagelab {line}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let holds = |bytes: &[u8]| bytes.windows(MARK.len()).any(|window| window == MARK.as_bytes());
    holds(&output.stdout) || holds(&output.stderr)
}

const VIEWS: &[&str] = &[
    "summary", "tasks", "faults", "maps", "dax", "syscalls", "io", "sched", "profile", "counters", "metrics",
    "settings", "latency", "block", "regions", "loss",
];

const TABLES: &[&str] =
    &["tasks", "mappings", "files", "frames", "settings", "metrics", "counters", "loss", "syscalls"];

/// Every command that reads recordings; gives how many printed the mark.
fn ask_everything(base: &Path, test: &Path, scratch: &Path) -> usize {
    let mut marked = 0;
    let mut ask = |words: &[&OsStr]| marked += usize::from(assert_clean(pagelab().current_dir(scratch).args(words)));
    for view in VIEWS {
        for options in [&[][..], &["--json"], &["--top", "0"]] {
            let options = options.iter().map(OsStr::new);
            ask(&[OsStr::new("show"), test.as_os_str(), OsStr::new(view)]
                .into_iter()
                .chain(options)
                .collect::<Vec<_>>());
        }
    }
    ask(&["show".as_ref(), test.as_os_str(), "syscalls".as_ref(), "--log".as_ref()]);
    ask(&["show".as_ref(), test.as_os_str(), hostile().as_ref()]);
    for json in [&[][..], &["--json"]] {
        let json = || json.iter().map(OsStr::new);
        for command in ["explain", "check"] {
            ask(&[OsStr::new(command), test.as_os_str()].into_iter().chain(json()).collect::<Vec<_>>());
        }
        let compare = ["compare".as_ref(), "--base".as_ref(), base.as_os_str(), "--test".as_ref(), test.as_os_str()];
        ask(&compare.into_iter().chain(json()).collect::<Vec<_>>());
    }
    for table in TABLES {
        let sql = format!("select * from {table} limit 500");
        ask(&["query".as_ref(), test.as_os_str(), sql.as_ref()]);
        ask(&["query".as_ref(), test.as_os_str(), sql.as_ref(), "--json".as_ref()]);
    }
    let sql = format!("select \"{}\" from tasks", hostile());
    ask(&["query".as_ref(), test.as_os_str(), sql.as_ref()]);
    ask(&["export".as_ref(), "folded".as_ref(), test.as_os_str()]);
    marked
}

fn both(dir: &Path) -> (PathBuf, PathBuf) {
    (recorded(dir, "base.rec"), recorded(dir, "test.rec"))
}

#[test]
fn no_name_in_a_recording_reaches_the_terminal_raw() {
    let tmp = scratch();
    let (base, test) = both(tmp.path());
    assert!(change(&base, Which::Names) > 20 && change(&test, Which::Names) > 20, "columns were changed");
    let marked = ask_everything(&base, &test, tmp.path());
    assert!(marked >= 40, "only {marked} commands printed a changed name: they did not see it");
}

#[test]
fn words_that_pagelab_itself_writes_do_not_either() {
    let tmp = scratch();
    let (base, test) = both(tmp.path());
    change(&base, Which::All);
    change(&test, Which::All);
    let marked = ask_everything(&base, &test, tmp.path());
    assert!(marked >= 20, "only {marked} commands printed a changed word: they did not see it");
    // The tables alone: the manifest's words end most commands before they read any.
    let tmp = scratch();
    let (base, test) = both(tmp.path());
    let kept = [&base, &test].map(|dir| fs::read(dir.join("manifest.json")).unwrap());
    change(&base, Which::All);
    change(&test, Which::All);
    for (dir, manifest) in [&base, &test].into_iter().zip(kept) {
        fs::write(dir.join("manifest.json"), manifest).unwrap();
    }
    ask_everything(&base, &test, tmp.path());
}

#[test]
fn the_fixture_of_all_views_is_shown_clean() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    show_fixture::write(&dir).close(show_fixture::last).unwrap();
    change(&dir, Which::Names);
    assert!(ask_everything(&dir, &dir, tmp.path()) > 10);
}

/// A manifest of a newer format is refused with the version that wrote it.
#[test]
fn errors_are_clean() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    show_fixture::write(&dir).close(show_fixture::last).unwrap();
    let newer = serde_json::json!({"format": 99, "pagelab_version": hostile()});
    fs::write(dir.join("manifest.json"), newer.to_string()).unwrap();
    assert!(assert_clean(pagelab().arg("show").arg(&dir).arg("summary")));
    let nowhere = tmp.path().join(hostile());
    for command in ["show", "explain", "check", "doctor"] {
        let mut asked = pagelab();
        asked.arg(command).arg(&nowhere);
        if command == "show" {
            asked.arg("summary");
        }
        assert!(assert_clean(&mut asked), "{command}");
    }
    // A plan and a job file whose words are wrong.
    let plan = tmp.path().join("plan.toml");
    fs::write(&plan, format!("title = {}\nruns = \"{MARK}\"\n", Value::from(hostile()))).unwrap();
    assert_clean(pagelab().arg("experiment").arg(&plan));
    let job = tmp.path().join("job.fio");
    fs::write(&job, format!("[{0}]\nno_such_option={0}\n", hostile().replace(['\n', '\r'], ""))).unwrap();
    assert_clean(pagelab().current_dir(tmp.path()).arg("run").arg(&job));
}

/// A process that names itself, and maps a file with such a name.
fn hostile_process(dir: &Path) -> (std::process::Child, PathBuf) {
    let file = dir.join(OsStr::from_bytes(&[hostile().as_bytes(), b"\x9b"].concat()));
    File::create(&file).unwrap().write_all(&vec![1; 4 << 20]).unwrap();
    let script = "import mmap,os,sys,time\n\
                  open('/proc/self/comm','wb').write(b'\\x1b]0;P\\x07\\x9b1m')\n\
                  f=os.open(os.fsencode(sys.argv[1]),os.O_RDWR); m=mmap.mmap(f,0); m[0]\n\
                  print('ready',flush=True); time.sleep(60)\n";
    let mut command = Command::new("python3");
    let mut child = command.args(["-c", script]).arg(&file).stdout(Stdio::piped()).process_group(0).spawn().unwrap();
    let mut line = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    (child, file)
}

#[test]
fn doctor_shows_processes_and_files_clean() {
    let tmp: TempDir = scratch();
    let (mut child, file) = hostile_process(tmp.path());
    let pid = child.id().to_string();
    for json in [&[][..], &["--json"]] {
        assert_clean(pagelab().args(["doctor", "--pid", &pid]).args(json));
        assert!(assert_clean(pagelab().arg("doctor").arg(&file).args(json)));
    }
    let rec = tmp.path().join("attached.rec");
    assert_clean(pagelab().args(["record", "--observe", "default", "--duration", "1", "-p", &pid, "-o"]).arg(&rec));
    assert!(assert_clean(pagelab().arg("show").arg(&rec).args(["maps", "--json"])));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_terminal_gets_bold_headings_and_nothing_else() {
    let tmp = scratch();
    let rec = recorded(tmp.path(), "test.rec");
    change(&rec, Which::Names);
    // script(1) gives the command a terminal of its own; it turns \n into \r\n.
    for words in
        [vec!["show", "summary"], vec!["show", "tasks"], vec!["query", "select comm from tasks", "--format", "csv"]]
    {
        let (command, rest) = words.split_first().unwrap();
        let mut line = vec![common::binary().display().to_string(), (*command).to_owned(), rec.display().to_string()];
        line.extend(rest.iter().map(|word| (*word).to_owned()));
        let shell = pagelab_vocab::terminal::shell_line(line);
        let output: Output = Command::new("script")
            .args(["-qec", &shell, "/dev/null"])
            .env("TERM", "xterm")
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let text = text.replace("\r\n", "\n").replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        assert_eq!(raw(text.as_bytes()), None, "{shell}");
        assert!(text.contains(MARK), "{shell}: {text}");
    }
}
