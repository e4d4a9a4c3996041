//! The page of errors has a row for each variant of each public error, and no other rows.

use std::collections::{BTreeMap, BTreeSet};

use crate::repo::{Finding, Repo};
use crate::source::{Source, Token};

/// The page: a section for each error, whose heading ends with the type's name (``## `rmi::CallError` ``),
/// and in it a table with a row for each variant: name, what happened, what to do.
const PAGE: &str = "docs/errors.md";
/// The crates whose errors programs see.
const CRATES: [&str; 4] = ["egret", "egret-net", "egret-node", "egret-stream"];
/// Parts of paths of files that no program is built with.
const TESTS: [&str; 4] = ["/tests", "/conformance", "fuzzing", "fault"];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let errors = errors(repo);
    let rows = rows(repo.text(PAGE).unwrap_or_default());
    let mut findings = Vec::new();
    for (name, error) in &errors {
        for (variant, (path, line)) in error {
            if !rows.contains_key(&(name.clone(), variant.clone())) {
                let what = format!("`{name}::{variant}` has no row in {PAGE}");
                findings.push(Finding::new(path, *line, what));
            }
        }
    }
    for ((name, variant), row) in &rows {
        if !errors.get(name).is_some_and(|error| error.contains_key(variant)) {
            let what = format!("a row of `{name}::{variant}`, which does not exist");
            findings.push(Finding::new(PAGE, row.line, what));
        } else if row.cells.len() != 3 || row.cells.contains(&"") {
            let what =
                format!("the row of `{name}::{variant}` does not say what happened and what to do");
            findings.push(Finding::new(PAGE, row.line, what));
        }
    }
    findings
}

/// The variants of an error, each with its file and line.
type Variants = BTreeMap<String, (String, usize)>;

/// Whether a file has errors that programs see.
pub(crate) fn is_product(path: &str) -> bool {
    CRATES.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")))
        && !TESTS.iter().any(|part| path.contains(part))
}

/// The public enums that derive `Error`, by name.
fn errors(repo: &Repo) -> BTreeMap<String, Variants> {
    let mut errors = BTreeMap::<String, Variants>::new();
    for (path, text) in repo.ending(".rs").filter(|(path, _)| is_product(path)) {
        let source = Source::split(text);
        let tokens = source.tokens();
        for at in 1..tokens.len().saturating_sub(1) {
            let is_public = tokens[at].text == "enum" && tokens[at - 1].text == "pub";
            if is_public && derives_error(&tokens[..at]) {
                let error = errors.entry(tokens[at + 1].text.to_owned()).or_default();
                for variant in variants(&tokens[at..]) {
                    error.insert(variant.text.to_owned(), (path.to_owned(), variant.line));
                }
            }
        }
    }
    errors
}

/// Whether the attributes at the end of these tokens derive `Error`.
fn derives_error(before: &[Token<'_>]) -> bool {
    let item =
        before.iter().rposition(|token| ["}", ";"].contains(&token.text)).map_or(0, |at| at + 1);
    let texts: BTreeSet<_> = before[item..].iter().map(|token| token.text).collect();
    texts.contains("derive") && texts.contains("Error")
}

/// The names of the variants of the enum that these tokens begin with.
fn variants<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut found = Vec::new();
    let (mut depth, mut is_next) = (0_u32, false);
    for token in tokens {
        match token.text {
            "{" | "(" | "[" => {
                depth += 1;
                is_next |= depth == 1 && token.text == "{";
            }
            "}" | ")" | "]" => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            "," if depth == 1 => is_next = true,
            _ if depth == 1 && is_next && token.is_word() => {
                found.push(*token);
                is_next = false;
            }
            _ => (),
        }
    }
    found
}

/// A row of the page.
struct Row<'a> {
    line: usize,
    cells: Vec<&'a str>,
}

/// The rows of the page by the names of the error and its variant.
fn rows(page: &str) -> BTreeMap<(String, String), Row<'_>> {
    let mut rows = BTreeMap::new();
    let mut name = None;
    for (index, line) in page.lines().enumerate() {
        if line.starts_with('#') {
            let path = line.split('`').nth(1);
            name = path.map(|path| path.rsplit("::").next().unwrap_or_default().to_owned());
        } else if let (Some(name), Some(inside)) = (&name, line.strip_prefix("| `")) {
            let cells: Vec<_> =
                inside.trim_end().trim_end_matches('|').split(" | ").map(str::trim).collect();
            let variant = cells[0].trim_end_matches('`').to_owned();
            rows.insert((name.clone(), variant), Row { line: index + 1, cells });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    const ENUM: &str = "#[derive(Debug, Error)]\n#[non_exhaustive]\npub enum CallError<E> {\n\
        /// One.\n#[error(\"a {x}, B\", f(*x, g))]\nLate { a: A, b: B },\n\
        #[error(transparent)]\nGone(#[from] Gone),\nBusy,\n}\n\
        #[derive(Debug)]\npub enum Other { A }\n\
        #[derive(Debug, Error)]\npub(crate) enum Hidden { A }\n";

    #[test]
    fn a_page_with_a_row_for_each_variant_passes() {
        let page = "# Errors\n## `rmi::CallError`\n| variant | happened | do |\n|---|---|---|\n\
            | `Busy` | a | b |\n| `Gone` | a | b |\n| `Late` | a | b |\n## More\n| `a` | b |\n";
        let repo = Repo::of(&[("crates/egret/src/a.rs", ENUM), (PAGE, page)]);
        assert_eq!(check(&repo), []);
    }

    #[test]
    fn a_variant_without_a_row_and_a_row_without_a_variant_are_found() {
        let page = "## `CallError`\n| `Busy` | a | b |\n| `Gone` | a |  |\n| `Left` | a | b |\n";
        let repo = Repo::of(&[("crates/egret/src/a.rs", ENUM), (PAGE, page)]);
        let expected = [
            "crates/egret/src/a.rs:6: `CallError::Late` has no row in docs/errors.md",
            "docs/errors.md:3: the row of `CallError::Gone` does not say what happened and what to do",
            "docs/errors.md:4: a row of `CallError::Left`, which does not exist",
        ];
        assert_eq!(told(&check(&repo)), expected);
    }

    #[test]
    fn errors_of_tests_and_of_programs_need_no_rows() {
        let paths = ["crates/egret/src/tests/a.rs", "crates/egret-cli/src/a.rs", "apps/src/a.rs"];
        let repo = Repo::of(&paths.map(|path| (path, ENUM)));
        assert_eq!(check(&repo), []);
    }
}
