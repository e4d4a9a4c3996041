//! A type name occurs once in the workspace, or each file that defines it says why not.
//!
//! The files of parts that have the same role in several modules may define the same name. Each of them
//! declares that in its head, in one line: ``//! Repeated names: `Sender`, one in each fabric.``

use std::collections::BTreeMap;

use crate::repo::{Finding, Repo};
use crate::source::{Item, items};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut places: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    let mut declared: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for (path, text) in repo.ending(".rs").filter(|(path, _)| is_product(path)) {
        for item in items(text).filter(names_type) {
            places.entry(item.name.to_owned()).or_default().push((path, item.line));
        }
        declared.insert(path, declarations(text));
    }
    let mut findings = Vec::new();
    for (name, places) in &places {
        for (path, line) in places.iter().filter(|_| places.len() > 1) {
            if !declared[path].iter().any(|(_, declared)| declared == name) {
                let others = places.iter().filter(|place| *place != &(*path, *line));
                let others: Vec<_> = others.map(|(path, line)| format!("{path}:{line}")).collect();
                let what = format!("`{name}` is also the name of a type in {}", others.join(", "));
                findings.push(Finding::new(path, *line, what));
            }
        }
    }
    for (path, names) in declared {
        for (line, name) in names {
            if places.get(name).is_none_or(|places| places.len() < 2) {
                let what = format!("`{name}` is declared as repeated, and is not");
                findings.push(Finding::new(path, line, what));
            }
        }
    }
    findings
}

/// Whether an item names a type: its definition, or another name of one, but for those of traits.
fn names_type(item: &Item<'_>) -> bool {
    item.is_type() || item.kind == "type" && item.indent == 0 && item.name != ALIAS_LEFT
}

/// Numbers of questions to the registry have the name of a ticket of a descriptor.
const ALIAS_LEFT: &str = "Ticket";

/// Whether a type in this file is one that readers of the product meet.
fn is_product(path: &str) -> bool {
    let path = format!("/{path}");
    path.contains("/src/") && !NOT_PRODUCT.iter().any(|part| path.contains(part))
}

/// What only tests, fuzzers and the conformance suite build, and this crate.
const NOT_PRODUCT: [&str; 8] = [
    "/tests/",
    "/tests.rs",
    "/examples/",
    "/fuzz/",
    "/conformance/",
    "/checker.rs",
    "/tidy/",
    "/benches/",
];

/// The names that the head of a file declares as repeated, with their lines.
fn declarations(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate().take_while(|(_, line)| line.starts_with("//!")) {
        if let Some(names) = line.strip_prefix("//! Repeated names: ") {
            found.extend(names.split('`').skip(1).step_by(2).map(|name| (index + 1, name)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    #[test]
    fn a_name_of_two_types_is_found_unless_both_files_declare_it() {
        let declared = "//! A.\n//!\n//! Repeated names: `Sender`, one in each fabric.\n";
        let with = format!("{declared}struct Sender;\n");
        let repo = Repo::of(&[
            ("x/src/a.rs", "pub struct Twice<T>(T);\npub(crate) enum Once {}\n"),
            ("x/src/b.rs", "fn f() {\n    trait Twice {}\n}\n// struct Once;\n"),
            ("x/src/c.rs", &with),
            ("x/src/d.rs", &with),
            ("x/src/d/tests.rs", "struct Once;\n"),
            ("x/src/e.rs", "#[cfg(test)]\nmod tests {\n    struct Once;\n}\n"),
        ]);
        let expected = [
            "x/src/a.rs:1: `Twice` is also the name of a type in x/src/b.rs:2",
            "x/src/b.rs:2: `Twice` is also the name of a type in x/src/a.rs:1",
        ];
        assert_eq!(told(&check(&repo)), expected);
    }

    #[test]
    fn another_name_of_a_type_counts_but_not_one_in_a_trait() {
        let repo = Repo::of(&[
            ("x/src/a.rs", "type One = u8;\nimpl A for B {\n    type Two = u8;\n}\n"),
            ("x/src/b.rs", "struct One;\nstruct Two;\n"),
        ]);
        let expected = [
            "x/src/a.rs:1: `One` is also the name of a type in x/src/b.rs:1",
            "x/src/b.rs:1: `One` is also the name of a type in x/src/a.rs:1",
        ];
        assert_eq!(told(&check(&repo)), expected);
    }

    #[test]
    fn a_declaration_of_a_name_that_is_not_repeated_is_found() {
        let text = "//! Repeated names: `A`, `B`.\nstruct A;\n";
        let repo = Repo::of(&[("x/src/a.rs", text), ("x/src/b.rs", "struct B;\nunion C {}\n")]);
        let expected = [
            "x/src/a.rs:1: `A` is declared as repeated, and is not",
            "x/src/a.rs:1: `B` is declared as repeated, and is not",
        ];
        assert_eq!(told(&check(&repo)), expected);
    }
}
