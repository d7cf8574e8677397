//! Text broken into lines.

use pagelab_vocab::terminal::escape;

/// Breaks `text` so that lines fit `width`; the first begins with `first`, the others with `rest`. Words longer than a
/// line stay whole. Words are escaped: they name what recordings name.
pub(crate) fn wrap(text: &str, width: usize, first: &str, rest: &str) -> String {
    let mut out = String::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace().map(escape) {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            out.push_str(line.trim_end());
            out.push('\n');
            rest.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(&word);
        empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out
}

/// Places of a label's column, so that what follows lines up.
pub(crate) const LABEL: usize = 12;

/// A paragraph behind a label.
pub(crate) fn labelled(label: &str, text: &str, width: usize) -> String {
    let rest = " ".repeat(LABEL + 2);
    wrap(text, width, &format!("  {label:<LABEL$}"), &rest)
}

/// A list behind a label, each item with its number or a dash.
pub(crate) fn list(label: &str, items: &[String], numbered: bool, width: usize) -> String {
    let mut out = String::new();
    for (place, item) in items.iter().enumerate() {
        let label = if place == 0 { label } else { "" };
        let mark = if numbered { format!("{}. ", place + 1) } else { "- ".to_owned() };
        let rest = " ".repeat(LABEL + 2 + mark.len());
        out.push_str(&wrap(item, width, &format!("  {label:<LABEL$}{mark}"), &rest));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_nothing_is_lost() {
        let text = "one two three four five six seven eight nine ten";
        let wrapped = wrap(text, 20, "> ", "  ");
        assert!(wrapped.lines().all(|line| line.chars().count() <= 20), "{wrapped}");
        let words: Vec<&str> = wrapped.split_whitespace().filter(|word| *word != ">").collect();
        assert_eq!(words.join(" "), text);
        assert_eq!(wrap("averylongwordthatdoesnotfit", 5, "", ""), "averylongwordthatdoesnotfit\n");
        assert_eq!(wrap("", 5, "", ""), "\n");
    }
}
