//! Modules of different concepts do not import each other in a circle.
//!
//! The rooms of a folder are the files and folders in it. A room that imports something of another one
//! depends on it, also through a re-export; tests and fuzzing models do not count.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{module_of, paths_used};
use crate::repo::{Finding, Repo};
use crate::source::Source;

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    FOLDERS.iter().flat_map(|folder| cycles(repo, folder, LISTED)).collect()
}

/// The folders whose rooms are different concepts: the source of a crate, and modules in it.
const FOLDERS: &[(&str, &[&str])] = &[
    ("crates/egret-net/src/", &[]),
    ("crates/egret-net/src/", &["fabric"]),
    ("crates/egret-node/src/", &[]),
    ("crates/egret-stream/src/", &[]),
    ("crates/egret/src/", &[]),
    ("crates/egret-cli/src/", &[]),
    ("crates/egret-bench/src/", &[]),
    ("apps/src/", &[]),
];

/// Rooms that are one concept together, and why.
const LISTED: &[(&str, &[&str], &str)] = &[
    (
        "crates/egret-stream/src/",
        &["describe", "dynamic", "reader", "wire", "writer"],
        "the trait of values as streams, what describes, reads and writes them, and the names of types \
         that a reader and a writer keep",
    ),
    (
        "crates/egret-node/src/",
        &["am", "links"],
        "handlers are in the state of the links, and get the links with each request",
    ),
];

type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn cycles(
    repo: &Repo,
    (source, inside): &(&str, &[&str]),
    listed: &[(&str, &[&str], &str)],
) -> Vec<Finding> {
    let mut imports = Graph::new();
    let files = || repo.files().filter_map(|(path, text)| Some((path.strip_prefix(source)?, text)));
    let rooms: BTreeSet<_> =
        files().filter_map(|(path, _)| room(&module_of(path), inside)).collect();
    for (path, text) in files().filter(|(path, _)| is_product(path)) {
        let module = module_of(path);
        let Some(from) = room(&module, inside) else { continue };
        for (_, used) in paths_used(&Source::split(text).tokens(), &module) {
            let to = room(&used, inside).and_then(|to| rooms.get(to));
            if let Some(to) = to.filter(|to| **to != from) {
                imports.entry(from).or_default().insert(to);
            }
        }
    }
    let folder = format!("{source}{}", inside.join("/"));
    let is_listed = |circle: &[&str]| {
        listed
            .iter()
            .any(|(of, rooms, _)| *of == folder && circle.iter().all(|room| rooms.contains(room)))
    };
    let circles = circles(&imports).into_iter().filter(|circle| !is_listed(circle));
    let finding = |circle: Vec<&str>| {
        Finding::new(&folder, 0, format!("import each other in a circle: {}", circle.join(", ")))
    };
    circles.map(finding).collect()
}

/// The room, among those inside a module, that a path is in.
fn room<'a>(path: &[&'a str], inside: &[&str]) -> Option<&'a str> {
    let is_inside = path.iter().zip(inside).filter(|(a, b)| a == b).count() == inside.len();
    path.get(inside.len()).copied().filter(|_| is_inside)
}

fn is_product(path: &str) -> bool {
    let parts = ["tests", "conformance"];
    path.ends_with(".rs") && !module_of(path).iter().any(|part| parts.contains(part))
}

/// The largest sets of rooms of which each reaches each, but for single rooms.
fn circles<'a>(imports: &Graph<'a>) -> Vec<Vec<&'a str>> {
    let reached: BTreeMap<_, _> =
        imports.keys().map(|from| (*from, reach(imports, from))).collect();
    let mut circles = BTreeSet::new();
    for (from, to) in &reached {
        let both = to.iter().filter(|to| reached.get(*to).is_some_and(|back| back.contains(from)));
        let circle: BTreeSet<_> = both.copied().chain([*from]).collect();
        if circle.len() > 1 {
            circles.insert(circle.into_iter().collect::<Vec<_>>());
        }
    }
    circles.into_iter().collect()
}

fn reach<'a>(imports: &Graph<'a>, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(room) = open.pop() {
        for next in imports.get(room).into_iter().flatten() {
            if found.insert(*next) {
                open.push(next);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    const FILES: &[(&str, &str)] = &[
        ("x/src/lib.rs", "pub use crate::a::A;\n"),
        ("x/src/a.rs", "use crate::b::{B, own::C};\n"),
        ("x/src/b/mod.rs", "mod own;\n"),
        ("x/src/b/own.rs", "use super::super::c::D;\n"),
        ("x/src/c.rs", "fn f() {\n    crate::a::g();\n}\nuse crate::d::E;\n"),
        ("x/src/d.rs", "use crate::d::E;\n"),
        ("x/src/d/tests.rs", "use crate::a::A;\n"),
        ("x/src/f/one.rs", "use super::two::T;\n"),
        ("x/src/f/two.rs", "use crate::f::one::O;\n"),
    ];

    #[test]
    fn a_circle_of_imports_is_found_unless_listed() {
        let repo = Repo::of(FILES);
        let expected = ["x/src/: import each other in a circle: a, b, c"];
        assert_eq!(told(&cycles(&repo, &("x/src/", &[]), &[])), expected);
        let listed: &[(&str, &[&str], &str)] = &[("x/src/", &["a", "b", "c"], "why")];
        assert_eq!(cycles(&repo, &("x/src/", &[]), listed), []);
    }

    #[test]
    fn a_circle_inside_a_module_is_found() {
        let expected = ["x/src/f: import each other in a circle: one, two"];
        assert_eq!(told(&cycles(&Repo::of(FILES), &("x/src/", &["f"]), &[])), expected);
    }
}
