//! Functions that a reader can hold in mind. A file has one concept and no limit of lines.

use crate::repo::{Finding, Repo};
use crate::source::{Source, Token};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    functions(repo)
}

/// Past this a function is usually several.
const FUNCTION_LINES_MAX: usize = 70;

fn functions(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repo.ending(".rs") {
        let source = Source::split(text);
        let tokens = source.tokens();
        for at in (0..tokens.len()).filter(|at| tokens[*at].text == "fn") {
            let lines = length(&tokens[at..]);
            if lines > FUNCTION_LINES_MAX {
                let name = tokens[at + 1].text;
                let what = format!("`{name}` has {lines} lines; at most {FUNCTION_LINES_MAX}");
                findings.push(Finding::new(path, tokens[at].line, what));
            }
        }
    }
    findings
}

/// The lines from `fn` to the brace that ends the body; zero without a body,
/// and for the type of a function.
fn length(tokens: &[Token<'_>]) -> usize {
    if tokens.get(1).is_none_or(|name| !name.is_word() && name.text != "$") {
        return 0;
    }
    let mut depth = 0_usize;
    for token in tokens {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "}" if depth == 1 => return token.line - tokens[0].line + 1,
            "}" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => return 0,
            _ => (),
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    fn function_of(lines: usize) -> String {
        let body = "    step(\"}\", '}'); // }\n".repeat(lines - 2);
        format!("trait T {{ fn g(); }}\nfn f(a: [u8; 2]) -> fn() {{\n{body}}}\n")
    }

    #[test]
    fn a_long_function_is_found() {
        let repo = Repo::of(&[("a.rs", &function_of(70)), ("b.rs", &function_of(71))]);
        assert_eq!(told(&check(&repo)), ["b.rs:2: `f` has 71 lines; at most 70"]);
    }
}
