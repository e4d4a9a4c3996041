//! Functions that wait and take a duration as well as a `Deadline`.

use crate::repo::{Finding, Repo};
use crate::source::Source;

/// Public functions of the libraries with a parameter of the type `Deadline`: it should be
/// `impl Into<Deadline>`.
pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    let sources = repo.ending(".rs").filter(|(path, _)| {
        path.starts_with("crates/") && path.contains("/src/") && !path.contains("/tests")
    });
    for (path, text) in sources {
        let source = Source::split(text);
        let tokens = source.tokens();
        for at in 1..tokens.len() {
            if tokens[at].text != "fn" || tokens[at - 1].text != "pub" {
                continue;
            }
            let parameters =
                tokens[at..].iter().take_while(|token| !["{", ";"].contains(&token.text));
            let before_result: Vec<_> = parameters.map(|token| token.text).collect();
            let end = before_result.windows(2).position(|two| two == ["-", ">"]);
            let parameters = &before_result[..end.unwrap_or(before_result.len())];
            if parameters.windows(2).any(|two| two == [":", "Deadline"]) {
                let what =
                    format!("`{}` takes a `Deadline`; `impl Into<Deadline>`", tokens[at + 1].text);
                findings.push(Finding::new(path, tokens[at].line, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    #[test]
    fn a_wait_that_takes_no_duration_is_found() {
        let text = "pub fn a(d: Deadline) {}\npub fn b(d: impl Into<Deadline>) {}\n\
                    fn c(d: Deadline) {}\npub fn e() -> Deadline { F { d: Deadline } }\n";
        let repo = Repo::of(&[("crates/x/src/a.rs", text), ("crates/x/src/tests/a.rs", text)]);
        let expected = ["crates/x/src/a.rs:1: `a` takes a `Deadline`; `impl Into<Deadline>`"];
        assert_eq!(told(&check(&repo)), expected);
    }
}
