//! Files and functions stay short enough to be read. Those that were longer when this test was added are in the lists
//! below and may only shrink: the test fails when one grows, and also when one has shrunk, so that the gain is kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// A longer file holds more than one concept. Tests at the end of a file do not count.
const FILE_LINES: usize = 900;
/// A longer function does more than one thing. Counted from the line of `fn` to the closing brace.
const FUNCTION_LINES: usize = 70;

/// Files that are longer, with their lines today.
const LONG_FILES: &[(&str, usize)] = &[];

/// Functions that are longer, `FILE: [TYPE::]NAME`, with their lines today.
const LONG_FUNCTIONS: &[(&str, usize)] = &[];

/// Files that a program writes, and folders that hold no source of ours.
const GENERATED: &[&str] = &["bpf/vmlinux.h"];
const SKIPPED: &[&str] = &["target", "node_modules"];

#[test]
fn files_are_at_most_900_lines() {
    let root = root();
    let lines = |path: &PathBuf| code_lines(&fs::read_to_string(path).expect("source is text"));
    let found = sources(&root, &["rs", "c", "h"]).into_iter().map(|path| (relative(&root, &path), lines(&path)));
    assert_only_listed(found, FILE_LINES, LONG_FILES, "LONG_FILES");
}

#[test]
fn functions_are_at_most_70_lines() {
    let root = root();
    let mut found = Vec::new();
    for path in sources(&root, &["rs"]) {
        let file = relative(&root, &path);
        let text = fs::read_to_string(&path).expect("source is text");
        let functions = functions(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        found.extend(functions.into_iter().map(|(name, lines)| (format!("{file}: {name}"), lines)));
    }
    assert!(found.len() > 1000, "only {} functions were found", found.len());
    assert_only_listed(found.into_iter(), FUNCTION_LINES, LONG_FUNCTIONS, "LONG_FUNCTIONS");
}

/// Lines of a file before the module of tests that ends it.
fn code_lines(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines
        .windows(2)
        .position(|two| two[0] == "#[cfg(test)]" && two[1].starts_with("mod ") && two[1].ends_with('{'));
    tests.unwrap_or(lines.len())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).expect("a file of the repository").display().to_string()
}

/// All files with one of the endings, generated ones left out.
fn sources(root: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository").flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let kind = entry.file_type().expect("the type of a file");
            if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                folders.push(path);
            } else if kind.is_file()
                && path.extension().is_some_and(|ending| endings.iter().any(|one| ending == *one))
                && !GENERATED.contains(&relative(root, &path).as_str())
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Every function in the text with its lines.
fn functions(text: &str) -> syn::Result<Vec<(String, usize)>> {
    let mut functions = Functions::default();
    functions.visit_file(&syn::parse_file(text)?);
    Ok(functions.found)
}

#[derive(Default)]
struct Functions {
    /// The type or trait around.
    around: Option<String>,
    found: Vec<(String, usize)>,
}

impl Functions {
    fn note(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let lines = block.brace_token.span.close().end().line - signature.fn_token.span.start().line + 1;
        let name = match &self.around {
            Some(around) => format!("{around}::{}", signature.ident),
            None => signature.ident.to_string(),
        };
        self.found.push((name, lines));
    }

    fn inside(&mut self, around: Option<String>, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.around, around);
        visit(self);
        self.around = before;
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let around = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        self.inside(around, |functions| visit::visit_item_impl(functions, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.inside(Some(item.ident.to_string()), |functions| visit::visit_item_trait(functions, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.note(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[track_caller]
fn assert_only_listed(
    found: impl Iterator<Item = (String, usize)>,
    limit: usize,
    listed: &[(&str, usize)],
    list: &str,
) {
    let complaints = complaints(found, limit, listed, list);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// What is longer than the limit and not listed, or listed with another length than it has.
fn complaints(
    found: impl Iterator<Item = (String, usize)>,
    limit: usize,
    listed: &[(&str, usize)],
    list: &str,
) -> Vec<String> {
    // If two have one name, in two modules of a file, the longer one counts.
    let mut long = BTreeMap::new();
    for (what, lines) in found.filter(|(_, lines)| *lines > limit) {
        let longest = long.entry(what).or_insert(lines);
        *longest = lines.max(*longest);
    }
    let listed: BTreeMap<&str, usize> = listed.iter().copied().collect();
    let mut complaints = Vec::new();
    for (what, lines) in &long {
        match listed.get(what.as_str()) {
            None => complaints.push(format!("{what}: found {lines} lines, at most {limit} may be: split it")),
            Some(before) if lines > before => {
                complaints.push(format!("{what}: found {lines} lines, it had {before} and may only shrink: split it"));
            }
            Some(before) if lines < before => {
                complaints.push(format!("{what}: it has shrunk from {before} lines; write {lines} in {list}"));
            }
            Some(_) => {}
        }
    }
    let short = listed.keys().filter(|what| !long.contains_key(**what));
    complaints.extend(short.map(|what| format!("{what}: it is gone or not over {limit} lines; take it out of {list}")));
    complaints
}

#[test]
fn functions_are_found_wherever_they_stand() {
    let text = "\
/// Docs do not count.
#[inline]
fn free() {
    fn inner() {}
}
trait Trait {
    fn declared();
    fn given(&self) {
    }
}
impl<T> Trait for Vec<T> {
    fn declared() {}
}
mod module { pub(crate) async fn deep() {} }
";
    let found: BTreeMap<String, usize> = functions(text).expect("Rust").into_iter().collect();
    let expected = [("Trait::given", 2), ("Vec::declared", 1), ("deep", 1), ("free", 3), ("inner", 1)]
        .map(|(name, lines)| (name.to_owned(), lines));
    assert_eq!(found, BTreeMap::from(expected));
}

#[test]
fn listed_ones_may_only_shrink_and_the_list_follows() {
    let listed = &[("same", 80), ("grew", 80), ("shrank", 80), ("short", 80), ("gone", 80)];
    let found = [("same", 80), ("grew", 81), ("shrank", 79), ("short", 70), ("new", 71), ("fine", 70)];
    let found = found.map(|(what, lines)| (what.to_owned(), lines));
    let said = complaints(found.into_iter(), 70, listed, "LIST");
    assert_eq!(said.len(), 5, "{said:?}");
    for part in ["grew: found 81", "write 79 in LIST", "new: found 71", "short: it is gone or", "gone: it is gone or"] {
        assert!(said.iter().any(|one| one.contains(part)), "{part}: {said:?}");
    }
}
