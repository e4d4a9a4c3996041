//! The repository checks itself: what neither the compiler nor clippy sees.
//!
//! Each check is a function from the repository to its findings, in a file of
//! its own, with a test that plants a violation and sees it found. To add one,
//! write the file and name it in [`CHECKS`].
#![forbid(unsafe_code)]

mod deadlines;
mod docs;
mod kinds;
mod layers;
mod manifest;
mod modules;
mod repo;
mod sizes;
mod source;
mod text;
mod unsafe_code;
mod words;

use repo::{Finding, Repo};

type Check = fn(&Repo) -> Vec<Finding>;

const CHECKS: &[(&str, Check)] = &[
    ("deadlines", deadlines::check),
    ("docs", docs::check),
    ("kinds", kinds::check),
    ("layers", layers::check),
    ("manifest", manifest::check),
    ("modules", modules::check),
    ("sizes", sizes::check),
    ("text", text::check),
    ("unsafe_code", unsafe_code::check),
    ("words", words::check),
];

#[test]
fn the_repository_is_tidy() {
    let repo = Repo::load().expect("the repository can be read");
    assert!(repo.text("Cargo.toml").is_some(), "this is not the repository");
    let mut report = String::new();
    for (name, check) in CHECKS {
        for finding in check(&repo) {
            report += &format!("\n{name}: {finding}");
        }
    }
    assert!(report.is_empty(), "{report}\n");
}
