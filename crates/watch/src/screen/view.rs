//! What is on the screen: the second shown, the panel chosen, the orders of the lists; and what keys change of it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::history::History;
use crate::second::Second;

/// A list that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Panel {
    Faults,
    Calls,
    Waits,
    Threads,
}

impl Panel {
    /// In the order of their keys.
    pub(crate) const ALL: [Self; 4] = [Self::Faults, Self::Calls, Self::Waits, Self::Threads];

    /// Its place among all.
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// What its rows can be ordered by.
    pub(crate) fn orders(self) -> &'static [&'static str] {
        match self {
            Self::Faults => &["kind"],
            Self::Calls => &["time", "rate", "cpu"],
            Self::Waits => &["time", "count"],
            Self::Threads => &["run", "ready", "off"],
        }
    }
}

/// What a key asks of the rest of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Nothing,
    /// Something else has written to the terminal.
    Redraw,
    End,
}

/// What is on the screen.
#[derive(Debug)]
pub(crate) struct View {
    pub target: String,
    /// No colours.
    pub plain: bool,
    pub second: Option<Second>,
    pub history: History,
    pub panel: Panel,
    orders: [usize; Panel::ALL.len()],
    pub is_paused: bool,
    pub shows_help: bool,
    /// The user wants to leave, and the target has not ended yet.
    pub is_ending: bool,
}

impl View {
    pub(crate) fn new(target: String, plain: bool) -> Self {
        Self {
            target,
            plain,
            second: None,
            history: History::default(),
            panel: Panel::Calls,
            orders: [0; Panel::ALL.len()],
            is_paused: false,
            shows_help: false,
            is_ending: false,
        }
    }

    /// Takes a second. The last minute goes on during a pause.
    pub(crate) fn take(&mut self, second: Second) {
        self.history.push(&second);
        if !self.is_paused {
            self.second = Some(second);
        }
    }

    /// What a panel's rows are ordered by.
    pub(crate) fn order(&self, panel: Panel) -> &'static str {
        panel.orders()[self.orders[panel.index()]]
    }

    fn change_order(&mut self, step: usize) {
        let orders = self.panel.orders().len();
        let order = &mut self.orders[self.panel.index()];
        *order = (*order + step) % orders;
    }

    fn change_panel(&mut self, step: usize) {
        self.panel = Panel::ALL[(self.panel.index() + step) % Panel::ALL.len()];
    }

    /// Takes a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Asked {
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if with_control => return self.end(),
            KeyCode::Char('l') if with_control => return Asked::Redraw,
            KeyCode::Char('q') => return self.end(),
            KeyCode::Esc => self.shows_help = false,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('?' | 'h') => self.shows_help = !self.shows_help,
            KeyCode::Char(digit @ '1'..='4') => self.panel = Panel::ALL[digit as usize - '1' as usize],
            KeyCode::Right | KeyCode::Tab => self.change_panel(1),
            KeyCode::Left | KeyCode::BackTab => self.change_panel(Panel::ALL.len() - 1),
            KeyCode::Down => self.change_order(1),
            KeyCode::Up => self.change_order(self.panel.orders().len() - 1),
            _ => {}
        }
        Asked::Nothing
    }

    fn end(&mut self) -> Asked {
        self.is_ending = true;
        Asked::End
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(view: &mut View, code: KeyCode) -> Asked {
        view.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn keys_choose_panels_and_orders() {
        let mut view = View::new("x".to_owned(), false);
        assert_eq!((view.panel, view.order(Panel::Calls)), (Panel::Calls, "time"));
        press(&mut view, KeyCode::Down);
        assert_eq!(view.order(Panel::Calls), "rate");
        press(&mut view, KeyCode::Up);
        press(&mut view, KeyCode::Up);
        assert_eq!(view.order(Panel::Calls), "cpu");
        press(&mut view, KeyCode::Char('4'));
        press(&mut view, KeyCode::Right);
        assert_eq!(view.panel, Panel::Faults);
        press(&mut view, KeyCode::Left);
        assert_eq!((view.panel, view.order(Panel::Threads)), (Panel::Threads, "run"));
        assert_eq!(press(&mut view, KeyCode::Char('q')), Asked::End);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(view.key(control_c), Asked::End);
    }

    #[test]
    fn a_pause_keeps_the_second_and_the_minute_goes_on() {
        let mut view = View::new("x".to_owned(), false);
        view.take(Second { elapsed_s: 1.0, seconds: 1.0, run_ns: 5, ..Second::default() });
        press(&mut view, KeyCode::Char('p'));
        view.take(Second { elapsed_s: 2.0, seconds: 1.0, run_ns: 5, ..Second::default() });
        assert_eq!(view.second.as_ref().map(|second| second.elapsed_s), Some(1.0));
        assert_eq!(view.history.spark(60, |point| point.run).chars().count(), 2);
    }
}
