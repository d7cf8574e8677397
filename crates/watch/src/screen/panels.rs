//! The four lists: page faults by kind, system calls, waits, threads.

use pagelab_vocab::terminal::escape;
use pagelab_vocab::units::quantity;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table};

use super::draw::{Look, bar, bold, titled};
use super::view::{Panel, View};
use crate::history::LENGTH;
use crate::second::{Call, Faults, Second, Thread, WaitRow};

/// Draws one of the lists.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &View, second: &Second, panel: Panel, look: Look) {
    let (is_chosen, order) = (panel == view.panel, view.order(panel));
    let title = |name: &str| format!(" {} {name} by {order} ", panel.index() + 1);
    match panel {
        Panel::Faults => faults(frame, area, view, second, look, is_chosen),
        Panel::Calls => calls(frame, area, second, order, titled(title("System calls"), is_chosen, look)),
        Panel::Waits => waits(frame, area, second, order, titled(title("Waits"), is_chosen, look)),
        Panel::Threads => threads(frame, area, second, order, titled(title("Threads"), is_chosen, look)),
    }
}

/// A time for each second.
fn time(second: &Second, ns: u64) -> String {
    if ns == 0 { "-".to_owned() } else { format!("{}/s", quantity(second.per_s(ns), "ns")) }
}

fn rate(per_s: f64) -> String {
    if per_s == 0.0 { "-".to_owned() } else { quantity(per_s, "/s") }
}

fn right(text: String) -> Line<'static> {
    Line::from(text).right_aligned()
}

fn table<'a>(rows: impl Iterator<Item = Row<'a>>, heads: &[&'a str], widths: &[Constraint]) -> Table<'a> {
    let heads = heads.iter().enumerate().map(|(place, head)| {
        let line = Line::from(*head);
        if place == 0 { line } else { line.right_aligned() }
    });
    Table::new(rows, widths.iter().copied()).header(Row::new(heads.collect::<Vec<_>>()).style(bold())).column_spacing(1)
}

fn missing(frame: &mut Frame<'_>, area: Rect, second: &Second, block: ratatui::widgets::Block<'_>) {
    let reason = second.counts_missing.as_deref().unwrap_or("none");
    frame.render_widget(Paragraph::new(format!("not counted: {}", escape(reason))).block(block), area);
}

fn kinds(faults: &Faults) -> [(&'static str, u64); 6] {
    [
        ("read", faults.read),
        ("write", faults.write),
        ("execute", faults.execute),
        ("protection", faults.protection),
        ("by the kernel", faults.kernel),
        ("major, of all", faults.major),
    ]
}

fn faults(frame: &mut Frame<'_>, area: Rect, view: &View, second: &Second, look: Look, is_chosen: bool) {
    let name = format!(" {} Page faults ", Panel::Faults.index() + 1);
    let Some(faults) = &second.faults else {
        return missing(frame, area, second, titled(name, is_chosen, look));
    };
    let title = format!("{name}{} ", rate(faults.per_s));
    let room = usize::from(area.width).saturating_sub(28);
    let line = |(kind, count): (&'static str, u64)| {
        let share = count as f64 / faults.total.max(1) as f64;
        let figures = format!("{kind:<14} {:>11} ", rate(second.per_s(count)));
        Line::from(vec![Span::raw(figures), Span::styled(bar(room, share), Style::new())])
    };
    let mut lines: Vec<Line<'_>> = kinds(faults).into_iter().map(line).collect();
    let minute = view.history.spark(room.min(LENGTH), |point| point.faults);
    lines.push(Line::from(format!("{:<26} {minute}", "the last minute")));
    frame.render_widget(Paragraph::new(lines).block(titled(title, is_chosen, look)), area);
}

fn calls(frame: &mut Frame<'_>, area: Rect, second: &Second, order: &str, block: ratatui::widgets::Block<'_>) {
    let Some(calls) = &second.calls else { return missing(frame, area, second, block) };
    let mut calls: Vec<&Call> = calls.iter().collect();
    match order {
        "rate" => calls.sort_by_key(|call| std::cmp::Reverse(call.calls)),
        "cpu" => calls.sort_by_key(|call| std::cmp::Reverse(call.cpu_ns)),
        _ => {}
    }
    let row = |call: &Call| {
        let each = if call.calls == 0 { "-".to_owned() } else { quantity(call.ns as f64 / call.calls as f64, "ns") };
        let figures = [rate(call.per_s), time(second, call.ns), time(second, call.cpu_ns), each];
        Row::new([Line::from(call.name)].into_iter().chain(figures.map(right)).collect::<Vec<_>>())
    };
    let rows = calls.into_iter().take(usize::from(area.height)).map(row);
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(10),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(8),
    ];
    frame.render_widget(table(rows, &["call", "rate", "time", "on a CPU", "each"], &widths).block(block), area);
}

fn waits(frame: &mut Frame<'_>, area: Rect, second: &Second, order: &str, block: ratatui::widgets::Block<'_>) {
    let mut waits: Vec<&WaitRow> = second.waits.iter().collect();
    if order == "count" {
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.times));
    }
    let row = |wait: &WaitRow| {
        let kind = match (wait.iowait, wait.active) {
            (true, _) => " for I/O",
            (false, true) => " uninterruptible",
            _ => "",
        };
        let name = format!("{}{kind}", wait.call.unwrap_or("in no call"));
        let ended = rate(second.per_s(wait.times));
        let figures = [time(second, wait.ns), ended, wait.woken_by.unwrap_or("-").to_owned()];
        Row::new([Line::from(name)].into_iter().chain(figures.map(right)).collect::<Vec<_>>())
    };
    let rows = waits.into_iter().take(usize::from(area.height)).map(row);
    let widths = [Constraint::Fill(1), Constraint::Length(11), Constraint::Length(10), Constraint::Length(8)];
    frame.render_widget(table(rows, &["waiting in", "time", "ended", "woken by"], &widths).block(block), area);
}

fn threads(frame: &mut Frame<'_>, area: Rect, second: &Second, order: &str, block: ratatui::widgets::Block<'_>) {
    let mut threads: Vec<&Thread> = second.threads.iter().collect();
    match order {
        "ready" => threads.sort_by_key(|thread| std::cmp::Reverse(thread.ready_ns)),
        "off" => threads.sort_by_key(|thread| std::cmp::Reverse(thread.off_ns)),
        _ => {}
    }
    let row = |thread: &Thread| {
        let number = |id: Option<u32>| id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let times = [thread.run_ns, thread.ready_ns, thread.off_ns].map(|ns| time(second, ns));
        let figures = [number(thread.tid)].into_iter().chain(times).map(right);
        Row::new([Line::from(escape(&thread.comm))].into_iter().chain(figures).collect::<Vec<_>>())
    };
    let rows = threads.into_iter().take(usize::from(area.height)).map(row);
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(8),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(11),
    ];
    frame.render_widget(table(rows, &["thread", "tid", "run", "ready", "off"], &widths).block(block), area);
}
