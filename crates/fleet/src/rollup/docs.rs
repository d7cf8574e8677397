//! The page that lists the tables, printed from their declaration.

use std::fmt::Write as _;

use super::tables::{ColumnType, TABLES};

/// The page `docs/fleet-tables.md`.
pub fn markdown() -> String {
    let mut page = String::from(
        "<!-- Written by `make docs` from crates/fleet/src/rollup/tables.rs. -->\n\
         # The tables of a compacted fleet\n\n\
         `FLEET/day=YYYY-MM-DD/TABLE.parquet`, written by `pagelab fleet compact`, plain Parquet for any program. Every column may be null: what \
         could not be measured is, and never 0.\n",
    );
    for table in TABLES {
        let _ = write!(
            page,
            "\n## {}\n\n{} Sorted by {}.\n\n| column | type | unit | |\n|---|---|---|---|\n",
            table.name,
            table.help,
            table.order.join(", ")
        );
        for column in table.columns {
            let ty = match column.ty {
                ColumnType::Text => "text",
                ColumnType::I64 => "i64",
                ColumnType::U64 => "u64",
                ColumnType::F64 => "f64",
                ColumnType::Bool => "bool",
            };
            let _ = writeln!(page, "| `{}` | {ty} | {} | {} |", column.name, column.unit, column.help);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use std::fs;

    #[test]
    fn docs_page() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fleet-tables.md");
        if std::env::var_os("PAGELAB_BLESS").is_some() {
            fs::write(path, super::markdown()).expect("docs/ is there");
        }
        let found = fs::read_to_string(path).unwrap_or_default();
        assert_eq!(found, super::markdown(), "type: make docs");
    }
}
