//! Requests to devices as pictures: each is in one of its device, reads and writes apart, and they are those of the view `block`.
#![allow(clippy::unwrap_used)]

mod run_support;

use pagelab_recording::Recording;
use pagelab_recording::tables::BlockIosRow;
use pagelab_views::selection::Selection;
use pagelab_views::view::block::{collect, of_devices};
use pagelab_views::view::io::Drawn;
use run_support::{SECOND, command, record};

#[test]
fn each_request_that_moves_something_is_in_the_picture_of_its_device() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), command(0, SECOND), |writer| {
        for number in 0..100_u64 {
            let row =
                BlockIosRow { ts: number as i64 * 1000, dev: 0x800, device: Some("sda"), ..BlockIosRow::default() };
            let op = if number % 4 == 0 { "write" } else { "read" };
            writer.push(&BlockIosRow { sector: 1000 + number * 8, bytes: 4096, op, ..row });
            // Neither has a place.
            writer.push(&BlockIosRow { sector: 0, bytes: 0, op: "flush", ..row });
            writer.push(&BlockIosRow { sector: 0, bytes: 1 << 30, op: "discard", ..row });
        }
        writer.push(&BlockIosRow { ts: 7, dev: 0x801, sector: 8, bytes: 512, op: "write", ..BlockIosRow::default() });
        writer.push(&BlockIosRow { ts: 8, dev: 0x802, sector: 8, bytes: 512, op: "flush", ..BlockIosRow::default() });
    });
    let recording = Recording::open(&dir).unwrap();
    let drawn = Drawn { files: 1, columns: 10, rows: 5 };
    let (maps, devices) = of_devices(&recording, &Selection::default(), drawn, &mut Vec::new()).unwrap();
    assert_eq!((maps.len(), devices), (1, 2), "the one with most, of those that something was moved on");
    let map = &maps[0];
    assert_eq!((map.name.as_str(), map.bytes, map.reads, map.writes), ("sda", 100 * 4096, 75, 25));
    assert_eq!((map.grid.low, map.grid.high), (1000 * 512, (1000 + 100 * 8) * 512), "bytes, from sectors");
    assert_eq!((map.grid.start_ns, map.grid.end_ns), (0, 99_000));
    let sums: [u64; 2] = [map.grid.reads.iter().sum(), map.grid.writes.iter().sum()];
    assert_eq!(sums, [75, 25], "each lies in one row");
    let view = collect(&recording, &Selection::default()).unwrap().data;
    let of = |op: &str| view.groups.iter().find(|group| group.title() == "sda" && group.op == op).unwrap().count;
    assert_eq!((of("read"), of("write")), (map.reads, map.writes));
    // It goes up as time goes on: the first column is in the lowest row, the last in the highest.
    let row_of = |column: usize| (0..5).find(|row| map.grid.reads[row * 10 + column] > 0);
    assert_eq!((row_of(0), row_of(9)), (Some(0), Some(4)));
    let all = Drawn { files: 9, ..drawn };
    let (maps, _) = of_devices(&recording, &Selection::default(), all, &mut Vec::new()).unwrap();
    assert_eq!(maps[1].name, "8:1", "without a name its numbers");
}
