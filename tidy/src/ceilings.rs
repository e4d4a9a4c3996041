//! How much a program can name: public types, traits and functions outside impls, and public errors.
//!
//! What another crate of the workspace needs and programs do not stands behind `#[doc(hidden)]` and is
//! not counted, nor is what only tests build.

use crate::repo::{Finding, Repo};
use crate::source::items;

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    above(repo, ITEMS_MAX, ERRORS_MAX)
}

/// Types, traits, type aliases and free functions. A change that raises it says what for. 300 were enough
/// before there were ports; 20 are theirs.
const ITEMS_MAX: usize = 320;
/// Enums that are errors. `GivenBack` carries one of them with what is given back. The 16th is that of ports.
const ERRORS_MAX: usize = 16;
/// The crates whose items programs name.
pub(crate) const CRATES: [&str; 4] = [
    "crates/egret/src/",
    "crates/egret-net/src/",
    "crates/egret-node/src/",
    "crates/egret-stream/src/",
];

fn above(repo: &Repo, items_max: usize, errors_max: usize) -> Vec<Finding> {
    let files =
        || repo.ending(".rs").filter(|(path, _)| CRATES.iter().any(|own| path.starts_with(own)));
    let hidden: Vec<String> = files().flat_map(|(path, text)| hidden_modules(path, text)).collect();
    let is_shown = |path: &str| !hidden.iter().any(|hidden| is_in(path, hidden));
    let (mut count, mut errors) = (0, Vec::new());
    for (_, text) in files().filter(|(path, _)| is_shown(path)) {
        for item in items(text).filter(|item| item.is_public && !item.is_hidden()) {
            let is_function = item.kind == "fn" && item.indent == 0;
            if is_function || ((item.is_type() || item.kind == "type") && item.indent <= 4) {
                count += 1;
                let is_error = item.attributes.contains("Error");
                errors.extend((is_error && item.kind == "enum").then_some(item.name));
            }
        }
    }
    let mut findings = Vec::new();
    if count > items_max {
        let what = format!("{count} public types, traits and functions; at most {items_max}");
        findings.push(Finding::new("crates", 0, what));
    }
    if errors.len() > errors_max {
        let what = format!(
            "{} public error enums, at most {errors_max}: {}",
            errors.len(),
            errors.join(", ")
        );
        findings.push(Finding::new("crates", 0, what));
    }
    findings
}

/// The modules in files of their own that this file hides, as paths without an ending.
pub(crate) fn hidden_modules(path: &str, text: &str) -> Vec<String> {
    let folder = match path.rsplit_once('/') {
        Some((folder, "mod.rs" | "lib.rs")) => folder,
        _ => path.trim_end_matches(".rs"),
    };
    let hidden = items(text).filter(|item| item.kind == "mod" && item.is_hidden());
    hidden.map(|item| format!("{folder}/{}", item.name)).collect()
}

/// Whether the file is the module's or that of a module in it.
pub(crate) fn is_in(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    const LIB: &str = "pub mod a;\n#[doc(hidden)]\npub mod b;\n#[cfg(test)]\nmod tests;\n\
        #[cfg(any(test, feature = \"fuzzing\"))]\npub mod c;\n";
    const A: &str = "pub struct One;\npub(crate) struct Own;\nimpl One {\n    pub fn new() {}\n}\n\
        /// Three.\n#[derive(Debug, thiserror::Error)]\n#[non_exhaustive]\npub enum Two {}\n\
        pub const fn three() {}\n#[doc(hidden)]\npub fn not() {}\npub type Four = One;\n";

    #[test]
    fn what_is_shown_counts_and_no_more() {
        let repo = Repo::of(&[
            ("crates/egret/src/lib.rs", LIB),
            ("crates/egret/src/a.rs", A),
            ("crates/egret/src/b/mod.rs", "pub struct Hidden;\n"),
            ("crates/egret/src/c.rs", "pub struct Fuzzed;\n"),
            ("crates/egret-cli/src/main.rs", "pub struct Elsewhere;\n"),
        ]);
        assert_eq!(above(&repo, 4, 1), []);
        let expected = [
            "crates: 4 public types, traits and functions; at most 3",
            "crates: 1 public error enums, at most 0: Two",
        ];
        assert_eq!(told(&above(&repo, 3, 0)), expected);
    }
}
