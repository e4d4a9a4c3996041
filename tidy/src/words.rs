//! What is not left behind: unfinished work, tests that do not run, warnings
//! switched off, code in comments.

use crate::repo::{Finding, Repo};
use crate::source::{Source, Token};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repo.files() {
        if path.ends_with(".rs") {
            let source = Source::split(text);
            findings.extend(calls(path, &source.tokens()));
            findings.extend(marks(path, &source.comments));
            findings.extend(comments(path, &source.comments));
        } else {
            findings.extend(marks(path, text));
        }
    }
    findings
}

/// Banned macros and attributes.
fn calls(path: &str, tokens: &[Token<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1).map(|token| token.text);
        let before = at.checked_sub(1).map(|at| tokens[at].text);
        let what = match token.text {
            "todo" | "unimplemented" | "dbg" if next == Some("!") => format!("`{}!`", token.text),
            "ignore" if before == Some("[") => "a test that does not run".to_owned(),
            "allow" if next == Some("(") => match silenced(&tokens[at..]) {
                // What a macro writes is its user's to use or not.
                Some("dead_code" | "unused_extern_crates" | "unused_imports")
                    if path.starts_with("crates/egret-derive/src/") =>
                {
                    continue;
                }
                Some(lint) => format!("`{lint}` switched off; delete what is not used"),
                None => continue,
            },
            _ => continue,
        };
        findings.push(Finding::new(path, token.line, what));
    }
    findings
}

/// The lint about something unused that an `allow(…)` names.
fn silenced<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let names = tokens.iter().map(|token| token.text).take_while(|text| *text != ")");
    names.into_iter().find(|name| *name == "dead_code" || name.starts_with("unused"))
}

/// Words that promise to come back.
fn marks(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        if let Some(mark) = words.find(|word| MARKS.contains(word)) {
            let what = format!("`{mark}`: do it, or write an issue");
            findings.push(Finding::new(path, index + 1, what));
        }
    }
    findings
}

const MARKS: &[&str] = &["TODO", "FIXME", "XXX"];

/// Comments that are no comments: examples that do not run, and code.
fn comments(path: &str, comments: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in comments.lines().enumerate() {
        let line = line.trim();
        let is_doc = line.starts_with("///") || line.starts_with("//!");
        let text = line.trim_start_matches(['/', '!']).trim();
        if is_doc && text.starts_with("```") && text.contains("ignore") {
            findings.push(Finding::new(path, index + 1, "an example that does not run"));
        }
        if !is_doc && line.starts_with("//") && looks_like_code(text) {
            findings.push(Finding::new(path, index + 1, "code in a comment"));
        }
    }
    findings
}

/// A guess: prose does not end like this.
fn looks_like_code(text: &str) -> bool {
    let called = text.split('(').next().unwrap_or_default();
    let call = text.ends_with(");") && !called.is_empty() && !called.contains(' ');
    let assignment = text.ends_with(';') && text.contains(" = ");
    let item = ["let ", "use ", "fn ", "pub ", "impl ", "#[", "assert"]
        .iter()
        .any(|start| text.starts_with(start) && text.ends_with([';', '{', '}', ']', ')']));
    let brace = text.ends_with(" {") || matches!(text, "}" | "};" | "})" | "});" | "})?;");
    call || assignment || item || brace
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    fn findings(text: &str) -> Vec<String> {
        told(&check(&Repo::of(&[("a.rs", text)])))
    }

    #[test]
    fn clean_text_passes() {
        let text = "//! Says why; `f(x)` is fine.\n/// let x = f();\nfn f() {\n    // The peer may \
                    be gone (see `g`);\n    #[allow(clippy::all)]\n    g(\"todo!()\", todo);\n}\n";
        assert_eq!(findings(text), [""; 0]);
    }

    #[test]
    fn unfinished_work_is_found() {
        assert_eq!(findings("fn f() {\n    todo!()\n}\n"), ["a.rs:2: `todo!`"]);
        assert_eq!(findings("let x = dbg!(y);\n"), ["a.rs:1: `dbg!`"]);
        assert_eq!(findings("std::unimplemented!();\n"), ["a.rs:1: `unimplemented!`"]);
        for mark in MARKS {
            let expected = format!(":1: `{mark}`: do it, or write an issue");
            assert_eq!(findings(&format!("f(); // {mark}: later\n")), [format!("a.rs{expected}")]);
            let page = Repo::of(&[("a.md", &format!("({mark})\n"))]);
            assert_eq!(told(&check(&page)), [format!("a.md{expected}")]);
        }
    }

    #[test]
    fn a_test_that_does_not_run_is_found() {
        let expected = ["a.rs:2: a test that does not run"];
        assert_eq!(findings("#[test]\n#[ignore]\nfn f() {}\n"), expected);
        assert_eq!(findings("#[test]\n#[ignore = \"slow\"]\nfn f() {}\n"), expected);
        assert_eq!(findings("/// ```ignore\n"), ["a.rs:1: an example that does not run"]);
    }

    #[test]
    fn a_warning_switched_off_is_found() {
        let what = "switched off; delete what is not used";
        assert_eq!(findings("#[allow(dead_code)]\n"), [format!("a.rs:1: `dead_code` {what}")]);
        let text = "#![allow(\n    missing_docs,\n    unused_imports\n)]\n";
        assert_eq!(findings(text), [format!("a.rs:1: `unused_imports` {what}")]);
    }

    #[test]
    fn code_in_a_comment_is_found() {
        for code in ["let x = 1;", "f(x);", "x.y = z;", "if x {", "}", "use a::b;", "#[test]"] {
            let text = format!("fn f() {{}}\n// {code}\n");
            assert_eq!(findings(&text), ["a.rs:2: code in a comment"], "{code}");
        }
    }
}
