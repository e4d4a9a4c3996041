//! The repository checks itself: what neither the compiler nor clippy sees.
//!
//! Each check is a function from the repository to its findings, in a file of
//! its own, with a test that plants a violation and sees it found. To add one,
//! write the file and name it in [`CHECKS`].
//!
//! `cargo test -p tidy` runs the checks and their own tests; `cargo run -p tidy` prints the findings
//! alone. The crate has no dependencies, so that both take seconds.
#![forbid(unsafe_code)]

mod ceilings;
mod cycles;
mod deadlines;
mod docs;
mod error_texts;
mod errors;
mod examples;
mod kinds;
mod layers;
mod manifest;
mod modules;
mod names;
mod plain_words;
mod repo;
mod sizes;
mod source;
mod text;
mod unsafe_code;
mod words;

use std::io::Write as _;
use std::process::ExitCode;

use repo::{Finding, Repo};

type Check = fn(&Repo) -> Vec<Finding>;

const CHECKS: &[(&str, Check)] = &[
    ("ceilings", ceilings::check),
    ("cycles", cycles::check),
    ("error_texts", error_texts::check),
    ("errors", errors::check),
    ("examples", examples::check),
    ("names", names::check),
    ("deadlines", deadlines::check),
    ("docs", docs::check),
    ("kinds", kinds::check),
    ("layers", layers::check),
    ("manifest", manifest::check),
    ("modules", modules::check),
    ("plain_words", plain_words::check),
    ("sizes", sizes::check),
    ("text", text::check),
    ("unsafe_code", unsafe_code::check),
    ("words", words::check),
];

fn main() -> ExitCode {
    let report = report();
    let printed = std::io::stdout().write_all(report.as_bytes());
    if report.is_empty() && printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the checks find, one finding a line.
fn report() -> String {
    let repo = Repo::load().expect("the repository can be read");
    assert!(repo.text("Cargo.toml").is_some(), "this is not the repository");
    let mut report = String::new();
    for (name, check) in CHECKS {
        for finding in check(&repo) {
            report += &format!("{name}: {finding}\n");
        }
    }
    report
}

#[test]
fn the_repository_is_tidy() {
    let report = report();
    assert!(report.is_empty(), "\n{report}");
}
