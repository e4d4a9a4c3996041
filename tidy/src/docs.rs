//! Pages whose links lead somewhere and that can be found; crates that say
//! what they are.

use crate::repo::{Finding, Repo};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repo.ending(".md") {
        for (line, target) in links(text) {
            if let Some(what) = broken(repo, path, &target) {
                findings.push(Finding::new(path, line, what));
            }
        }
    }
    findings.extend(unlisted(repo));
    findings.extend(misnamed(repo));
    findings.extend(undocumented(repo));
    findings
}

/// What is wrong with a link to `target` on the page `from`.
fn broken(repo: &Repo, from: &str, target: &str) -> Option<String> {
    if target.contains(':') {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() { from.to_owned() } else { resolve(from, file) };
    if !repo.exists(&file) {
        return Some(format!("link to `{target}`, which is not there"));
    }
    let headings = headings(repo.text(&file).unwrap_or_default());
    if !anchor.is_empty() && !headings.iter().any(|heading| heading == anchor) {
        return Some(format!("link to `{target}`, a heading that is not there"));
    }
    None
}

/// The page that lists all others.
const INDEX: &str = "docs/index.md";

/// Pages under `docs/` that the index does not link.
fn unlisted(repo: &Repo) -> Vec<Finding> {
    let listed = links(repo.text(INDEX).unwrap_or_default());
    let is_listed = |path: &str| {
        listed
            .iter()
            .any(|(_, target)| resolve(INDEX, target.split('#').next().unwrap_or_default()) == path)
    };
    let pages = repo.ending(".md").map(|(path, _)| path);
    pages
        .filter(|path| path.starts_with("docs/") && *path != INDEX && !is_listed(path))
        .map(|path| Finding::new(path, 0, format!("not linked from {INDEX}")))
        .collect()
}

/// Pages that Rust code and manifests name by their path (`docs/NAME.md`) and that do not exist.
fn misnamed(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = [".rs", ".toml"].into_iter().flat_map(|end| repo.ending(end));
    for (path, text) in files.filter(|(path, _)| !path.ends_with("tidy/src/docs.rs")) {
        for (index, line) in text.lines().enumerate() {
            for named in line.split("docs/").skip(1) {
                let page = named.split_inclusive(".md").next().unwrap_or_default();
                let is_path = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
                let target = format!("docs/{page}");
                if page.ends_with(".md") && page.chars().all(is_path) && !repo.exists(&target) {
                    findings.push(Finding::new(
                        path,
                        index + 1,
                        format!("names `{target}`, which is not there"),
                    ));
                }
            }
        }
    }
    findings
}

/// Crates whose root does not begin by saying what it is.
fn undocumented(repo: &Repo) -> Vec<Finding> {
    let folders = repo.crates().map(|found| found.folder);
    let roots = folders.flat_map(|folder| ["lib", "main"].map(|f| format!("{folder}/src/{f}.rs")));
    roots
        .filter(|path| repo.text(path).is_some_and(|text| !text.starts_with("//! ")))
        .map(|path| Finding::new(&path, 0, "does not begin with `//!` and what it is"))
        .collect()
}

/// The targets of the links outside code, with their lines.
fn links(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in prose(page) {
        let inline = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let definition = text.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        let targets = inline.chain(definition.map(|(_, target)| target.trim()));
        found.extend(targets.map(|target| (line, target.to_owned())));
    }
    found
}

/// The headings as their anchors: lower case, words joined by hyphens, the
/// rest left out.
fn headings(page: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, text) in numbered_without_fences(page) {
        let Some(title) = text.trim_start_matches('#').strip_prefix(' ') else { continue };
        if text.starts_with('#') {
            let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
            let same = anchors.iter().filter(|other| **other == anchor).count();
            anchors.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
        }
    }
    anchors
}

/// The lines that are not in a fence, without their code spans.
fn prose(page: &str) -> impl Iterator<Item = (usize, String)> {
    numbered_without_fences(page).map(|(line, text)| (line, text.split('`').step_by(2).collect()))
}

fn numbered_without_fences(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((index + 1, line))
    })
}

/// The path of `target` as seen from the page `from`.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => (),
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    #[test]
    fn links_that_lead_somewhere_pass() {
        let repo = Repo::of(&[
            (
                "README.md",
                "[a](docs/a.md) ![b](docs/) [c](https://x.y) `[d](e)`\n```\n[f](g)\n```\n",
            ),
            ("docs/index.md", "[a](a.md)\n"),
            (
                "docs/a.md",
                "# The `Buf`, and *why*\n[up](../README.md \"t\") [here](#the-buf-and-why)\n",
            ),
        ]);
        assert_eq!(check(&repo), []);
    }

    #[test]
    fn a_link_to_nowhere_is_found() {
        let text = "# A\n## A\n```\n# B\n```\n[x](b.md) [y](#a-1)\n[z](#b)\n[w]: ../c.md\n";
        let repo = Repo::of(&[("docs/a.md", text), ("docs/index.md", "[a](a.md)\n")]);
        let expected = [
            "docs/a.md:6: link to `b.md`, which is not there",
            "docs/a.md:7: link to `#b`, a heading that is not there",
            "docs/a.md:8: link to `../c.md`, which is not there",
        ];
        assert_eq!(told(&check(&repo)), expected);
    }

    #[test]
    fn a_page_nobody_links_is_found() {
        let repo = Repo::of(&[
            ("docs/a.md", "# A\n"),
            ("docs/b/c.md", "[a](../a.md)\n"),
            ("docs/index.md", "[c](b/c.md#x)\n"),
        ]);
        let expected = [
            "docs/index.md:1: link to `b/c.md#x`, a heading that is not there",
            "docs/a.md: not linked from docs/index.md",
        ];
        assert_eq!(told(&check(&repo)), expected);
    }

    #[test]
    fn a_page_that_code_names_and_that_is_not_there_is_found() {
        let repo = Repo::of(&[
            ("docs/a.md", "# A\n"),
            ("docs/index.md", "[a](a.md)\n"),
            ("crates/x/src/a.rs", "// docs/a.md, docs/b.md and docs/ of c.md\n// `docs/a/b.md`\n"),
        ]);
        let expected = [
            "crates/x/src/a.rs:1: names `docs/b.md`, which is not there",
            "crates/x/src/a.rs:2: names `docs/a/b.md`, which is not there",
        ];
        assert_eq!(told(&check(&repo)), expected);
    }

    #[test]
    fn a_crate_that_does_not_say_what_it_is_is_found() {
        let repo = Repo::of(&[
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", "//! Says it.\n"),
            ("crates/b/Cargo.toml", ""),
            ("crates/b/src/main.rs", "fn main() {}\n"),
        ]);
        let expected = ["crates/b/src/main.rs: does not begin with `//!` and what it is"];
        assert_eq!(told(&check(&repo)), expected);
    }
}
