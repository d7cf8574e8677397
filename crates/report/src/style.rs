//! How to draw: width, characters, colour.

use std::io::IsTerminal;

/// Characters that pictures may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glyphs {
    /// Braille dots and box drawing.
    Braille,
    /// ASCII only.
    Ascii,
}

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns of text; at least 40 are assumed.
    pub width: usize,
    /// Rows of a picture, its axis not counted.
    pub height: usize,
    /// Characters of pictures.
    pub glyphs: Glyphs,
    /// Whether headings are set off by escape sequences.
    pub colour: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 100, height: 12, glyphs: Glyphs::Ascii, colour: false }
    }
}

impl Style {
    /// The style that the environment asks for. `width` is the terminal's, `None` if unknown or not a terminal;
    /// `terminal` says whether the output is one.
    ///
    /// Braille needs a UTF-8 locale (`LC_ALL`, `LC_CTYPE`, `LANG`, the first that is set). Colour needs a terminal that
    /// is not `dumb` and no `NO_COLOR` with a value (<https://no-color.org>).
    pub fn detect(width: Option<usize>, terminal: bool) -> Self {
        Self::from_environment(width, terminal, |name| std::env::var(name).ok())
    }

    /// [`Style::detect`] with the environment given.
    pub fn from_environment(width: Option<usize>, terminal: bool, var: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| var(name).filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        let utf8 = locale.to_ascii_uppercase().replace('-', "").contains("UTF8");
        let dumb = set("TERM").is_none_or(|term| term == "dumb");
        let columns = set("COLUMNS").and_then(|text| text.parse().ok());
        Self {
            width: width.or(columns).unwrap_or(100).clamp(40, 160),
            height: 12,
            glyphs: if utf8 && !(terminal && dumb) { Glyphs::Braille } else { Glyphs::Ascii },
            colour: terminal && !dumb && set("NO_COLOR").is_none(),
        }
    }

    /// The style for standard output as it is.
    pub fn of_stdout() -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self::detect(terminal.then(terminal_width).flatten(), terminal)
    }

    /// A heading, bold where colour is allowed.
    pub(crate) fn heading(&self, text: &str) -> String {
        if self.colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Columns of the terminal on standard output.
fn terminal_width() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one winsize through the pointer, which points at one for the length of the call.
    let done = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (done == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(terminal: bool, vars: &[(&str, &str)]) -> Style {
        Style::from_environment(None, terminal, |name| {
            vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_decides() {
        let plain = style(false, &[]);
        assert_eq!((plain.glyphs, plain.colour, plain.width), (Glyphs::Ascii, false, 100));
        let terminal = style(true, &[("LANG", "C.UTF-8"), ("TERM", "xterm"), ("COLUMNS", "72")]);
        assert_eq!((terminal.glyphs, terminal.colour, terminal.width), (Glyphs::Braille, true, 72));
        let no_colour = style(true, &[("LANG", "en_US.utf8"), ("TERM", "xterm"), ("NO_COLOR", "1")]);
        assert_eq!((no_colour.glyphs, no_colour.colour), (Glyphs::Braille, false));
        let dumb = style(true, &[("LANG", "C.UTF-8"), ("TERM", "dumb")]);
        assert_eq!((dumb.glyphs, dumb.colour), (Glyphs::Ascii, false));
        let overruled = style(false, &[("LC_ALL", "C"), ("LANG", "C.UTF-8")]);
        assert_eq!(overruled.glyphs, Glyphs::Ascii, "LC_ALL comes before LANG");
    }
}
