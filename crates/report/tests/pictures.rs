//! Pictures of faults, as they look.

use pagelab_report::{Glyphs, Style, fault_map, fault_maps};
use pagelab_views::faultmap::{FaultMap, Point, PointKind};
use pagelab_views::mappings::{ClassKey, MemoryKind, ThpAdvice};

const HUGE: u64 = 2 << 20;
const PAGE: u64 = 4096;

/// A mapping of 2 MiB whose pages `order` were faulted 600 ns apart, the first 2 us after the mmap.
fn map(order: impl Iterator<Item = u64>, word: &str) -> FaultMap {
    let class = ClassKey {
        kind: MemoryKind::Anonymous,
        path: None,
        size_bytes: HUGE,
        comm: Some("cache".to_owned()),
        advice: ThpAdvice::None,
    };
    let mut points = vec![Point { t_ns: 0, offset: 0, kind: PointKind::Map }];
    points.extend(order.enumerate().map(|(i, page)| Point {
        t_ns: 2000 + 600 * i as i64,
        offset: page * PAGE,
        kind: PointKind::Fault,
    }));
    FaultMap {
        what: class.to_string(),
        class,
        start: 0x7f00_0020_0000,
        len: HUGE,
        mapping_start: 0x7f00_0020_0000,
        mapping_len: HUGE,
        huge_bytes: HUGE,
        page_bytes: PAGE,
        mapped_before_ns: 0,
        span_ns: points.last().map_or(1, |point| point.t_ns.max(1)),
        faults: points.len() as u64 - 1,
        mapping_faults: points.len() as u64 - 1,
        points,
        order: Some(word.to_owned()),
        class_mappings: 180,
        class_faults: 92_160,
    }
}

fn style(glyphs: Glyphs) -> Style {
    Style { width: 78, height: 12, glyphs, colour: false }
}

#[test]
fn two_sides_in_braille() {
    let (base, test) = (map([511].into_iter(), "descending"), map((0..512).rev(), "descending"));
    let maps = [("base (always)".to_owned(), &base), ("test (madvise)".to_owned(), &test)];
    insta::assert_snapshot!(fault_maps(&maps, &style(Glyphs::Braille)));
}

#[test]
fn two_sides_in_ascii() {
    let (base, test) = (map([511].into_iter(), "descending"), map((0..512).rev(), "descending"));
    let maps = [("base".to_owned(), &base), ("test".to_owned(), &test)];
    let drawn = fault_maps(&maps, &style(Glyphs::Ascii));
    assert!(drawn.is_ascii(), "{drawn}");
    insta::assert_snapshot!(drawn);
}

#[test]
fn the_slope_is_the_order() {
    let column = |drawn: &str, line: usize| drawn.lines().nth(line).and_then(|line| line.find('*'));
    for (order, rises) in [((0..512).collect::<Vec<u64>>(), true), ((0..512).rev().collect(), false)] {
        let drawn = fault_map("run", &map(order.into_iter(), "x"), &style(Glyphs::Ascii));
        // Line 1 is the top of the picture, line 12 its bottom.
        let (top, bottom) = (column(&drawn, 1), column(&drawn, 12));
        assert_eq!(top > bottom, rises, "{drawn}");
    }
}

#[test]
fn lines_fit_at_every_width() {
    let chain = map((0..512).rev(), "descending");
    for width in [40, 60, 80, 132] {
        for glyphs in [Glyphs::Ascii, Glyphs::Braille] {
            let drawn = fault_map("run", &chain, &Style { width, glyphs, ..style(glyphs) });
            let longest = drawn.lines().map(|line| line.chars().count()).max();
            assert!(longest.is_some_and(|longest| longest <= width), "{width}:\n{drawn}");
        }
    }
}

#[test]
fn colour_only_adds_escapes() {
    let chain = map((0..512).rev(), "descending");
    let plain = fault_map("run", &chain, &style(Glyphs::Braille));
    let coloured = fault_map("run", &chain, &Style { colour: true, ..style(Glyphs::Braille) });
    assert_ne!(plain, coloured);
    assert_eq!(coloured.replace("\u{1b}[1m", "").replace("\u{1b}[0m", ""), plain);
}
