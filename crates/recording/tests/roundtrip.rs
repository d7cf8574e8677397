//! What is pushed is what is read, through live parts, through a clean end and through a broken-off recorder.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

use pagelab_recording::tables::{FaultsRow, LossRow, MappingsRow, MetricsRow, StacksRow, SyscallsRow, TasksRow};
use pagelab_recording::{Manifest, Recording, RecordingWriter, WriterOptions};

fn writer(dir: &std::path::Path) -> RecordingWriter {
    RecordingWriter::create(dir, Manifest::default(), WriterOptions::default()).unwrap()
}

#[test]
fn rows_of_every_shape_survive() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    let mut w = writer(&dir);
    for i in 0..1000_i64 {
        w.push_faults(&FaultsRow {
            ts: 1_000_000 - i,
            task_id: 7,
            mm_id: 3,
            addr: u64::MAX - i as u64 * 4096,
            ip: 0x40_0000,
            error_code: Some(6),
            major: (i % 3 == 0).then_some(i % 2 == 0),
            ..FaultsRow::default()
        });
    }
    w.push_tasks(&TasksRow {
        ts: 5,
        op: "exec",
        task_id: 1,
        comm: Some("x"),
        exe: Some(b"/tmp/\xff\xfe"),
        ..TasksRow::default()
    });
    w.push_syscalls(&SyscallsRow {
        ts: 1,
        name: "read",
        args: [1, 2, 3, 4, 5, u64::MAX],
        ret: Some(-9),
        ..SyscallsRow::default()
    });
    w.push_stacks(&StacksRow { stack_id: 9, frame_ids: &[1, u64::MAX, 3] });
    w.push_loss(&LossRow { ts: 1, stream: "faults", cpu: None, seen: 10, lost: 0, filtered: 1 });
    w.push_metrics(&MetricsRow { ts: 3, name: "vmstat.x", instance: None, value: None });
    w.push_mappings(&MappingsRow::default());
    w.flush(1_000_000).unwrap();
    w.close(|m| m.label = Some("l".to_owned())).unwrap();

    let rec = Recording::open(&dir).unwrap();
    assert!(rec.manifest().complete);
    assert_eq!(rec.manifest().label.as_deref(), Some("l"));
    let mut faults = Vec::new();
    rec.for_each::<FaultsRow>(|r| faults.push(FaultsRow { got: None, ..r })).unwrap();
    assert_eq!(faults.len(), 1000);
    assert!(faults.is_sorted_by_key(|r| r.ts));
    assert_eq!(faults[999].addr, u64::MAX);
    assert_eq!(faults[999].major, Some(true));
    assert_eq!(faults[998].major, None);
    rec.for_each::<TasksRow>(|r| {
        assert_eq!(r.exe, Some(&b"/tmp/\xff\xfe"[..]));
        assert_eq!((r.op, r.comm, r.build_id), ("exec", Some("x"), None));
    })
    .unwrap();
    rec.for_each::<SyscallsRow>(|r| {
        assert_eq!(r.args, [1, 2, 3, 4, 5, u64::MAX]);
        assert_eq!(r.ret, Some(-9));
    })
    .unwrap();
    rec.for_each::<StacksRow>(|r| assert_eq!(r.frame_ids, &[1, u64::MAX, 3])).unwrap();
    assert_eq!(rec.rows("loss").unwrap(), 1);
    assert_eq!(rec.rows("metrics").unwrap(), 1);
    assert_eq!(rec.rows("latency").unwrap(), 0);
}
