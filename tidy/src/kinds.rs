//! Each file of Rust is counted as what it is by `.ci/count`: as product code if it is built into
//! the product, and else as one of the kinds that the list there names.

use std::collections::BTreeMap;

use crate::repo::{Finding, Repo};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let Some(kinds) = repo.text(COUNT).and_then(Kinds::read) else {
        return vec![Finding::new(COUNT, 0, "has no list of kinds")];
    };
    let modules = Modules::of(repo);
    let mut findings = Vec::new();
    for (path, _) in repo.ending(".rs") {
        let kind = kinds.of(path);
        let what = match (kind, modules.is_built(path)) {
            (_, None) if !path.contains("/src/") => continue,
            (None, Some(false)) => "is built for tests alone; what kind is it?".to_owned(),
            (None, None) => "is product code, but no module".to_owned(),
            (Some(kind), Some(true)) if BUILT_FOR_TESTS.contains(&kind) => {
                format!("is built into the product, and counted among {kind}")
            }
            _ => continue,
        };
        findings.push(Finding::new(path, 0, what));
    }
    for (at, (kind, part)) in kinds.0.iter().enumerate() {
        let first = |path: &str| kinds.rule(path) == Some(at);
        if !repo.ending(".rs").any(|(path, _)| first(path)) {
            findings.push(Finding::new(COUNT, 0, format!("no file is {kind} by {part}")));
        }
    }
    findings
}

const COUNT: &str = ".ci/count";
/// The kinds whose modules are built under a condition. Benchmarks and applications are programs,
/// and of a fault nothing remains outside of tests.
const BUILT_FOR_TESTS: [&str; 3] = ["tests", "fuzzing", "conformance"];

/// A kind, and the part of a path by which a file is of it; the first that fits counts.
struct Kinds<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Kinds<'a> {
    fn read(script: &'a str) -> Option<Self> {
        let list = script.split_once("\nkinds='\n")?.1.split_once("\n'\n")?.0;
        let rule = |line: &'a str| line.split_once(' ').map(|(kind, part)| (kind, part.trim()));
        list.lines().map(rule).collect::<Option<_>>().map(Self)
    }

    fn rule(&self, path: &str) -> Option<usize> {
        let path = format!("/{path}");
        self.0.iter().position(|(_, part)| path.contains(part))
    }

    fn of(&self, path: &str) -> Option<&'a str> {
        self.rule(path).map(|at| self.0[at].0)
    }
}

/// By the file of a module: the file that declares it, and whether always.
struct Modules(BTreeMap<String, (String, bool)>);

impl Modules {
    fn of(repo: &Repo) -> Self {
        let mut modules = BTreeMap::new();
        for (path, text) in repo.ending(".rs").filter(|(path, _)| path.contains("/src/")) {
            let folder = folder_below(path);
            for (name, always) in declared(text) {
                for file in [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")] {
                    modules.insert(file, (path.to_owned(), always));
                }
            }
        }
        Self(modules)
    }

    /// Whether a file is part of what users build; `None` if no crate has it.
    fn is_built(&self, path: &str) -> Option<bool> {
        let is_root = |path: &str| {
            ["/src/lib.rs", "/src/main.rs"].iter().any(|end| path.ends_with(end))
                || path.contains("/src/bin/")
        };
        let (mut at, mut always) = (path, true);
        while !is_root(at) {
            let (parent, unconditional) = self.0.get(at)?;
            (at, always) = (parent, always && *unconditional);
        }
        Some(always)
    }
}

/// Where the modules are that the file at `path` declares.
fn folder_below(path: &str) -> &str {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder,
        _ => path.trim_end_matches(".rs"),
    }
}

/// The modules that a text declares, and whether each is always built.
fn declared(text: &str) -> Vec<(&str, bool)> {
    let (mut modules, mut always) = (Vec::new(), true);
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[cfg(") {
            always &= !is_for_tests(line);
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            let name = line.strip_suffix(';').and_then(|item| item.rsplit_once("mod "));
            modules.extend(name.map(|(_, name)| (name, always)));
            always = true;
        }
    }
    modules
}

/// Whether a condition holds in tests, or with a feature that is for them.
fn is_for_tests(line: &str) -> bool {
    let of_feature = |text: &str| {
        let name = text.strip_prefix("feature = \"").and_then(|rest| rest.split('"').next());
        name.is_some_and(|name| FOR_TESTS.contains(&name))
    };
    line == "#[cfg(test)]"
        || line.strip_prefix("#[cfg(").is_some_and(of_feature)
        || line.strip_prefix("#[cfg(any(test, ").is_some_and(of_feature)
}

/// Features that the product is not built with; others are for who uses it.
const FOR_TESTS: [&str; 4] = ["conformance", "fuzzing", "heap", "limits"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    const LIST: &str = "kinds of files\nkinds='\ntests  /tests/\ntests  /tests.rs\n'\nawk";
    const LIB: &str = "mod a;\n#[cfg(test)]\nmod tests;\n";

    #[test]
    fn a_file_that_is_counted_as_what_it_is_not_is_found() {
        let a =
            "#[cfg(any(test, feature = \"fuzzing\"))]\n#[doc(hidden)]\npub mod puppet;\nmod b;\n";
        let repo = Repo::of(&[
            (".ci/count", LIST),
            ("x/src/lib.rs", LIB),
            ("x/src/tests.rs", ""),
            ("x/src/a.rs", a),
            ("x/src/a/puppet.rs", "mod inner;\n"),
            ("x/src/a/puppet/inner.rs", ""),
            ("x/src/a/b/mod.rs", "pub(crate) mod tests;\n"),
            ("x/src/a/b/tests.rs", ""),
            ("x/src/stray.rs", ""),
            ("x/tests/it.rs", ""),
        ]);
        let expected = [
            "x/src/a/b/tests.rs: is built into the product, and counted among tests",
            "x/src/a/puppet.rs: is built for tests alone; what kind is it?",
            "x/src/a/puppet/inner.rs: is built for tests alone; what kind is it?",
            "x/src/stray.rs: is product code, but no module",
        ];
        assert_eq!(told(&check(&repo)), expected);
    }

    #[test]
    fn a_rule_without_files_and_a_list_that_is_gone_are_found() {
        let files = [("x/src/lib.rs", LIB), ("x/src/a.rs", ""), ("x/src/tests.rs", "")];
        let with = |count| Repo::of(&[&files[..], &[(".ci/count", count)]].concat());
        assert_eq!(told(&check(&with(LIST))), [".ci/count: no file is tests by /tests/"]);
        assert_eq!(told(&check(&with("awk"))), [".ci/count: has no list of kinds"]);
    }
}
