//! The files of the repository, in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fmt, fs, io};

/// Every file by its path from the root, with `/` between the parts.
///
/// A file that is not text is there with an empty text.
#[derive(Default)]
pub(crate) struct Repo {
    files: BTreeMap<String, String>,
}

impl Repo {
    /// The repository this test was built from.
    pub(crate) fn load() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut repo = Self::default();
        repo.read_folder(&root, "")?;
        Ok(repo)
    }

    /// A repository of exactly these files, to plant a violation in.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Self { files: files.collect() }
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// All files, in the order of their paths.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files whose paths end so.
    pub(crate) fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files().filter(move |(path, _)| path.ends_with(end))
    }

    /// The workspace's crates, in the order of their folders.
    pub(crate) fn crates(&self) -> impl Iterator<Item = Crate<'_>> {
        self.files().filter_map(|(path, manifest)| {
            let folder = path.strip_suffix("/Cargo.toml")?;
            Some(Crate { folder, name: crate_in(folder)?, manifest })
        })
    }

    /// Whether the path is a file, or a folder with files in it.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.contains_key(path) || self.files().any(|(file, _)| file.starts_with(&folder))
    }

    fn read_folder(&mut self, folder: &Path, name: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let own_name = entry.file_name().to_string_lossy().into_owned();
            if NOT_OURS.contains(&own_name.as_str()) {
                continue;
            }
            let path = if name.is_empty() { own_name } else { format!("{name}/{own_name}") };
            if entry.file_type()?.is_dir() {
                self.read_folder(&entry.path(), &path)?;
            } else if entry.file_type()?.is_file() {
                let text = String::from_utf8(fs::read(entry.path())?).unwrap_or_default();
                self.files.insert(path, text);
            }
        }
        Ok(())
    }
}

/// A crate of the workspace.
pub(crate) struct Crate<'a> {
    /// Where it is.
    pub(crate) folder: &'a str,
    pub(crate) name: &'a str,
    /// The text of its `Cargo.toml`.
    pub(crate) manifest: &'a str,
}

/// The crate whose folder this is: crates in `crates` have the name of their folder, and two crates
/// stand beside them.
pub(crate) fn crate_in(folder: &str) -> Option<&str> {
    match folder.strip_prefix("crates/") {
        Some(name) if !name.contains('/') => Some(name),
        _ => match folder {
            APPS => Some("egret-apps"),
            TIDY => Some("tidy"),
            _ => None,
        },
    }
}

/// The folder of the applications.
const APPS: &str = "apps";
/// The folder of this crate.
const TIDY: &str = "tidy";

/// Something that should not be there, and where.
#[derive(Debug, PartialEq)]
pub(crate) struct Finding {
    file: String,
    /// Counted from one; zero if it is about the whole file.
    line: usize,
    what: String,
}

impl Finding {
    pub(crate) fn new(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

/// The findings as text, one a line: what the planted tests compare.
#[cfg(test)]
pub(crate) fn told(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(Finding::to_string).collect()
}

/// What git does not keep either.
const NOT_OURS: &[&str] = &[".git", "target"];
