//! The layers inside `egret-net`: `rt` stands alone, `buf` knows nothing of the
//! network, `vi` knows fabrics but not which ones there are.

use crate::repo::{Finding, Repo};
use crate::source::{Source, Token};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let fabrics = fabrics(repo);
    let mut findings = Vec::new();
    for (path, text) in repo.ending(".rs") {
        let Some(module) = path.strip_prefix(SRC).map(module_of) else { continue };
        for (line, used) in paths_used(&Source::split(text).tokens(), &module) {
            if let Some(why) = forbidden(&module, &used, &fabrics) {
                let what = format!("`{}` is not for `{}`: {why}", used.join("::"), module[0]);
                findings.push(Finding::new(path, line, what));
            }
        }
    }
    findings
}

/// Why a file of `module` must not use the path, if so.
fn forbidden(module: &[&str], used: &[&str], fabrics: &[&str]) -> Option<&'static str> {
    match (*module.first()?, used) {
        ("rt", [first, ..]) if *first != "rt" => Some("the seam to the world stands alone"),
        ("buf", ["vi" | "fabric", ..]) => Some("a buffer does not know who sends it"),
        ("vi", ["fabric", fabric, ..]) if fabrics.contains(fabric) => {
            Some("the virtual interface does not know which fabrics there are")
        }
        _ => None,
    }
}

/// The fabrics are the folders beside the traits they implement.
fn fabrics(repo: &Repo) -> Vec<&str> {
    let inside =
        repo.files().filter_map(|(path, _)| path.strip_prefix(SRC)?.strip_prefix("fabric/"));
    inside.filter_map(|path| path.split_once('/')).map(|(fabric, _)| fabric).collect()
}

/// `buf/pool.rs` is `buf::pool`, `buf/mod.rs` is `buf`, `lib.rs` is nothing.
pub(crate) fn module_of(path: &str) -> Vec<&str> {
    let path = path.trim_end_matches(".rs");
    path.split('/').filter(|part| !matches!(*part, "mod" | "lib")).collect()
}

/// The paths from the crate's root that the tokens of a file of `module` spell,
/// as far as they are written with `crate` or `super`.
pub(crate) fn paths_used<'a>(
    tokens: &[Token<'a>],
    module: &[&'a str],
) -> Vec<(usize, Vec<&'a str>)> {
    let mut found = Vec::new();
    let mut scope = module.to_vec();
    let mut depth = 0_usize;
    let mut inline = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let after = tokens.get(at + 2).map(|token| token.text);
        let follows_path = at > 0 && tokens[at - 1].text == "::";
        match token.text {
            "mod" if after == Some("{") => {
                scope.push(tokens[at + 1].text);
                inline.push(depth);
            }
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                if inline.pop_if(|outer| *outer == depth).is_some() {
                    scope.pop();
                }
            }
            "crate" => _ = tree(tokens, at + 1, Vec::new(), &mut found),
            "super" if !follows_path => _ = tree(tokens, at, scope.clone(), &mut found),
            _ => (),
        }
    }
    found
}

/// Collects the paths of one tree (`::a::{b, c::*}`) that begins at `at`.
fn tree<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    mut path: Vec<&'a str>,
    found: &mut Vec<(usize, Vec<&'a str>)>,
) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.text {
            "::" => (),
            "super" => drop(path.pop()),
            "{" if tokens[at - 1].text == "::" => return branches(tokens, at + 1, &path, found),
            _ if token.is_word() && continues(tokens, at) => path.push(token.text),
            _ => break,
        }
        at += 1;
    }
    if let Some(last) = at.checked_sub(1).and_then(|at| tokens.get(at)) {
        found.push((last.line, path));
    }
    at
}

/// Collects the branches between braces; returns where they end.
fn branches<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    path: &[&'a str],
    found: &mut Vec<(usize, Vec<&'a str>)>,
) -> usize {
    while tokens.get(at).is_some_and(|token| token.text != "}") {
        // Not the words of `a as b`, which continue no path.
        if tokens[at].is_word() && continues(tokens, at) {
            at = tree(tokens, at, path.to_vec(), found);
        } else {
            at += 1;
        }
    }
    at + 1
}

/// Whether the word at `at` belongs to the path before it: after `::`, or as
/// the first of a branch.
fn continues(tokens: &[Token<'_>], at: usize) -> bool {
    matches!(tokens[at - 1].text, "::" | "{" | ",")
}

const SRC: &str = "crates/egret-net/src/";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    fn findings(file: &str, text: &str) -> Vec<String> {
        let sim = format!("{SRC}fabric/sim/mod.rs");
        told(&check(&Repo::of(&[(&format!("{SRC}{file}"), text), (&sim, "//! A fabric.\n")])))
    }

    #[test]
    fn a_name_that_is_given_another_is_no_path() {
        let text = "use crate::{buf::A as B, fabric as C, rt::{D as E, F}};";
        assert_eq!(findings("buf/pool.rs", text).len(), 1);
    }

    #[test]
    fn a_module_may_use_what_is_its_own_or_below() {
        assert_eq!(
            findings("rt/mod.rs", "use crate::rt::A;\nmod tests { use super::*; }"),
            [""; 0]
        );
        assert_eq!(findings("rt/thread.rs", "use super::{Instant, deadline};"), [""; 0]);
        assert_eq!(
            findings("buf/pool.rs", "use crate::rt; use super::Region; // crate::vi"),
            [""; 0]
        );
        assert_eq!(
            findings("vi/mod.rs", "use crate::fabric::{Fabric, Machine}; use crate::buf;"),
            [""; 0]
        );
        assert_eq!(
            findings("fabric/sim/vi.rs", "use crate::fabric::sim::A; use crate::vi::Vi;"),
            [""; 0]
        );
        assert_eq!(findings("lib.rs", "pub use crate::vi; pub use crate::fabric::sim;"), [""; 0]);
    }

    #[test]
    fn the_seam_using_the_crate_is_found() {
        let why = "is not for `rt`: the seam to the world stands alone";
        let at = format!("{SRC}rt/mod.rs:2");
        assert_eq!(
            findings("rt/mod.rs", "\nuse crate::buf::Buf;"),
            [format!("{at}: `buf::Buf` {why}")]
        );
        assert_eq!(findings("rt/mod.rs", "\nuse super::buf;"), [format!("{at}: `buf` {why}")]);
        assert_eq!(findings("rt/mod.rs", "mod a {}\nmod b { use super::super::vi; }").len(), 1);
        assert_eq!(findings("rt/thread.rs", "fn f() { super::super::vi::g() }").len(), 1);
        assert_eq!(findings("rt.rs", "use crate::{rt::{A, B}, vi};").len(), 1);
    }

    #[test]
    fn a_buffer_knowing_the_network_is_found() {
        let why = "a buffer does not know who sends it";
        let at = format!("{SRC}buf/pool.rs:1");
        let expected = [format!("{at}: `vi::Vi` is not for `buf`: {why}")];
        assert_eq!(findings("buf/pool.rs", "use crate::vi::Vi;"), expected);
        assert_eq!(findings("buf/pool.rs", "use crate::{rt::now, vi::Vi};"), expected);
        assert_eq!(findings("buf/pool.rs", "fn f(nic: &crate::fabric::Nic) {}").len(), 1);
    }

    #[test]
    fn the_interface_knowing_a_fabric_is_found() {
        for text in ["use crate::fabric::sim::Sim;", "use crate::fabric::{self, Fabric, sim};"] {
            assert_eq!(findings("vi/mod.rs", text).len(), 1, "{text}");
        }
    }
}
