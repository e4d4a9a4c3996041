//! Whether PROGRAM can be started, before anything is.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use thiserror::Error;

use super::args::Job;
use super::environment;

/// Why PROGRAM cannot be started.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum ProgramError {
    /// A path that leads nowhere.
    #[error("there is no `{}`", .0.display())]
    Missing(PathBuf),
    /// A name that no folder of PATH has, with what may help.
    #[error("no `{name}` in the folders of PATH{hint}")]
    NotInPath { name: String, hint: String },
    /// Something that is no program.
    #[error("`{}` is {why}", .path.display())]
    NoProgram { path: PathBuf, why: &'static str },
}

impl ProgramError {
    /// What a shell exits with.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Missing(_) | Self::NotInPath { .. } => 127,
            Self::NoProgram { .. } => 126,
        }
    }
}

/// Why the program of `job` cannot be started, if one can see it from here.
pub(crate) fn refusal(job: &Job) -> Option<ProgramError> {
    path(job).err()
}

/// The file of the program of `job`.
pub(crate) fn path(job: &Job) -> Result<PathBuf, ProgramError> {
    find(&job.program, &environment::seen(job, "PATH").unwrap_or_default())
}

/// Looks for `program` as `execvp` does.
fn find(program: &OsStr, path: &OsStr) -> Result<PathBuf, ProgramError> {
    let given = Path::new(program);
    if given.as_os_str().as_encoded_bytes().contains(&b'/') {
        return usable(given);
    }
    let mut refused = None;
    for folder in std::env::split_paths(path).filter(|_| !program.is_empty()) {
        match usable(&folder.join(given)) {
            Ok(found) => return Ok(found),
            Err(ProgramError::Missing(_)) => (),
            Err(other) => refused = refused.or(Some(other)),
        }
    }
    let name = program.to_string_lossy().into_owned();
    let here = given.is_file();
    let hint = if here { format!("; the one here is `./{name}`") } else { String::new() };
    Err(refused.unwrap_or(ProgramError::NotInPath { name, hint }))
}

fn usable(path: &Path) -> Result<PathBuf, ProgramError> {
    let Ok(meta) = path.metadata() else { return Err(ProgramError::Missing(path.to_owned())) };
    let no = |why| Err(ProgramError::NoProgram { path: path.to_owned(), why });
    if meta.is_dir() {
        return no("a folder");
    }
    match access(path, Access::EXEC_OK) {
        Ok(()) => Ok(path.to_owned()),
        Err(_) => no("not executable (chmod +x makes it so)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(program: &str, path: &str) -> String {
        find(OsStr::new(program), OsStr::new(path))
            .map_or_else(|no| no.to_string(), |p| p.display().to_string())
    }

    #[test]
    fn programs_are_found_as_a_shell_does() {
        assert_eq!(told("sh", "/nowhere:/bin"), "/bin/sh");
        assert_eq!(told("/bin/sh", ""), "/bin/sh");
        assert_eq!(told("/nowhere/sh", "/bin"), "there is no `/nowhere/sh`");
        assert_eq!(told("no-such", "/bin"), "no `no-such` in the folders of PATH");
        assert_eq!(told("", "/bin"), "no `` in the folders of PATH");
        let here = "no `Cargo.toml` in the folders of PATH; the one here is `./Cargo.toml`";
        assert_eq!(told("Cargo.toml", "/bin"), here);
        assert_eq!(told("./src", ""), "`./src` is a folder");
        assert!(told("./Cargo.toml", "").contains("not executable"));
        assert_eq!(find(OsStr::new("./src"), OsStr::new("")).unwrap_err().code(), 126);
        assert_eq!(find(OsStr::new("no-such"), OsStr::new("")).unwrap_err().code(), 127);
    }
}
