//! Text without litter: no spaces at line ends, a newline at the end of the
//! file, no path that exists on one machine only.

use crate::repo::{Finding, Repo};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repo.files() {
        for (index, line) in text.split('\n').enumerate() {
            if line.ends_with(char::is_whitespace) {
                findings.push(Finding::new(path, index + 1, "space at the end of the line"));
            }
            if let Some(folder) = FOLDERS.iter().find(|folder| names_path_in(line, folder)) {
                let what = format!("a path in somebody's `{folder}`");
                findings.push(Finding::new(path, index + 1, what));
            }
        }
        if !text.is_empty() && !text.ends_with('\n') {
            findings.push(Finding::new(path, 0, "no newline at the end"));
        }
    }
    findings
}

/// The folders at the root of a file system that people work in.
const FOLDERS: &[&str] = &["Users", "home", "root", "work"];

/// Whether `line` has an absolute path into `folder`; a path or an address that
/// merely goes through a folder of that name is none.
fn names_path_in(line: &str, folder: &str) -> bool {
    let needle = format!("/{folder}/");
    line.match_indices(&needle).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"._-*~}>)".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    fn findings(text: &str) -> Vec<String> {
        told(&check(&Repo::of(&[("a.md", text)])))
    }

    #[test]
    fn clean_text_passes() {
        assert_eq!(findings(""), [""; 0]);
        assert_eq!(findings("a\n\nhttps://x.y/home/z crates/work/b\n"), [""; 0]);
    }

    #[test]
    fn litter_is_found() {
        assert_eq!(findings("a\nb \n"), ["a.md:2: space at the end of the line"]);
        assert_eq!(findings("a\r\n"), ["a.md:1: space at the end of the line"]);
        assert_eq!(findings("a\nb"), ["a.md: no newline at the end"]);
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        for folder in FOLDERS {
            let expected = [format!("a.md:1: a path in somebody's `{folder}`")];
            for before in ["", "see ", "\"", "(", "file://"] {
                assert_eq!(findings(&format!("{before}/{folder}/me/x\n")), expected);
            }
        }
    }
}
