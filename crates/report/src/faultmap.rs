//! Address against time of one mapping.

use std::fmt::Write as _;

use pagelab_analysis::compare::Comparison;
use pagelab_analysis::faultmap::of_comparison;
use pagelab_views::faultmap::{FaultMap, PointKind};
use pagelab_views::mappings::bytes;
use pagelab_vocab::units::{count, duration};

use crate::axis;
use crate::canvas::Canvas;
use crate::paragraph::wrap;
use crate::style::{Glyphs, Style};

/// Faults up to this number are drawn as letters: a lone dot is overlooked.
const FEW: usize = 8;
/// Columns left of the picture.
const MARGIN: usize = 11;

/// Pictures of both sides of a comparison on one scale, read from its recordings: of the mapping that the first finding
/// speaks about and of one like it on the other side. Empty if the recordings have no mappings or faults.
pub fn pictures(comparison: &Comparison, style: &Style) -> pagelab_analysis::Result<String> {
    let [base, test] = of_comparison(comparison)?;
    let title = |name: &str, label: &str| {
        if label.is_empty() || label == name { name.to_owned() } else { format!("{name} ({label})") }
    };
    let named = [(title("base", &comparison.base.label), base), (title("test", &comparison.test.label), test)];
    let maps: Vec<(String, &FaultMap)> =
        named.iter().filter_map(|(title, map)| Some((title.clone(), map.as_ref()?))).collect();
    Ok(fault_maps(&maps, style))
}

/// One picture with its caption.
pub fn fault_map(title: &str, map: &FaultMap, style: &Style) -> String {
    fault_maps(&[(title.to_owned(), map)], style)
}

/// Several pictures below each other with one scale of time, so that slopes compare.
pub fn fault_maps(maps: &[(String, &FaultMap)], style: &Style) -> String {
    let span = maps.iter().map(|(_, map)| map.span_ns).max().unwrap_or(1).max(1);
    let mut out = String::new();
    for (place, (title, map)) in maps.iter().enumerate() {
        if place > 0 {
            out.push('\n');
        }
        out.push_str(&heading(title, map, style));
        out.push_str(&picture(map, span, style));
        out.push_str(&wrap(&caption(map), style.width, "  ", "  "));
    }
    out
}

fn heading(title: &str, map: &FaultMap, style: &Style) -> String {
    let text = format!("{title}: {}", map.what);
    let mut out = wrap(&text, style.width, "", "  ");
    if style.colour {
        out = format!("{}\n", style.heading(out.trim_end()));
    }
    out
}

fn picture(map: &FaultMap, span: i64, style: &Style) -> String {
    let columns = style.width.saturating_sub(MARGIN + 2).max(20);
    let rows = style.height.max(4);
    let canvas = filled(map, span, columns, rows, style.glyphs);
    let (bar, tick, corner, line, cross) = match style.glyphs {
        Glyphs::Braille => ('\u{2502}', '\u{2524}', '\u{2514}', '\u{2500}', '\u{252c}'),
        Glyphs::Ascii => ('|', '+', '+', '-', '+'),
    };
    let mut out = String::new();
    let labels = heights(map.len, rows);
    for row in 0..rows {
        let label = labels.iter().find(|(at, _)| *at == row).map(|(_, text)| text.as_str());
        let edge = if label.is_some() { tick } else { bar };
        let text = format!("{:>width$} {edge}{}", label.unwrap_or(""), canvas.row(row), width = MARGIN - 2);
        let _ = writeln!(out, "{}", text.trim_end());
    }
    let (axis_line, axis_labels) = time_axis(span, columns, line, cross);
    let _ = writeln!(out, "{:>width$} {corner}{axis_line}", "", width = MARGIN - 2);
    let _ = writeln!(out, "{:>width$}{axis_labels}", "", width = MARGIN);
    out
}

fn filled(map: &FaultMap, span: i64, columns: usize, rows: usize, glyphs: Glyphs) -> Canvas {
    let mut canvas = Canvas::new(columns, rows, glyphs);
    let few = map.fills() <= FEW;
    let length = map.len.max(1) as f64;
    for point in &map.points {
        let (x, y) = (point.t_ns as f64 / span as f64, point.offset as f64 / length);
        match point.kind {
            PointKind::Map | PointKind::Unmap => {}
            PointKind::Fault if few => canvas.letter(x, y, 'o'),
            PointKind::Fault => canvas.dot(x, y),
            PointKind::Protection => canvas.letter(x, y, 'x'),
        }
    }
    // Last, so that the call is never hidden behind the fault that follows at once.
    for point in map.points.iter().filter(|point| point.kind == PointKind::Map) {
        canvas.letter(point.t_ns as f64 / span as f64, point.offset as f64 / length, 'm');
    }
    canvas
}

/// Labels of the vertical axis by row: the length, its half and the start.
fn heights(len: u64, rows: usize) -> Vec<(usize, String)> {
    vec![(0, format!("+{}", bytes(len))), (rows / 2, format!("+{}", bytes(len / 2))), (rows - 1, "start".to_owned())]
}

/// The line with its ticks and the labels below it.
fn time_axis(span: i64, columns: usize, line: char, cross: char) -> (String, String) {
    let step = axis::step(span as f64, (columns / 14).max(1));
    let mut marks: Vec<char> = vec![line; columns];
    let mut labels = String::new();
    let mut tick = 0u32;
    loop {
        let at = f64::from(tick) * step;
        let column = (at / span as f64 * columns as f64) as usize;
        if at > span as f64 * 1.000_001 || column >= columns {
            break;
        }
        let label = if tick == 0 { "0".to_owned() } else { duration(at) };
        if let Some(mark) = marks.get_mut(column) {
            *mark = cross;
        }
        let length = labels.chars().count();
        if column >= length && column + label.len() <= columns + 1 {
            labels.push_str(&" ".repeat(column - length));
            labels.push_str(&label);
        }
        tick += 1;
    }
    (marks.into_iter().collect(), labels)
}

fn caption(map: &FaultMap) -> String {
    let mut parts = Vec::new();
    let fills = map.fills() as u64;
    let faults = if fills == 1 { "1 fault".to_owned() } else { format!("{} faults", count(fills)) };
    let slots = map.len.div_ceil(map.huge_bytes.max(1));
    let room = map.len / map.page_bytes.max(1);
    parts.push(match fills {
        0..=2 if slots <= 2 => format!("{faults} for {}: a huge page", bytes(map.len)),
        n if n * 8 >= room => format!("{faults} in {}, page by page", duration(map.span_ns as f64)),
        _ => format!("{faults} in {}", duration(map.span_ns as f64)),
    });
    if fills > 2
        && let Some(order) = &map.order
    {
        parts.push(format!("{order} order"));
    }
    let end = map.start.saturating_add(map.len);
    parts.push(format!("addresses {:#x} to {end:#x}", map.start));
    if map.len < map.mapping_len {
        parts.push(format!(
            "one of the {} slots of a mapping of {}",
            count(map.mapping_len / map.huge_bytes.max(1)),
            bytes(map.mapping_len)
        ));
    }
    if map.mapped_before_ns > 0 {
        parts.push(format!("mapped {} earlier", duration(map.mapped_before_ns as f64)));
    }
    let of_class =
        format!("one of {} such mappings with {} faults", count(map.class_mappings), count(map.class_faults));
    parts.push(of_class);
    let mut legend = Vec::new();
    if map.points.iter().any(|point| point.kind == PointKind::Map) {
        legend.push("m the mmap call");
    }
    if (1..=FEW as u64).contains(&fills) {
        legend.push("o a fault");
    }
    if map.points.iter().any(|point| point.kind == PointKind::Protection) {
        legend.push("x a fault on a page that was there");
    }
    let legend = if legend.is_empty() { String::new() } else { format!(" ({})", legend.join(", ")) };
    format!("{}.{legend}", parts.join(", "))
}
