//! What a program is told from outside: by variables of its environment and by a file.
//!
//! What the program says itself counts first, then the environment, then the file, then
//! the default.
//!
//! ```
//! use std::path::Path;
//! use egret_node::settings::{Origin, Settings};
//!
//! let environment = [("EGRET_SIZE".to_owned(), "4".to_owned())];
//! let settings = Settings::read_from(environment, Path::new("/"))?;
//! let size = settings.all().into_iter().find(|setting| setting.name == "size").unwrap();
//! assert_eq!((size.value.as_deref(), size.origin), (Some("4"), Origin::Environment));
//! # Ok::<(), egret_node::settings::SettingsError>(())
//! ```

mod descriptor;
mod file;
mod known;
mod secret;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub use descriptor::{leave_secret, start_with_secret};
use egret_net::vi::Secret;
pub(crate) use known::Key;
pub(crate) use secret::read as read_secret_file;
use thiserror::Error;
pub(crate) use value::{FabricList, Value};
use zeroize::Zeroizing;

/// What a program is told from outside, and what it says itself.
#[derive(Clone, Default)]
pub struct Settings {
    said: BTreeMap<Key, (String, Origin)>,
    /// Apart, so that it is never shown.
    secret: Option<(Secret, Origin)>,
    /// A secret that was looked for and not taken: whether it is there, and who hands it over.
    left: Option<(bool, Origin)>,
    unknown: Vec<String>,
}

/// One setting, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// Its name in a file.
    pub name: &'static str,
    /// Its variable of the environment.
    pub variable: &'static str,
    /// What it is; of a secret only that there is one.
    pub value: Option<String>,
    /// Who said so.
    pub origin: Origin,
    /// What it is for.
    pub help: &'static str,
    /// What is wrong with it: no node joins with such a value.
    pub wrong: Option<String>,
}

/// Who has said what a setting is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nobody.
    Default,
    /// A file.
    File(PathBuf),
    /// The environment.
    Environment,
    /// The environment, by a pipe of this number.
    Descriptor(u32),
    /// The program.
    Code,
}

/// What a program would be told, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// All settings there are.
    pub settings: Vec<Setting>,
    /// Variables of the environment that look like settings and are none.
    pub unknown: Vec<String>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment => f.write_str("environment"),
            Self::Descriptor(number) => write!(f, "descriptor {number}"),
            Self::Code => f.write_str("program"),
        }
    }
}

/// Why a setting cannot be used.
///
/// `Debug` writes what `Display` does: it is what people see of an error that `main` returns.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// It means nothing.
    #[error("{name} = {value:?} ({origin}): {why}")]
    Bad {
        /// Which.
        name: &'static str,
        /// What it was said to be.
        value: String,
        /// By whom.
        origin: Origin,
        /// What is wrong with it.
        why: String,
    },
    /// There is no default.
    #[error(
        "{name} is not set: start the program with `egret run -n N PROGRAM`, which sets it, \
         or set {variable}, or say `Config::{name}(…)`"
    )]
    Missing {
        /// Which.
        name: &'static str,
        /// Its variable.
        variable: &'static str,
    },
    /// A file cannot be read.
    #[error("{}: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A line of a file is no setting.
    #[error("{}:{line}: {why}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A secret is empty.
    #[error(
        "the secret ({said}) is empty, and an empty secret is everybody's; say a random one, \
         `egret1.` and 64 hexadecimal digits, or do not set it at all"
    )]
    EmptySecret {
        /// Where it is said.
        said: String,
    },
    /// A secret begins like a random one, and is none.
    #[error(
        "the secret ({said}) begins like a random one, and is not whole: `egret1.` and 64 hexadecimal \
         digits are expected, and behind a point 64 more if it says the registry's key"
    )]
    DamagedSecret {
        /// Where it is said.
        said: String,
    },
    /// A secret is a key.
    #[error(
        "the secret ({said}) looks like a private key: the file FILE.key that `egret secret FILE` \
         makes is for the registry, and FILE for nodes"
    )]
    KeyAsSecret {
        /// Where it is said.
        said: String,
    },
    /// A file with a secret can be read or written by others than its owner.
    #[error(
        "{}: it holds a secret, and its mode {mode:04o} lets others than its owner use it; \
         `chmod 600 {}` mends that",
        path.display(), path.display()
    )]
    SecretOpen {
        /// Which.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file with a secret belongs to another user, who can read and change it.
    #[error(
        "{}: it holds a secret and belongs to user {owner}, and this process to user {user}; \
         the file must be the process's own, or root's",
        path.display()
    )]
    SecretOwner {
        /// Which.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// A secret that was handed over in a pipe is not there any more.
    #[error(
        "EGRET_SECRET_FD hands over a secret, and descriptor {number} {found}: the secret was taken \
         already, or the pipe was not passed on. The first program of a process of `egret run` takes \
         it, for itself alone; process {parent} ({name}) started this one. Join in one program of \
         each process, pass the descriptor on (`pass_fds` in Python), or give this program a \
         secret by EGRET_SECRET_FILE"
    )]
    SecretTaken {
        /// The descriptor.
        number: String,
        /// What it is now.
        found: &'static str,
        /// The process that started this one, 0 if that is not to be seen.
        parent: i32,
        /// Its name.
        name: String,
    },
    /// A pipe with a secret cannot be read.
    #[error("EGRET_SECRET_FD={said} hands over a secret in a pipe that cannot be read: {why}")]
    SecretPipe {
        /// What the variable says.
        said: String,
        /// Why not.
        why: String,
    },
    /// A variable of the environment is no text.
    #[error("{variable} is not valid UTF-8")]
    NotText {
        /// Which.
        variable: String,
    },
}

impl fmt::Debug for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Settings {
    /// Those of this process: its environment, and the file that it names, or else
    /// `egret.toml` in the working directory or in the user's directory of configuration.
    ///
    /// A secret that is handed over in a pipe (`EGRET_SECRET_FD`) is taken out of it, and kept
    /// for whatever reads the settings in this process later.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or says what is no setting; and if there is something
    /// wrong with the secret: nobody goes without the one that was meant.
    pub fn read() -> Result<Self, SettingsError> {
        Self::read_with(own_environment()?, Path::new(""), Pipe::Take)
    }

    /// What [`read`](Self::read) would find, for people. A secret in a pipe stays there.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn report() -> Result<Report, SettingsError> {
        let settings = Self::read_with(own_environment()?, Path::new(""), Pipe::Leave)?;
        Ok(Report { settings: settings.all(), unknown: settings.unknown })
    }

    /// Those of an environment and a working directory.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn read_from(
        environment: impl IntoIterator<Item = (String, String)>,
        directory: &Path,
    ) -> Result<Self, SettingsError> {
        Self::read_with(environment.into_iter().collect(), directory, Pipe::Take)
    }

    fn read_with(
        mut environment: BTreeMap<String, String>,
        directory: &Path,
        pipe: Pipe,
    ) -> Result<Self, SettingsError> {
        let mut settings = Self::default();
        if let Some(path) = file::find(&environment, directory)? {
            for (key, value) in file::read(&path)? {
                settings.say_nonempty(key, value, Origin::File(path.clone()))?;
            }
        }
        for key in Key::ALL {
            if let Some(value) = environment.remove(key.variable()) {
                settings.say_nonempty(key, value, Origin::Environment)?;
            }
        }
        settings.unknown = environment.into_keys().filter(|name| is_unknown(name)).collect();
        settings.read_pipe(pipe)?;
        settings.read_secret(directory)?;
        Ok(settings)
    }

    /// All settings there are.
    #[must_use]
    pub fn all(&self) -> Vec<Setting> {
        Key::ALL.into_iter().map(|key| self.setting(key)).collect()
    }

    /// Variables of the environment that look like settings and are none.
    #[must_use]
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    fn setting(&self, key: Key) -> Setting {
        let (value, origin) = match (key, &self.secret, self.said.get(&key)) {
            (Key::Secret, Some((_, origin)), _) => (Some("(not shown)".to_owned()), origin.clone()),
            (Key::Secret, None, _) => match &self.left {
                Some((true, origin)) => (Some("(not shown)".to_owned()), origin.clone()),
                Some((false, origin)) => (Some("(taken already)".to_owned()), origin.clone()),
                None => (None, Origin::Default),
            },
            (_, _, Some((value, origin))) => (Some(value.clone()), origin.clone()),
            (_, _, None) => (key.default().map(str::to_owned), Origin::Default),
        };
        let (name, variable, help) = (key.name(), key.variable(), key.help());
        let wrong = value.as_deref().and_then(|value| key.check(value).err());
        Setting { name, variable, value, origin, help, wrong }
    }

    /// Somebody outside says what a setting is. What is said of the secret means one.
    fn say_nonempty(
        &mut self,
        key: Key,
        value: String,
        origin: Origin,
    ) -> Result<(), SettingsError> {
        match key {
            Key::Secret => {
                let said = match &origin {
                    Origin::Environment => key.variable().to_owned(),
                    origin => origin.to_string(),
                };
                let value = Zeroizing::new(value);
                if value.trim().is_empty() {
                    return Err(SettingsError::EmptySecret { said });
                }
                self.secret = Some((secret::parse(value.as_bytes(), &said)?, origin));
                Ok(())
            }
            Key::SecretFile if value.is_empty() => {
                let (name, why) = (key.name(), "it is empty, and names no file".to_owned());
                Err(SettingsError::Bad { name, value, origin, why })
            }
            _ => {
                self.say(key, value, origin);
                Ok(())
            }
        }
    }

    /// Somebody says what a setting is.
    pub(crate) fn say(&mut self, key: Key, value: String, origin: Origin) {
        match key {
            Key::Secret => {
                let value = Zeroizing::new(value);
                self.secret = Some((Secret::from(value.as_str()), origin));
            }
            key => drop(self.said.insert(key, (value, origin))),
        }
    }

    /// Whether somebody has said what a setting is.
    pub(crate) fn is_said(&self, key: Key) -> bool {
        self.said.contains_key(&key)
    }

    pub(crate) fn set_secret(&mut self, secret: Secret) {
        self.secret = Some((secret, Origin::Code));
    }

    /// The secret, if there is one.
    pub(crate) fn secret(&self) -> Result<Option<Secret>, SettingsError> {
        match &self.secret {
            Some((secret, origin)) if secret.is_empty() => {
                Err(SettingsError::EmptySecret { said: origin.to_string() })
            }
            said => Ok(said.as_ref().map(|(secret, _)| secret.clone())),
        }
    }

    /// What a setting is; its default if nobody has said so.
    pub(crate) fn value<T: Value>(&self, key: Key) -> Result<Option<T>, SettingsError> {
        let Setting { name, value: Some(value), origin, .. } = self.setting(key) else {
            return Ok(None);
        };
        let bad = |why| SettingsError::Bad { name, value: value.clone(), origin, why };
        T::read(&value).map(Some).map_err(bad)
    }

    /// What a setting is, which somebody must have said.
    pub(crate) fn needed<T: Value>(&self, key: Key) -> Result<T, SettingsError> {
        let missing = SettingsError::Missing { name: key.name(), variable: key.variable() };
        self.value(key)?.ok_or(missing)
    }

    /// The secret may be in a pipe, if the environment does not say it by itself.
    fn read_pipe(&mut self, pipe: Pipe) -> Result<(), SettingsError> {
        let Some((said, _)) = self.said.get(&Key::SecretFd) else { return Ok(()) };
        if matches!(self.secret, Some((_, Origin::Environment))) {
            return Ok(());
        }
        match pipe {
            Pipe::Take => self.secret = Some(descriptor::take(said)?),
            Pipe::Leave => {
                self.secret = None;
                self.left = Some(descriptor::look(said)?);
            }
        }
        Ok(())
    }

    /// The secret may be in a file of its own, if nobody has said it in the same place.
    fn read_secret(&mut self, directory: &Path) -> Result<(), SettingsError> {
        let Some((path, origin)) = self.said.get(&Key::SecretFile).cloned() else { return Ok(()) };
        let said = self.secret.as_ref().map(|(_, origin)| origin);
        let said = said.or(self.left.as_ref().map(|(_, origin)| origin));
        let is_nearer = matches!(said, Some(Origin::Environment | Origin::Descriptor(_)));
        if is_nearer || said == Some(&origin) {
            return Ok(());
        }
        let path = directory.join(path);
        let bytes = secret::read(&path).map_err(|why| match why {
            SettingsError::File { path, why } => {
                let why = format!("{why} ({} names it, {origin})", Key::SecretFile.name());
                SettingsError::File { path, why }
            }
            why => why,
        })?;
        if bytes.trim_ascii().is_empty() {
            return Err(SettingsError::EmptySecret { said: path.display().to_string() });
        }
        let secret = secret::parse(bytes.trim_ascii_end(), &path.display().to_string())?;
        self.secret = Some((secret, origin));
        Ok(())
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.all().into_iter().filter(|setting| setting.origin != Origin::Default);
        f.debug_map().entries(said.map(|setting| (setting.name, setting.value))).finish()
    }
}

/// What happens to a secret that is handed over in a pipe.
#[derive(Debug, Clone, Copy)]
enum Pipe {
    Take,
    Leave,
}

fn own_environment() -> Result<BTreeMap<String, String>, SettingsError> {
    let mut environment = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => drop(environment.insert(name, value)),
            (Ok(variable), Err(_)) if Key::is_variable(&variable) => {
                return Err(SettingsError::NotText { variable });
            }
            _ => {}
        }
    }
    Ok(environment)
}

fn is_unknown(variable: &str) -> bool {
    let is_other = OTHERS.contains(&variable) || variable.starts_with("EGRET_TEST_");
    variable.starts_with("EGRET_") && !Key::is_variable(variable) && !is_other
}

/// Variables for simulated worlds and for tests.
const OTHERS: [&str; 3] = ["EGRET_SEED", "EGRET_SEEDS", "EGRET_ROUNDS"];
