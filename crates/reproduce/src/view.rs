//! Views: queries that several figures share parts of.

/// A named query.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// Its name, used like that of a table.
    pub name: String,
    /// What it stands for; may use views before it.
    pub query: String,
}

/// A query with the views in front of it that it uses, directly or by way of another view.
pub(crate) fn with_views(query: &str, views: &[View]) -> String {
    let query = query.trim();
    let mut used: Vec<&View> = Vec::new();
    for view in views.iter().rev() {
        if mentions(query, &view.name) || used.iter().any(|later| mentions(&later.query, &view.name)) {
            used.push(view);
        }
    }
    if used.is_empty() {
        return query.to_owned();
    }
    let named: Vec<String> =
        used.iter().rev().map(|view| format!("{} AS (\n  {}\n)", view.name, view.query.trim())).collect();
    let named = named.join(",\n");
    match query.get(..5).filter(|word| word.eq_ignore_ascii_case("with ")) {
        Some(word) => format!("WITH {named},\n{}", query[word.len()..].trim_start()),
        None => format!("WITH {named}\n{query}"),
    }
}

/// Whether a name stands in a query as a word of its own.
fn mentions(query: &str, name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    query.match_indices(name).any(|(at, _)| {
        let before = query.get(..at).and_then(|text| text.chars().next_back());
        let after = query.get(at + name.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(inner) && !after.is_some_and(inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_gets_the_views_that_it_uses_and_no_others() {
        let view = |name: &str, query: &str| View { name: name.into(), query: query.into() };
        let views = [view("calls", "SELECT 1"), view("other", "SELECT 2"), view("writes", "SELECT * FROM calls")];
        assert_eq!(with_views("SELECT 5 FROM recalls", &views), "SELECT 5 FROM recalls");
        assert_eq!(
            with_views("SELECT * FROM writes", &views),
            "WITH calls AS (\n  SELECT 1\n),\nwrites AS (\n  SELECT * FROM calls\n)\nSELECT * FROM writes"
        );
        assert_eq!(
            with_views("with x AS (SELECT 3) SELECT * FROM x, other", &views),
            "WITH other AS (\n  SELECT 2\n),\nx AS (SELECT 3) SELECT * FROM x, other"
        );
    }
}
