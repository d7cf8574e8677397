//! Flame graphs: the functions' shares as widths, callers below their callees.

use inferno::flamegraph::color::{BasicPalette, MultiPalette, Palette};
use inferno::flamegraph::{Options, from_lines};

/// Frames narrower than this are left out, in per cent of the width: nobody sees them, and they are most of the file.
const MIN_WIDTH_PCT: f64 = 0.05;

/// The text of a flame graph outside its frames.
#[derive(Debug, Clone, Copy)]
pub struct FlameGraph<'a> {
    /// Above it.
    pub title: &'a str,
    /// Below the title.
    pub subtitle: &'a str,
    /// What widths count, such as `ns`.
    pub unit: &'a str,
    /// Waiting and not work: in cold colours, as off-CPU flame graphs are drawn everywhere.
    pub waiting: bool,
}

/// Draws folded stacks, in the order of their text, as SVG that can be searched and zoomed into with a browser. The same stacks
/// give the same bytes.
///
/// # Errors
///
/// If no line has a stack and a count.
pub fn flame_graph(lines: &[String], graph: &FlameGraph<'_>) -> std::io::Result<String> {
    let mut options = Options::default();
    graph.title.clone_into(&mut options.title);
    options.subtitle = (!graph.subtitle.is_empty()).then(|| graph.subtitle.to_owned());
    graph.unit.clone_into(&mut options.count_name);
    options.min_width = MIN_WIDTH_PCT;
    options.colors =
        if graph.waiting { Palette::Basic(BasicPalette::Blue) } else { Palette::Multi(MultiPalette::Java) };
    // Colours are drawn at random otherwise.
    options.deterministic = true;
    let mut svg = Vec::new();
    from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)?;
    String::from_utf8(svg).map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: FlameGraph<'_> = FlameGraph { title: "a < b", subtitle: "", unit: "ns", waiting: false };

    #[test]
    fn widths_are_shares_and_repeat() {
        let lines = ["fio;main;pread64_[k] 30", "fio;main;write_[k] 10"].map(str::to_owned);
        let text = flame_graph(&lines, &GRAPH).expect("drawn");
        for expected in
            ["<title>pread64 (30 ns, 75.00%)", "<title>write (10 ns, 25.00%)", "main (40 ns, 100.00%)", "a &lt; b"]
        {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert_eq!(text, flame_graph(&lines, &GRAPH).expect("drawn again"));
        assert_ne!(text, flame_graph(&lines, &FlameGraph { waiting: true, ..GRAPH }).expect("drawn"), "other colours");
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        assert!(flame_graph(&[], &GRAPH).is_err());
    }
}
