//! Words that gave way to plain ones stand in no comment, page, text of an error and name of a test. The
//! [glossary](../../docs/glossary.md) has them under "Words that go".

use crate::error_texts;
use crate::repo::{Finding, Repo};
use crate::source::Source;

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repo.files().filter(|(path, _)| !HAVE_THE_LIST.contains(path)) {
        if path.ends_with(".md") {
            findings.extend(in_text(path, &prose(text), BANNED));
        } else if path.ends_with(".rs") {
            let comments = Source::split(text).comments;
            findings.extend(in_text(path, &comments, BANNED));
            if is_plain_product(path) {
                findings.extend(in_text(path, &comments, BANNED_IN_PRODUCT));
                findings.extend(in_errors(path, text));
            }
            findings.extend(in_test_names(path, text));
        }
    }
    findings
}

/// Each with the words that stand in its place.
type Words = &'static [(&'static str, &'static str)];

const BANNED: Words = &[
    ("liar", "hostile peer"),
    ("liars", "hostile peers"),
    ("bytes of nothing", "data record outside a message"),
    ("favourite", "the thread that has the bias"),
    ("chair", "role"),
    ("knock", "connect"),
    ("knocks", "connects"),
    ("knocking", "connecting"),
    ("luck", "chance"),
    ("puppet", "scripted peer"),
];
/// In comments and errors of the product.
const BANNED_IN_PRODUCT: Words =
    &[("whoever", "the process, thread or part that does so, by its name")];
/// In errors alone.
const BANNED_IN_ERRORS: Words = &[
    ("told", "sent, said"),
    ("heard", "received"),
    ("takes part", "is connected"),
    ("somebody", "another process"),
    ("everybody", "any process"),
    ("nobody", "no process"),
    ("that interface", "the name of the interface"),
];

/// The pages that have the words because they speak of them.
const HAVE_THE_LIST: &[&str] = &["docs/glossary.md", "tidy/src/plain_words.rs", "CHANGELOG.md"];

fn is_plain_product(path: &str) -> bool {
    let others = ["/tests/", "/tests.rs", "/conformance/", "/examples/", "tidy/"];
    path.contains("/src/") && !others.iter().any(|part| path.contains(part))
}

fn in_text(path: &str, text: &str, banned: Words) -> Vec<Finding> {
    let lines = text.lines().enumerate();
    lines.flat_map(|(index, line)| in_line(path, index + 1, line, banned)).collect()
}

fn in_line(path: &str, line: usize, text: &str, banned: Words) -> Vec<Finding> {
    let words: Vec<_> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let text = format!(" {} ", words.join(" ").to_lowercase());
    let found = banned.iter().filter(|(word, _)| text.contains(&format!(" {word} ")));
    found.map(|(word, instead)| Finding::new(path, line, format!("`{word}`: {instead}"))).collect()
}

fn in_errors(path: &str, text: &str) -> Vec<Finding> {
    let texts = error_texts::texts(text);
    let joined = texts.iter().map(|(line, _, text)| (*line, text.replace("\\\n", "")));
    joined
        .flat_map(|(line, text)| {
            let product = in_line(path, line, &text, BANNED_IN_PRODUCT);
            [
                in_line(path, line, &text, BANNED),
                product,
                in_line(path, line, &text, BANNED_IN_ERRORS),
            ]
        })
        .flatten()
        .collect()
}

/// The names of functions in tests.
fn in_test_names(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_test = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line == "#[test]" {
            is_test = true;
        } else if is_test && !line.starts_with("#[") {
            is_test = false;
            let name = line.split("fn ").nth(1).and_then(|rest| rest.split('(').next());
            findings
                .extend(name.into_iter().flat_map(|name| in_line(path, index + 1, name, BANNED)));
        }
    }
    findings
}

/// A page without its blocks of code and what it quotes, with the same lines.
fn prose(page: &str) -> String {
    let (mut prose, mut is_code) = (String::new(), false);
    for line in page.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence {
            prose.extend(line.split('`').step_by(2).flat_map(|part| [part, " "]));
        }
        prose.push('\n');
    }
    prose
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    #[test]
    fn a_word_that_gave_way_is_found_where_people_read() {
        let code = "// A liar.\nconst LIAR: &str = \"liar\";\n#[test]\nfn a_liar_is_found() {}\n\
            /// Whoever.\npub enum CallError {\n    #[error(\"the peer was \\\n    told {x}\")]\n    Told,\n}\n";
        let page =
            "A `liar` knocks.\n\n```text\nliar\n```\nOf bytes of\nnothing; bytes of nothing.\n";
        let repo = Repo::of(&[("crates/egret/src/a.rs", code), ("a.md", page)]);
        let expected = [
            "a.md:1: `knocks`: connects",
            "a.md:7: `bytes of nothing`: data record outside a message",
            "crates/egret/src/a.rs:1: `liar`: hostile peer",
            "crates/egret/src/a.rs:5: `whoever`: the process, thread or part that does so, by its name",
            "crates/egret/src/a.rs:9: `told`: sent, said",
            "crates/egret/src/a.rs:4: `liar`: hostile peer",
        ];
        assert_eq!(told(&check(&repo)), expected);
    }

    #[test]
    fn tests_may_speak_of_whoever() {
        let repo = Repo::of(&[("crates/egret/src/tests/a.rs", "// Whoever comes.\n")]);
        assert_eq!(check(&repo), []);
    }
}
