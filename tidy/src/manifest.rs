//! Manifests say why each dependency is there, under which licences the code
//! is, and take the workspace's lints.

use crate::repo::{Crate, Finding, Repo};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = reasons(repo);
    findings.extend(licences(repo));
    for Crate { folder, manifest, .. } in repo.crates() {
        for (line, what) in REQUIRED {
            if !lines_without_breaks(manifest).contains(line) {
                findings.push(Finding::new(&format!("{folder}/Cargo.toml"), 0, *what));
            }
        }
    }
    findings
}

/// What each crate's manifest holds, and what it is if it does not.
const REQUIRED: &[(&str, &str)] = &[
    ("license.workspace = true", "does not take the workspace's licence"),
    ("[lints] workspace = true", "does not take the workspace's lints"),
];

/// Each dependency of the workspace has a comment right above it. Our own
/// crates need none.
fn reasons(repo: &Repo) -> Vec<Finding> {
    let manifest = repo.text(ROOT).unwrap_or_default();
    let mut findings = Vec::new();
    let mut inside = false;
    let mut above = "";
    for (index, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
        }
        let is_dependency = inside && line.contains(" = ") && !line.starts_with([' ', '#']);
        let is_ours = line.contains("path = ");
        if is_dependency && !is_ours && !above.starts_with("# ") {
            let name = line.split(' ').next().unwrap_or_default();
            let what = format!("`{name}` needs a comment above it that says why it is here");
            findings.push(Finding::new(ROOT, index + 1, what));
        }
        above = line;
    }
    findings
}

fn licences(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, title) in LICENCES {
        let text = repo.text(path).unwrap_or_default();
        if !text.contains(title) {
            findings.push(Finding::new(path, 0, format!("must be the text of the {title}")));
        }
    }
    if !repo.text(ROOT).unwrap_or_default().contains("license = \"MIT OR Apache-2.0\"") {
        findings.push(Finding::new(ROOT, 0, "must name both licences"));
    }
    findings
}

const LICENCES: &[(&str, &str)] =
    &[("LICENSE-APACHE", "Apache License"), ("LICENSE-MIT", "MIT License")];

const ROOT: &str = "Cargo.toml";

fn lines_without_breaks(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    const GOOD: &[(&str, &str)] = &[
        (
            "Cargo.toml",
            "[workspace.package]\nlicense = \"MIT OR Apache-2.0\"\n[workspace.dependencies]\n\
             ours = { path = \"crates/ours\" }\n# Says why.\na = \"1\"\n[profile.release]\nb = 1\n",
        ),
        ("LICENSE-APACHE", "Apache License\n"),
        ("LICENSE-MIT", "MIT License\n"),
        ("crates/ours/Cargo.toml", "license.workspace = true\n[lints]\nworkspace = true\n"),
    ];

    fn findings(path: &str, text: &str) -> Vec<String> {
        let mut files = GOOD.to_vec();
        files.retain(|(kept, _)| *kept != path);
        files.push((path, text));
        told(&check(&Repo::of(&files)))
    }

    #[test]
    fn good_manifests_pass() {
        assert_eq!(check(&Repo::of(GOOD)), []);
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let text = "license = \"MIT OR Apache-2.0\"\n[workspace.dependencies]\n# Why.\na = \"1\"\nb = \"1\"\n\
                    \nc = { version = \"1\" }\n";
        let expected = [
            "Cargo.toml:5: `b` needs a comment above it that says why it is here",
            "Cargo.toml:7: `c` needs a comment above it that says why it is here",
        ];
        assert_eq!(findings("Cargo.toml", text), expected);
    }

    #[test]
    fn a_missing_licence_is_found() {
        let expected = ["LICENSE-MIT: must be the text of the MIT License"];
        assert_eq!(findings("LICENSE-MIT", ""), expected);
        let expected = ["Cargo.toml: must name both licences"];
        assert_eq!(findings("Cargo.toml", "license = \"MIT\"\n"), expected);
    }

    #[test]
    fn a_crate_on_its_own_terms_is_found() {
        let path = "crates/ours/Cargo.toml";
        let expected = [format!("{path}: does not take the workspace's licence")];
        assert_eq!(findings(path, "[lints]\nworkspace = true\n"), expected);
        let expected = [format!("{path}: does not take the workspace's lints")];
        assert_eq!(findings(path, "license.workspace = true\n"), expected);
    }
}
