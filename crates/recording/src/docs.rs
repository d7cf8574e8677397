//! Documentation made from the registry.

use std::fmt::Write;

use crate::tables::{self, ColumnDef, TableDef};

/// The tables as Markdown, for `docs/recording.md`.
pub fn tables_markdown() -> String {
    let mut out = String::new();
    for table in tables::all() {
        // Writing to a string cannot fail.
        let _ = write!(out, "### `{}`\n\n{}\n\n", table.name, table.help);
        out.push_str("| column | type | unit | null | what it is |\n|---|---|---|---|---|\n");
        for column in table.columns {
            let ColumnDef { name, ty, unit, nullable, help, .. } = column;
            let null = if *nullable { "may be" } else { "" };
            let _ = writeln!(out, "| `{name}` | {} | {unit} | {null} | {} |", ty.word(), help.replace('|', "\\|"));
        }
        out.push('\n');
    }
    out
}

/// One line per column for a table, as SQL comments: `COMMENT ON COLUMN faults.ts IS '...'`.
pub fn sql_comments(table: &TableDef) -> Vec<String> {
    let quoted = |text: &str| text.replace('\'', "''");
    let columns = table.columns.iter().map(|c| {
        let unit = if c.unit.is_empty() { String::new() } else { format!(" [{}]", c.unit) };
        format!("COMMENT ON COLUMN {}.{} IS '{}{unit}'", table.name, c.name, quoted(c.help))
    });
    std::iter::once(format!("COMMENT ON TABLE {} IS '{}'", table.name, quoted(table.help))).chain(columns).collect()
}
