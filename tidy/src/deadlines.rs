//! Functions that wait and take a duration as well as a `Deadline`.

use crate::repo::{Finding, Repo};
use crate::source::{Source, Token};

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
        for at in (1..tokens.len()).filter(|at| is_public(&tokens, *at)) {
            let signature = tokens[at..].iter().map(|token| token.text);
            let signature: Vec<_> =
                signature.take_while(|text| !["{", ";"].contains(text)).collect();
            let end = signature.windows(2).position(|two| two == ["-", ">"]);
            if takes_deadline(&signature[..end.unwrap_or(signature.len())]) {
                let name = tokens[at + 1].text;
                let what = format!("`{name}` takes a `Deadline`; `impl Into<Deadline>`");
                findings.push(Finding::new(path, tokens[at].line, what));
            }
        }
    }
    findings
}

/// Whether the token is the `fn` of a public function.
fn is_public(tokens: &[Token<'_>], at: usize) -> bool {
    let before = tokens[..at].iter().rev().find(|token| !["const", "async"].contains(&token.text));
    tokens[at].text == "fn" && before.is_some_and(|token| token.text == "pub")
}

/// Whether a parameter is of that type, by whatever path.
fn takes_deadline(parameters: &[&str]) -> bool {
    let is_path = |text: &&&str| **text == "::" || text.starts_with(char::is_alphabetic);
    let colons = (0..parameters.len()).filter(|at| parameters[*at] == ":");
    let mut types = colons.map(|at| parameters[at + 1..].iter().take_while(is_path).last());
    types.any(|last| last == Some(&"Deadline"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    #[test]
    fn a_wait_that_takes_no_duration_is_found() {
        let text = "pub fn a(d: Deadline) {}\npub fn b(d: impl Into<Deadline>) {}\n\
                    fn c(d: Deadline) {}\npub fn e() -> Deadline { F { d: Deadline } }\n\
                    pub async fn g(d: rt::Deadline) {}\n";
        let repo = Repo::of(&[("crates/x/src/a.rs", text), ("crates/x/src/tests/a.rs", text)]);
        let expected = [
            "crates/x/src/a.rs:1: `a` takes a `Deadline`; `impl Into<Deadline>`",
            "crates/x/src/a.rs:5: `g` takes a `Deadline`; `impl Into<Deadline>`",
        ];
        assert_eq!(told(&check(&repo)), expected);
    }
}
