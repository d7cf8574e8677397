//! `docs/recording.md` must say what the registry says, and the registry must keep what the contract of format 1 names.

use std::fs;
use std::path::Path;

use pagelab_recording::tables::ColType;
use pagelab_recording::{docs, tables};

#[test]
fn docs_page_matches_the_registry() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recording.md");
    let text = fs::read_to_string(&path).unwrap();
    let end = text.find("-->").expect("the marker before the generated part") + "-->".len();
    let wanted = format!("{}\n\n{}", &text[..end], docs::tables_markdown());
    if std::env::var_os("PAGELAB_BLESS").is_some() {
        fs::write(&path, wanted).unwrap();
        return;
    }
    assert!(text == wanted, "docs/recording.md differs from the registry; run: make docs");
}

/// Columns of format 1. Others may be added; none of these may be renamed or dropped, because recordings, queries and
/// other programs name them.
const FORMAT_1: &str = "
tasks ts op task_id tid pid parent_task_id mm_id comm exe build_id cgroup_id exit_code min_flt maj_flt utime_ns stime_ns exe_text
faults ts task_id mm_id addr ip error_code major dur mapping_id
mappings ts task_id mm_id mapping_id op kind addr len old_addr prot flags fd offset dev ino path advice ret ustack_id path_text
dax_faults ts task_id kind dev ino addr vm_start vm_end vm_flags pgoff max_pgoff flags result outcome reason
syscalls ts dur task_id name args fd file_id offset offset_kind requested ret cpu_ns blocked_ns
files ts file_id dev ino fs type path path_text
offcpu ts dur task_id state kstack_id ustack_id waker_task_id
samples ts task_id cpu event kstack_id ustack_id weight
stacks stack_id frame_ids
frames frame_id symbol module build_id module_offset kernel inlined module_text
counters ts task_id name value enabled_ns running_ns
marks ts name source
metrics ts name instance value
settings ts key value source at
jobs ts job direction ios bytes short dropped runtime_ns usr sys ctx majf minf
latency ts job thread direction kind low_ns high_ns count
block_ios ts dur queue_ns task_id dev sector bytes op merged status
region_pages ts mm_id start end path page_size_bytes bytes asked reason path_text
loss ts stream cpu seen lost filtered
";

#[test]
fn format_1_is_all_there() {
    for line in FORMAT_1.lines().filter(|l| !l.is_empty()) {
        let mut words = line.split_whitespace();
        let table = tables::table(words.next().unwrap()).unwrap();
        for column in words {
            assert!(table.column(column).is_some(), "{}.{column}", table.name);
        }
    }
}

/// Other programs show bytes as `b'...'`.
#[test]
fn every_column_of_bytes_has_its_text() {
    for table in tables::all() {
        for column in table.columns {
            let text = table.columns.iter().find(|text| text.text_of == Some(column.name));
            let wanted = (column.ty == ColType::Bytes).then(|| (format!("{}_text", column.name), ColType::Str));
            assert_eq!(text.map(|text| (text.name.to_owned(), text.ty)), wanted, "{}.{}", table.name, column.name);
            let source = column.text_of.map(|bytes| table.column(bytes).expect("a column of the table").ty);
            assert!(source.is_none_or(|ty| ty == ColType::Bytes), "{}.{}", table.name, column.name);
        }
    }
}

#[test]
fn every_declaration_explains_itself() {
    for table in tables::all() {
        assert!(table.help.ends_with('.') && table.help == table.help.trim(), "{}: {}", table.name, table.help);
        for column in table.columns {
            assert!(column.help.ends_with('.') && column.help.len() > 3, "{}.{}", table.name, column.name);
            assert!(!column.name.ends_with("_ns") || column.unit == "ns", "{}.{}", table.name, column.name);
            assert!(!column.name.ends_with("_bytes") || column.unit == "bytes", "{}.{}", table.name, column.name);
        }
        assert_eq!(docs::sql_comments(table).len(), table.columns.len() + 1);
    }
}
