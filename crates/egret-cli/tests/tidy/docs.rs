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
    findings.extend(unlinked(repo));
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

/// Pages under `docs/` that neither of the two entrances leads to.
fn unlinked(repo: &Repo) -> Vec<Finding> {
    let mut linked = Vec::new();
    for entrance in ["ARCHITECTURE.md", "README.md"] {
        for (_, target) in links(repo.text(entrance).unwrap_or_default()) {
            linked.push(target.split('#').next().unwrap_or_default().to_owned());
        }
    }
    let pages = repo.ending(".md").map(|(path, _)| path);
    pages
        .filter(|path| path.starts_with("docs/") && !linked.iter().any(|link| link == path))
        .map(|path| Finding::new(path, 0, "not linked from ARCHITECTURE.md or README.md"))
        .collect()
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
        let repo = Repo::of(&[("docs/a.md", text), ("README.md", "[a](docs/a.md)\n")]);
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
            ("docs/b.md", "[a](a.md)\n"),
            ("README.md", "[b](docs/b.md)\n"),
        ]);
        assert_eq!(
            told(&check(&repo)),
            ["docs/a.md: not linked from ARCHITECTURE.md or README.md"]
        );
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
