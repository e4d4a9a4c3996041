//! Each public item has an example in its documentation, or a link to an item or module with one.
//!
//! The items are modules, exported macros, and the types, traits and functions that `ceilings` counts,
//! without those that only a hidden `pub use` shows. An example is a block of code that is a doc test.
//! Methods need none, and a link may lead to one. Links count by the last name in their path, and by the
//! name of a type before it.

use std::collections::BTreeSet;

use crate::ceilings::{CRATES, hidden_modules, is_in};
use crate::modules::module_of;
use crate::repo::{Finding, Repo};
use crate::source::{Item, items};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let (items, methods): (Vec<_>, Vec<_>) =
        shown(repo).into_iter().partition(|shown| !shown.is_method());
    let all = items.iter().chain(&methods);
    let with_example: BTreeSet<&str> =
        all.filter(|shown| has_example(&shown.docs)).map(|shown| shown.item.name).collect();
    let lacks = |shown: &&ShownItem<'_>| {
        let is_there = |name: &String| with_example.contains(name.as_str());
        !has_example(&shown.docs) && !linked(shown).iter().any(is_there)
    };
    let finding = |shown: &ShownItem<'_>| {
        let what = format!("`{}` has no example and no link to one", shown.item.name);
        Finding::new(shown.path, shown.item.line, what)
    };
    items.iter().filter(lacks).map(finding).collect()
}

/// An item that a program sees.
struct ShownItem<'a> {
    path: &'a str,
    item: Item<'a>,
    /// Of a module with those at the head of its file.
    docs: String,
}

impl ShownItem<'_> {
    fn is_method(&self) -> bool {
        self.item.kind == "fn" && self.item.indent > 0
    }
}

/// The folder of a private module whose items a hidden module shows.
const HIDDEN: &str = "crates/egret-net/src/atomics/";

fn shown(repo: &Repo) -> Vec<ShownItem<'_>> {
    let is_ours = |path: &str| CRATES.iter().any(|own| path.starts_with(own));
    let files: Vec<_> =
        repo.ending(".rs").filter(|(path, _)| is_ours(path) && !path.starts_with(HIDDEN)).collect();
    let modules: Vec<_> =
        files.iter().flat_map(|(path, text)| hidden_modules(path, text)).collect();
    let names: BTreeSet<_> = files.iter().flat_map(|(_, text)| hidden_uses(text)).collect();
    let mut found = Vec::new();
    for (path, text) in files {
        if modules.iter().any(|module| is_in(path, module)) {
            continue;
        }
        let is_shown = |item: &Item<'_>| !item.is_hidden() && !names.contains(item.name);
        for item in items(text).filter(|item| is_public(item) && is_shown(item)) {
            let mut docs = item.docs.clone();
            if item.kind == "mod" {
                docs += &head(repo, path, item.name);
            }
            found.push(ShownItem { path, item, docs });
        }
    }
    found
}

fn is_public(item: &Item<'_>) -> bool {
    match item.kind {
        // The methods of a trait are as public as the trait.
        "fn" => item.is_public || item.indent > 0,
        "macro_rules!" => item.attributes.contains("#[macro_export]"),
        _ => item.is_public && item.indent <= 4,
    }
}

/// The documentation at the head of the file of a module.
fn head(repo: &Repo, parent: &str, module: &str) -> String {
    let folder = match parent.rsplit_once('/') {
        Some((folder, "mod.rs" | "lib.rs")) => folder,
        _ => parent.trim_end_matches(".rs"),
    };
    let files = [format!("{folder}/{module}.rs"), format!("{folder}/{module}/mod.rs")];
    let text = files.iter().find_map(|file| repo.text(file)).unwrap_or_default();
    text.lines().map_while(|line| line.strip_prefix("//!")).flat_map(|line| [line, "\n"]).collect()
}

/// The names that a hidden `pub use` shows.
fn hidden_uses(text: &str) -> impl Iterator<Item = &str> {
    let uses = text.split("#[doc(hidden)]\n").skip(1).map(str::trim_start);
    let uses = uses.filter_map(|rest| rest.strip_prefix("pub use ")?.split(';').next());
    uses.flat_map(|names| names.split(|c: char| !c.is_alphanumeric() && c != '_'))
}

/// Whether a block of code is a doc test that compiles.
fn has_example(docs: &str) -> bool {
    let fences = docs.lines().filter_map(|line| line.trim().strip_prefix("```"));
    fences.step_by(2).any(|language| ["", "no_run"].contains(&language))
}

/// The names that the documentation links.
fn linked(shown: &ShownItem<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for part in shown.docs.split('[').skip(1) {
        let Some((text, rest)) = part.split_once(']') else { continue };
        let target = rest.strip_prefix('(').and_then(|rest| rest.split(')').next()).unwrap_or(text);
        let path = target.trim_matches('`').trim_end_matches(['!', '(', ')']);
        let mut names = path.rsplit(['@', ':']).filter(|name| !name.is_empty());
        let (last, before) = (names.next().unwrap_or_default(), names.next());
        let up = ["self", "super"].iter().position(|name| *name == path);
        let last = up.and_then(|up| module_of(shown.path).into_iter().nth_back(up)).unwrap_or(last);
        let owner = before.filter(|name| name.starts_with(char::is_uppercase));
        found.extend([Some(last), owner].into_iter().flatten().map(str::to_owned));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    const LIB: &str = "/// A.\npub mod a;\nmod b;\n#[doc(hidden)]\npub use b::{Own, Other};\n";
    const A: &str = "//! As.\n//!\n//! ```\n//! f();\n//! ```\n\n\
        /// See the [module](self).\npub struct One;\n\
        impl One {\n    /// ```\n    /// g();\n    /// ```\n    pub fn new() {}\n}\n\
        /// See [`new`](One::new).\npub enum Two {}\n\
        /// ```no_run\n/// h();\n/// ```\n#[macro_export]\nmacro_rules! three { () => {} }\n\
        /// See [`three!`](crate::three!).\npub fn four() {}\n";
    const B: &str = "/// ```text\n/// no\n/// ```\npub struct Five;\n\
        /// ```compile_fail\n/// i();\n/// ```\npub trait Six {}\n\
        /// [`Five`], and `One`.\npub type Seven = Five;\n\
        pub(crate) struct Inner;\npub struct Own;\npub struct Other;\n";

    #[test]
    fn an_item_without_an_example_and_without_a_link_to_one_is_found() {
        let repo = Repo::of(&[
            ("crates/egret/src/lib.rs", LIB),
            ("crates/egret/src/a.rs", A),
            ("crates/egret/src/b.rs", B),
            ("crates/egret-cli/src/main.rs", "pub struct Elsewhere;\n"),
        ]);
        let expected = [
            "crates/egret/src/b.rs:4: `Five` has no example and no link to one",
            "crates/egret/src/b.rs:8: `Six` has no example and no link to one",
            "crates/egret/src/b.rs:10: `Seven` has no example and no link to one",
        ];
        assert_eq!(told(&check(&repo)), expected);
    }
}
