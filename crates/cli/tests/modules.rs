//! The top modules of a crate know each other one way: no module reaches, through others, one that knows it.
//!
//! Paths that begin with `crate` or `super` and cross from one top module into another are the arrows; what a crate's root
//! re-exports belongs to the module that it comes from. Unit tests may know every module. Calls of methods are not seen: whoever
//! calls them has the type from somewhere, and that place has a path.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// A crate, top modules of it that may know each other in a circle, and why. A circle that has lost a module must lose it here.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    (
        "analysis",
        &["compare", "rules", "settings_diff"],
        "to be untied: a comparison is made by rules from it, and metrics are read with what a comparison asks for",
    ),
    (
        "cli",
        &["commands", "progress", "stores", "the root", "verdict"],
        "`say` and `say!` of main.rs are what every command prints with; they would need a module of their own",
    ),
    (
        "conformance",
        &["case", "cases", "child"],
        "a case is found by its name in the table of all cases, which are cases",
    ),
    ("conformance", &["outcome", "sys"], "to be untied: a wrapper of a system call ends the case that called it"),
    (
        "experiment",
        &["compare", "decoys", "failure", "plan", "runner", "set", "the root"],
        "to be untied: a plan names decoys and streams by what starts them, and a set is compared by its plan",
    ),
    ("experiment", &["document", "error"], "an error tells the place in the document, and reading it gives errors"),
    (
        "host",
        &["process", "settings"],
        "to be untied: settings of a process are checked with the error of all settings",
    ),
    ("lab", &["lab", "run", "up"], "to be untied: a lab is brought up and run by modules that take the lab"),
    ("mapping", &["map", "options"], "options map by a method of their own, as those of `std::fs::OpenOptions` open"),
    (
        "observe",
        &["bpf", "cpu", "details", "feed", "perf", "stacks", "streams", "syscalls", "watcher"],
        "to be untied: readers of the rings know what each probe makes of its records, and watchers how to attach them",
    ),
    (
        "recording",
        &[
            "attribution",
            "compact",
            "encode",
            "guard",
            "inventory",
            "lifetimes",
            "losses",
            "merge",
            "part",
            "reader",
            "rollup",
            "space",
            "span",
            "tables",
            "writer",
        ],
        "to be untied: reading takes what a compaction left, compacting reads and writes",
    ),
    ("report", &["explanation", "verdict"], "a verdict shows its explanation, which shows the verdicts considered"),
    (
        "session",
        &["close", "cost", "first_task", "marks", "recorder", "recording_loop", "run"],
        "to be untied: the parts of a run share its state, which the module of the run declares",
    ),
    ("session", &["options", "output"], "to be untied: an output is opened as the options say, which hold it"),
    (
        "reproduce",
        &["figures", "measured", "readme", "steps", "the root"],
        "to be untied: the names that the crate gives its users are declared where they are used",
    ),
    ("reproduce", &["read", "recipe"], "a recipe is read by a module that makes recipes"),
    (
        "residency",
        &["context", "folios", "hugetlb", "process", "reserved", "slots", "thp", "why", "zeros"],
        "to be untied: what a look at a process gathers is asked of each kind of memory, which names the look's options",
    ),
    ("views", &["metrics", "run"], "a run is made of metrics, and a metric is read with what is known of the run"),
];

/// The name of a crate's root among its modules.
const ROOT: &str = "the root";

#[test]
fn modules_know_each_other_one_way() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut found, mut arrows) = (Vec::new(), 0);
    for entry in fs::read_dir(&crates).expect("crates/").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        for root in ["src/lib.rs", "src/main.rs"].map(|file| entry.path().join(file)) {
            if root.exists() {
                let graph = Graph::of(&root).unwrap_or_else(|error| panic!("{}: {error}", root.display()));
                arrows += graph.arrows.len();
                found.extend(graph.circles().into_iter().map(|circle| (name.clone(), circle)));
            }
        }
    }
    assert!(arrows > 200, "only {arrows} arrows were found");
    let complaints = complaints(&found, EXCEPTIONS);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Modules of which each reaches each other one, and the arrows among them in words.
struct Circle {
    modules: BTreeSet<String>,
    arrows: Vec<String>,
}

/// Circles that are not listed, and listed modules that are in no circle.
fn complaints(found: &[(String, Circle)], listed: &[(&str, &[&str], &str)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (krate, circle) in found {
        let named = listed.iter().any(|(of, modules, _)| {
            of == krate && circle.modules.iter().all(|module| modules.contains(&module.as_str()))
        });
        if !named {
            let modules: Vec<&str> = circle.modules.iter().map(String::as_str).collect();
            let modules = modules.join(", ");
            complaints.push(format!("{krate}: {modules} know each other:\n  {}", circle.arrows.join("\n  ")));
        }
    }
    for (krate, modules, reason) in listed {
        if reason.is_empty() {
            complaints.push(format!("{krate}: {}: write the reason in EXCEPTIONS", modules.join(", ")));
        }
        for module in *modules {
            if !found.iter().any(|(of, circle)| of == krate && circle.modules.contains(*module)) {
                complaints.push(format!("{krate}: {module} is in no circle; take it out of EXCEPTIONS"));
            }
        }
    }
    complaints
}

/// Which top module of a crate knows which other, and where it says so first.
#[derive(Default)]
struct Graph {
    modules: BTreeSet<String>,
    /// What the root re-exports, and the module that it comes from.
    exported: BTreeMap<String, String>,
    arrows: BTreeMap<(String, String), String>,
}

impl Graph {
    /// The graph of the crate with this root file.
    fn of(root: &Path) -> Result<Self, String> {
        let mut graph = Self::default();
        let file = parse(root)?;
        for item in &file.items {
            if let syn::Item::Mod(module) = item
                && !is_for_tests(&module.attrs)
            {
                graph.modules.insert(module.ident.to_string());
            }
        }
        for item in &file.items {
            if let syn::Item::Use(item) = item {
                graph.note_exports(&item.tree);
            }
        }
        let folder = root.parent().ok_or("a file in a folder")?;
        graph.add_items(&file.items, &[], root, folder)?;
        Ok(graph)
    }

    /// Notes the names that a `use` of the root brings into it from a module.
    fn note_exports(&mut self, tree: &syn::UseTree) {
        let mut paths = Vec::new();
        flatten(tree, &mut Vec::new(), &mut paths);
        for (path, name) in paths {
            let module = path.iter().find(|segment| !matches!(segment.as_str(), "crate" | "self"));
            if let Some(module) = module.filter(|module| self.modules.contains(*module)) {
                self.exported.insert(name, module.clone());
            }
        }
    }

    /// Adds the arrows of items that stand in module `here`. `folder` is where the files of its own modules lie.
    fn add_items(&mut self, items: &[syn::Item], here: &[String], file: &Path, folder: &Path) -> Result<(), String> {
        for item in items {
            let syn::Item::Mod(module) = item else {
                Paths { graph: self, here, file }.visit_item(item);
                continue;
            };
            if is_for_tests(&module.attrs) {
                continue;
            }
            let name = module.ident.to_string();
            let inside: Vec<String> = here.iter().cloned().chain([name.clone()]).collect();
            let own_folder = folder.join(&name);
            if let Some((_, items)) = &module.content {
                self.add_items(items, &inside, file, &own_folder)?;
                continue;
            }
            let files = [folder.join(format!("{name}.rs")), own_folder.join("mod.rs")];
            let Some(file) = files.iter().find(|file| file.exists()) else {
                return Err(format!("no file of module {name} in {}", folder.display()));
            };
            self.add_items(&parse(file)?.items, &inside, file, &own_folder)?;
        }
        Ok(())
    }

    /// Notes what a path that stands in module `here` leads to, if that is another top module.
    fn add_path(&mut self, path: &[String], here: &[String], place: &str) {
        let mut at = here;
        let mut rest = path;
        match path.first().map(String::as_str) {
            Some("crate") => (at, rest) = (&[], path.get(1..).unwrap_or_default()),
            Some("self") => rest = path.get(1..).unwrap_or_default(),
            Some("super") => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    at = at.split_last().map_or(&[][..], |(_, outer)| outer);
                    rest = rest.get(1..).unwrap_or_default();
                }
            }
            // Of names without a beginning only those in the root itself can be those of top modules.
            _ if !here.is_empty() => return,
            Some(name) if !self.modules.contains(name) => return,
            _ => {}
        }
        let to = match (at.first(), rest.first()) {
            (Some(_), _) | (None, None) => return,
            (None, Some(name)) if self.modules.contains(name) => name.clone(),
            (None, Some(name)) => self.exported.get(name).cloned().unwrap_or_else(|| ROOT.to_owned()),
        };
        let from = here.first().cloned().unwrap_or_else(|| ROOT.to_owned());
        if from != to {
            self.arrows.entry((from, to)).or_insert_with(|| format!("{place}: {}", path.join("::")));
        }
    }

    /// The circles: sets of at least two modules that all reach each other.
    fn circles(&self) -> Vec<Circle> {
        let nodes: BTreeSet<&String> = self.arrows.keys().flat_map(|(from, to)| [from, to]).collect();
        let reached: BTreeMap<&String, BTreeSet<&String>> =
            nodes.iter().map(|node| (*node, self.reached_from(node))).collect();
        let mut circles = Vec::new();
        let mut seen = BTreeSet::new();
        for node in &nodes {
            let mates: BTreeSet<String> = reached[node]
                .iter()
                .filter(|other| reached[**other].contains(node))
                .map(|name| (*name).clone())
                .collect();
            if mates.is_empty() || !seen.insert(mates.clone()) {
                continue;
            }
            let among = self.arrows.iter().filter(|((from, to), _)| mates.contains(from) && mates.contains(to));
            let arrows = among.map(|((from, to), place)| format!("{from} -> {to}: {place}")).collect();
            circles.push(Circle { modules: mates, arrows });
        }
        circles
    }

    /// All modules that `start` knows, itself or through others.
    fn reached_from<'a>(&'a self, start: &String) -> BTreeSet<&'a String> {
        let (mut reached, mut left) = (BTreeSet::new(), vec![start]);
        while let Some(node) = left.pop() {
            for (from, to) in self.arrows.keys() {
                if from == node && reached.insert(to) {
                    left.push(to);
                }
            }
        }
        reached
    }
}

fn parse(file: &Path) -> Result<syn::File, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    syn::parse_file(&text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Whether the attributes name `test` in a `cfg`, or mark a test.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        syn::Meta::NameValue(_) => false,
    })
}

/// Every path that a `use` names, with the name that it has afterwards.
fn flatten(tree: &syn::UseTree, before: &mut Vec<String>, into: &mut Vec<(Vec<String>, String)>) {
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, into);
            before.pop();
        }
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, before, into)),
        syn::UseTree::Name(name) => add_use(before, &name.ident, &name.ident, into),
        syn::UseTree::Rename(rename) => add_use(before, &rename.ident, &rename.rename, into),
        syn::UseTree::Glob(_) => into.push((before.clone(), "*".to_owned())),
    }
}

fn add_use(before: &[String], name: &syn::Ident, renamed: &syn::Ident, into: &mut Vec<(Vec<String>, String)>) {
    let path: Vec<String> = before.iter().cloned().chain([name.to_string()]).collect();
    // `use module::{self}` is called as the module is.
    let called = if renamed == "self" { before.last().cloned() } else { Some(renamed.to_string()) };
    into.push((path, called.unwrap_or_default()));
}

/// Finds the paths in an item of a module.
struct Paths<'a> {
    graph: &'a mut Graph,
    here: &'a [String],
    file: &'a Path,
}

impl Paths<'_> {
    fn add(&mut self, path: &[String], span: Span) {
        let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let file = self.file.strip_prefix(crates).unwrap_or(self.file);
        let place = format!("{}:{}", file.display(), span.start().line);
        self.graph.add_path(path, self.here, &place);
    }

    /// Paths in the words of a macro, which is no syntax yet: `crate` or `super`, and names with `::` between.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut colons, mut begun) = (0, Span::call_site());
        for token in tokens {
            match &token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) if colons == 2 && !path.is_empty() => {
                    path.push(name.to_string());
                    colons = 0;
                }
                _ => {
                    self.add(&std::mem::take(&mut path), begun);
                    colons = 0;
                    match token {
                        TokenTree::Ident(name) if name == "crate" || name == "super" => {
                            begun = name.span();
                            path.push(name.to_string());
                        }
                        TokenTree::Group(group) => self.add_tokens(group.stream()),
                        _ => {}
                    }
                }
            }
        }
        self.add(&path, begun);
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Const(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // What the root passes on is the module's own.
        if self.here.is_empty() && !matches!(item.vis, syn::Visibility::Inherited) {
            return;
        }
        let mut paths = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut paths);
        for (path, _) in paths {
            self.add(&path, item.span());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        // One name alone is a local one or comes by a `use`.
        if segments.len() > 1 {
            self.add(&segments, path.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.visit_path(&item.path);
        self.add_tokens(item.tokens.clone());
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(in crate::x)` says who may know this, not whom this knows.
    }
}

/// The arrows of a crate written into a folder, `FROM -> TO`.
fn arrows_of(files: &[(&str, &str)]) -> (Vec<String>, Vec<BTreeSet<String>>) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("inside")).expect("folder");
        fs::write(path, text).expect("file");
    }
    let graph = Graph::of(&folder.path().join("lib.rs")).expect("Rust");
    let arrows = graph.arrows.keys().map(|(from, to)| format!("{from} -> {to}")).collect();
    (arrows, graph.circles().into_iter().map(|circle| circle.modules).collect())
}

#[test]
fn arrows_are_found_wherever_they_stand() {
    let (arrows, circles) = arrows_of(&[
        (
            "lib.rs",
            "mod a; mod b; mod c; mod d; mod e; pub use e::inner::E; pub use e::Renamed as R; fn f() { d::f() }",
        ),
        ("a.rs", "use crate::{b::B, c}; use std::fs; fn f() { helper::g() }"),
        ("b/mod.rs", "mod deep; mod c {}"),
        ("b/deep.rs", "use super::c; fn f() { let x: super::super::d::D = say!(1, crate::e::E { y: 2 }); }"),
        ("c.rs", "use crate::E; #[cfg(test)] mod tests { use crate::a; } #[test] fn t() { crate::b::f() }"),
        ("d.rs", "pub(in crate::a) fn f() { crate::d::f() } impl D { fn g() -> crate::R {} }"),
        ("e.rs", "pub mod inner { pub struct E; } use crate::f;"),
    ]);
    let expected = ["a -> b", "a -> c", "b -> d", "b -> e", "c -> e", "d -> e", "e -> the root", "the root -> d"];
    assert_eq!(arrows, expected);
    assert_eq!(circles, [BTreeSet::from(["d", "e", ROOT].map(str::to_owned))]);
}

#[test]
fn a_circle_is_named_or_refused() {
    let circle = |modules: &[&str]| Circle {
        modules: modules.iter().map(|module| (*module).to_owned()).collect(),
        arrows: vec!["a -> b: a.rs:1: crate::b".to_owned()],
    };
    let found = [("x".to_owned(), circle(&["a", "b"])), ("y".to_owned(), circle(&["a", "b"]))];
    let said = complaints(&found, &[("x", &["a", "b", "c"], "one table"), ("z", &["q"], "")]);
    assert_eq!(said.len(), 4, "{said:?}");
    for part in
        ["y: a, b know each other:\n  a -> b: a.rs:1", "x: c is in no", "z: q: write the reason", "z: q is in no"]
    {
        assert!(said.iter().any(|one| one.contains(part)), "{part}: {said:?}");
    }
}
