//! The picture: a head line, the budget of time, the last minute, the panels, and a line of keys.
//!
//! Small terminals show the panel that is chosen, large ones all four. Names were chosen by other programs: whatever a terminal would
//! act on is escaped before it becomes a cell, and what does not fit is cut by cells, so that wide letters push nothing out.

use pagelab_vocab::terminal::escape;
use pagelab_vocab::units::{quantity, significant};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use super::panels;
use super::view::{Panel, View};
use crate::history::{LENGTH, Point};
use crate::second::Second;

/// The least that is drawn on.
const LEAST: (u16, u16) = (20, 5);
/// From here on all panels are shown.
const LARGE: (u16, u16) = (110, 28);
/// Components listed below the states, at most.
const COMPONENTS: u16 = 8;

const HELP: &str = "\
q, Ctrl-C   quit; a command gets SIGINT
p, space    pause: keep this second
1 2 3 4     faults, calls, waits, threads
left right  the panel before, the next one
up down     order of its rows
Ctrl-L      draw everything again
?           this help

run: on a CPU; ready: waiting for one; off: waiting for something
else. Times are of all tasks together: 2 s/s are two tasks.
own: this program's share of the machine's CPU time.";

/// The styles, without colours where the user wants none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    plain: bool,
}

impl Look {
    fn colour(self, colour: Color) -> Style {
        if self.plain { Style::new() } else { Style::new().fg(colour) }
    }

    /// Of a state, by its word.
    pub(super) fn state(self, state: &str) -> Style {
        match state {
            "run" => self.colour(Color::Green),
            "ready" => self.colour(Color::Yellow),
            _ => self.colour(Color::Blue),
        }
    }

    /// Of what is less important.
    pub(super) fn quiet(self) -> Style {
        self.colour(Color::DarkGray)
    }
}

/// Bold, for titles.
pub(super) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// A bar of eighths of a cell.
pub(super) fn bar(width: usize, share: f64) -> String {
    const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(PARTS[eighths % 8]);
    }
    bar
}

/// A title in a line above what belongs to it.
pub(super) fn titled(title: String, is_chosen: bool, look: Look) -> Block<'static> {
    let style = if is_chosen { bold().add_modifier(Modifier::REVERSED) } else { bold() };
    Block::new().borders(Borders::TOP).border_style(look.quiet()).title(Span::styled(title, style))
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let (area, look) = (frame.area(), Look { plain: view.plain });
    if area.width < LEAST.0 || area.height < LEAST.1 {
        frame.render_widget(Paragraph::new("too small"), area);
        return;
    }
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)]).areas(area);
    frame.render_widget(head_line(view, head.width), head);
    frame.render_widget(foot_line(view, look), foot);
    match &view.second {
        None => frame.render_widget(Paragraph::new("the first second has not passed yet"), body),
        Some(second) if area.width >= LARGE.0 && area.height >= LARGE.1 => large(frame, body, view, second, look),
        Some(second) => small(frame, body, view, second, look),
    }
    if view.shows_help {
        help(frame, body, look);
    }
}

fn help(frame: &mut Frame<'_>, body: Rect, look: Look) {
    let lines = HELP.lines().count() as u16 + 1;
    let area = Rect { height: body.height.min(lines), ..body };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP).block(titled(" Keys ".to_owned(), false, look)), area);
}

/// What is told at the right of the head line, what matters most first.
fn head_figures(view: &View) -> Vec<String> {
    let mut figures = Vec::new();
    if let Some(Second { elapsed_s, cost, .. }) = &view.second {
        figures.push(format!("  {elapsed_s:.0} s  own {} %", significant(cost.cpu_pct, 2)));
    }
    for (is_so, word) in [(view.is_paused, "  PAUSED"), (view.is_ending, "  ENDING")] {
        if is_so {
            figures.push(word.to_owned());
        }
    }
    if let Some(Second { cost, skipped, .. }) = &view.second {
        figures.extend(cost.bpf_pct.map(|pct| format!("  BPF {} %", significant(pct, 2))));
        if *skipped > 0 {
            figures.push(format!("  {skipped} s left out"));
        }
    }
    figures
}

/// Figures are at the right, where they stay when the target's name is long, as far as they leave it half of the line.
fn head_line(view: &View, width: u16) -> Paragraph<'static> {
    let mut right = String::new();
    for figure in head_figures(view) {
        if right.len() + figure.len() <= usize::from(width) / 2 {
            right.push_str(&figure);
        }
    }
    let room = usize::from(width).saturating_sub(right.len());
    let cut = cut(&format!("pagelab watch {}", escape(&view.target)), room);
    let gap = room.saturating_sub(Span::raw(cut.as_str()).width());
    Paragraph::new(Line::styled(format!("{cut}{}{right}", " ".repeat(gap)), bold()))
}

/// As much of a text as fits into so many cells.
pub(super) fn cut(text: &str, cells: usize) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        out.push(letter);
        if Span::raw(out.as_str()).width() > cells {
            out.pop();
            break;
        }
    }
    out
}

fn foot_line(view: &View, look: Look) -> Paragraph<'static> {
    let order = format!("by {}", view.order(view.panel));
    Paragraph::new(Line::styled(format!("q quit  p pause  1-4 panel  up/down {order}  ? help"), look.quiet()))
}

fn small(frame: &mut Frame<'_>, body: Rect, view: &View, second: &Second, look: Look) {
    // Below the states as many components as leave half of the screen to the panel.
    let components = (body.height / 2).saturating_sub(4).min(COMPONENTS).min(second.components.len() as u16);
    let [budget, panel] = Layout::vertical([Constraint::Length(4 + components), Constraint::Min(0)]).areas(body);
    draw_budget(frame, budget, view, second, look);
    panels::draw(frame, panel, view, second, view.panel, look);
}

fn large(frame: &mut Frame<'_>, body: Rect, view: &View, second: &Second, look: Look) {
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(body);
    let components = COMPONENTS.max(second.components.len() as u16).min(body.height / 3);
    let [budget, minute, faults, threads] = Layout::vertical([
        Constraint::Length(4 + components),
        Constraint::Length(5),
        Constraint::Length(8),
        Constraint::Min(0),
    ])
    .areas(left);
    let [calls, waits] = Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(right);
    draw_budget(frame, budget, view, second, look);
    draw_minute(frame, minute, view, look);
    for (panel, area) in
        [(Panel::Faults, faults), (Panel::Threads, threads), (Panel::Calls, calls), (Panel::Waits, waits)]
    {
        panels::draw(frame, area, view, second, panel, look);
    }
}

fn states(second: &Second) -> [(&'static str, u64); 3] {
    [("run", second.run_ns), ("ready", second.ready_ns), ("off", second.off_ns)]
}

/// A row: name, time for each second, percent, bar, and where there is room the last minute.
fn budget_row(row: &BudgetRow<'_>, width: usize, second: &Second) -> Line<'static> {
    let BudgetRow { name, ns, style, minute, .. } = row;
    let figures = format!(" {:>11} {:>5.1} % ", format!("{}/s", quantity(second.per_s(*ns), "ns")), second.pct(*ns));
    let spark_cells = if minute.is_empty() { 0 } else { minute.chars().count() + 1 };
    let room = width.saturating_sub(NAME_CELLS + figures.len() + spark_cells);
    let share = *ns as f64 / second.lives_ns.max(1) as f64;
    let bar = bar(room, share);
    let gap = room.saturating_sub(bar.chars().count());
    let mut spans = vec![Span::raw(format!("{name:<NAME_CELLS$}")), Span::raw(figures), Span::styled(bar, *style)];
    if spark_cells > 0 {
        spans.push(Span::raw(" ".repeat(gap + 1)));
        spans.push(Span::styled(minute.clone(), *style));
    }
    Line::from(spans)
}

/// Cells for the name of a state or component.
const NAME_CELLS: usize = 16;

/// One of the rates of a second.
type Rate = fn(&Point) -> f64;

struct BudgetRow<'a> {
    name: &'a str,
    ns: u64,
    style: Style,
    minute: String,
}

fn draw_budget(frame: &mut Frame<'_>, area: Rect, view: &View, second: &Second, look: Look) {
    let width = usize::from(area.width);
    let spark = if width >= 90 {
        LENGTH / 2
    } else if width >= 70 {
        LENGTH / 4
    } else {
        0
    };
    let rates: [Rate; 3] = [|point| point.run, |point| point.ready, |point| point.off];
    let mut lines = Vec::new();
    for ((name, ns), rate) in states(second).into_iter().zip(rates) {
        let minute = if spark == 0 { String::new() } else { format!("{:>spark$}", view.history.spark(spark, rate)) };
        lines.push(budget_row(&BudgetRow { name, ns, style: look.state(name), minute }, width, second));
    }
    for one in &second.components {
        let row = BudgetRow {
            name: &format!(" {}", one.component),
            ns: one.ns,
            style: look.state(one.state),
            minute: String::new(),
        };
        lines.push(budget_row(&row, width, second));
    }
    let title = format!(" Time of {} tasks ", second.tasks);
    frame.render_widget(Paragraph::new(lines).block(titled(title, false, look)), area);
}

fn draw_minute(frame: &mut Frame<'_>, area: Rect, view: &View, look: Look) {
    let width = usize::from(area.width).saturating_sub(8).min(LENGTH);
    let rates: [(&'static str, Rate); 4] = [
        ("run", |point| point.run),
        ("ready", |point| point.ready),
        ("off", |point| point.off),
        ("faults", |point| point.faults),
    ];
    let line = |(name, rate): (&'static str, Rate)| {
        let spark = format!("{:>width$}", view.history.spark(width, rate));
        Line::from(vec![Span::raw(format!("{name:<8}")), Span::styled(spark, look.state(name))])
    };
    let lines: Vec<Line<'_>> = rates.into_iter().map(line).collect();
    frame.render_widget(Paragraph::new(lines).block(titled(" The last minute ".to_owned(), false, look)), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;
    use crate::second::{Call, Component, Cost, Faults, Thread, WaitRow};

    fn second() -> Second {
        let faults = Faults {
            total: 123_456,
            per_s: 123_456.0,
            read: 100_000,
            write: 23_456,
            execute: 0,
            protection: 0,
            kernel: 0,
            major: 7,
        };
        let component = |component, state, ns| Component { component, state, ns, pct: ns as f64 / 4e7 };
        let thread = |number: u32| Thread {
            pid: Some(4_194_304),
            tid: Some(number),
            comm: ["evil\u{1b}[2J\u{202e}", "漢字漢字漢字漢字", "worker"][number as usize % 3].to_owned(),
            run_ns: 1_000_000_000 / u64::from(number + 1),
            ready_ns: 0,
            off_ns: 5,
        };
        let wait = |call| WaitRow {
            call,
            off_state: "S",
            iowait: false,
            active: false,
            woken_by: Some("softirq"),
            times: 5,
            ns: 7,
        };
        Second {
            elapsed_s: 12_345.0,
            seconds: 1.0,
            tasks: 40,
            lives_ns: 4_000_000_000,
            run_ns: 1_500_000_000,
            ready_ns: 500_000_000,
            off_ns: 2_000_000_000,
            components: vec![
                component("off.dependent", "off", 2_000_000_000),
                component("run.program", "run", 1_500_000_000),
                component("ready.foreign", "ready", 500_000_000),
            ],
            faults: Some(faults),
            calls: Some(
                (0..80)
                    .map(|n| Call { name: "clock_nanosleep", calls: n, per_s: n as f64, ns: n, cpu_ns: 0 })
                    .collect(),
            ),
            waits: vec![wait(Some("epoll_pwait2")), wait(None)],
            threads: (0..90).map(thread).collect(),
            cost: Cost { cpu_ns: 1, cpu_pct: 0.42, bpf_ns: Some(1), bpf_pct: Some(1.5) },
            skipped: 2,
            ..Second::default()
        }
    }

    fn lines_of(view: &View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, view)).expect("it is drawn");
        let buffer = terminal.backend().buffer();
        (0..height).map(|y| (0..width).map(|x| buffer[(x, y)].symbol()).collect()).collect()
    }

    fn full() -> View {
        let mut view = View::new("postgres \u{1b}]0;title\u{7} 漢字 ".repeat(9), false);
        (0..70).for_each(|_| view.take(second()));
        view
    }

    fn press(view: &mut View, code: KeyCode) {
        view.key(KeyEvent::new(code, KeyModifiers::NONE));
    }

    #[test]
    fn every_size_shows_the_head_the_states_a_panel_and_the_keys() {
        for (width, height) in [(60, 15), (80, 24), (200, 60), (61, 100), (300, 15)] {
            for panel in ['1', '2', '3', '4'] {
                let mut view = full();
                press(&mut view, KeyCode::Char(panel));
                let lines = lines_of(&view, width, height);
                let text = lines.join("\n");
                assert!(!text.contains(|letter: char| letter != '\n' && pagelab_vocab::terminal::is_active(letter)));
                assert!(lines[0].starts_with("pagelab watch postgres"), "{text}");
                let figures = ["  12345 s  own 0.42 %", "  BPF 1.5 %", "  2 s left out"].concat();
                let fitting = if width > 100 { &figures[..] } else { &figures[..if width < 64 { 21 } else { 32 }] };
                assert!(lines[0].ends_with(fitting), "{width}x{height}\n{text}");
                for (line, begins) in [(2, "run  "), (3, "ready  "), (4, "off  ")] {
                    assert!(lines[line].starts_with(begins), "{width}x{height}\n{text}");
                }
                assert!(lines[2].contains("1.5 s/s  37.5 %"), "{text}");
                assert!(lines.last().is_some_and(|line| line.starts_with("q quit")), "{text}");
                let title = ["Page faults", "System calls", "Waits", "Threads"][panel as usize - '1' as usize];
                assert!(text.contains(title), "{width}x{height}\n{text}");
                let titles =
                    ["Page faults", "System calls", "Waits", "Threads"].iter().filter(|one| text.contains(**one));
                assert_eq!(titles.count(), if (width, height) == (200, 60) { 4 } else { 1 }, "{text}");
            }
        }
    }

    #[test]
    fn names_are_cleaned_and_wide_letters_push_nothing_out() {
        let mut view = full();
        press(&mut view, KeyCode::Char('4'));
        let text = lines_of(&view, 80, 24).join("\n");
        assert!(text.contains("evil\\u{1b}[2J"), "{text}");
        let columns = |name: &str| {
            let line = text.lines().find(|line| line.contains(name)).expect("the thread is shown").to_owned();
            // The cell behind a wide letter is drawn empty.
            line.trim_end().chars().count()
        };
        assert_eq!(columns("漢"), columns("worker"), "{text}");
    }

    #[test]
    fn help_pause_and_the_first_second_are_drawn() {
        let mut view = View::new("x".to_owned(), true);
        assert!(lines_of(&view, 60, 15)[1].starts_with("the first second"));
        view.take(second());
        press(&mut view, KeyCode::Char('p'));
        press(&mut view, KeyCode::Char('?'));
        let lines = lines_of(&view, 60, 15);
        assert!(lines[0].contains("PAUSED") && lines.iter().any(|line| line.starts_with("q, Ctrl-C")), "{lines:#?}");
        assert_eq!(lines_of(&view, 10, 3)[0].trim_end(), "too small");
    }

    #[test]
    fn no_color_means_none() {
        let coloured = |plain: bool| {
            let mut view = View::new("x".to_owned(), plain);
            view.take(second());
            let mut terminal = Terminal::new(TestBackend::new(200, 60)).expect("a terminal");
            terminal.draw(|frame| draw(frame, &view)).expect("it is drawn");
            let cells = terminal.backend().buffer().content();
            cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
        };
        assert!(coloured(false) && !coloured(true));
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!([bar(4, 0.0), bar(4, 0.5), bar(4, 2.0)], ["", "██", "████"]);
        assert_eq!(bar(1, 0.5), "▌");
    }
}
