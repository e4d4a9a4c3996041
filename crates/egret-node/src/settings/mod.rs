//! Settings of a program: from its code, the environment and a file.
//!
//! The value of the program's code takes precedence, then that of the environment, then that of the
//! file, then the default.
//!
//! ```
//! use std::path::Path;
//! use egret_node::settings::{Origin, Settings};
//!
//! let environment = [("EGRET_SIZE".to_owned(), "4".to_owned())];
//! let settings = Settings::read_from(environment, Path::new("/"))?;
//! let size = settings.all().into_iter().find(|setting| setting.name == "size").unwrap();
//! assert_eq!((size.value.as_deref(), size.origin), (Some("4"), Origin::Environment));
//! # Ok::<(), egret_node::node::JoinError>(())
//! ```

pub(crate) mod config;
mod descriptor;
mod file;
mod known;
mod launched;
mod node_list;
mod secret;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

pub(crate) use config::Config;
pub use descriptor::{leave_secret, start_with_secret};
use egret_net::rt::Deadline;
use egret_net::vi::Secret;
pub(crate) use known::SettingKey;
pub(crate) use launched::{LaunchedTask, RegistryPlace};
pub use node_list::expand_node_list;
pub(crate) use secret::read as read_secret_file;
pub(crate) use value::{FabricList, SettingValue};
use zeroize::Zeroizing;

pub use crate::pool::Origin;
use crate::pool::{JoinError, Location};

/// The settings of a program; the [module](self) has an example.
#[derive(Clone, Default)]
pub struct Settings {
    said: BTreeMap<SettingKey, (String, Origin)>,
    /// The secret, apart from the others so that it is never shown.
    secret: Option<(Secret, Origin)>,
    /// A secret in a pipe that was not taken: whether it is there, and its origin.
    left: Option<(bool, Origin)>,
    unknown: Vec<String>,
    /// What a launcher of another kind than `egret run` says of this process.
    task: Option<LaunchedTask>,
}

/// One setting, to be shown.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The name of the setting in a file.
    pub name: &'static str,
    /// The variable of the environment.
    pub variable: &'static str,
    /// The value; of a secret only that there is one.
    pub value: Option<String>,
    /// Where the value comes from.
    pub origin: Origin,
    /// What it is for.
    pub help: &'static str,
    /// What is wrong with the value: no node joins with it.
    pub wrong: Option<String>,
}

/// All settings of this process, to be shown.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettingsReport {
    /// All settings there are.
    pub settings: Vec<Setting>,
    /// Variables of the environment that look like settings and are none.
    pub unknown: Vec<String>,
}

impl Settings {
    /// The settings of this process: its environment, and the file that it names, or else
    /// `egret.toml` in the working directory or in the user's directory of configuration.
    ///
    /// A secret that is handed over in a pipe (`EGRET_SECRET_FD`) is taken out of it, and kept
    /// for whatever reads the settings in this process later.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or says what is no setting; and if there is something
    /// wrong with the secret: no program runs without the one that was meant.
    pub fn read() -> Result<Self, JoinError> {
        Self::read_with(own_environment()?, Path::new(""), PipeUse::Take)
    }

    /// The settings that [`read`](Self::read) would find, to be shown. A secret in a pipe stays there.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn report() -> Result<SettingsReport, JoinError> {
        let settings = Self::read_with(own_environment()?, Path::new(""), PipeUse::Leave)?;
        Ok(SettingsReport { settings: settings.all(), unknown: settings.unknown })
    }

    /// The settings of an environment and a working directory.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn read_from(
        environment: impl IntoIterator<Item = (String, String)>,
        directory: &Path,
    ) -> Result<Self, JoinError> {
        Self::read_with(environment.into_iter().collect(), directory, PipeUse::Take)
    }

    fn read_with(
        mut environment: BTreeMap<String, String>,
        directory: &Path,
        pipe: PipeUse,
    ) -> Result<Self, JoinError> {
        let mut settings = Self::default();
        settings.read_texts(&mut environment, directory)?;
        if !settings.is_said(SettingKey::Location)
            && let Some(location) = Location::of_slurm(&environment)
        {
            settings.say(SettingKey::Location, location.to_string(), Origin::Environment);
        }
        if !WHO_AND_WHERE.iter().any(|key| settings.is_said(*key))
            && let Some(task) = LaunchedTask::of(&environment)
        {
            settings.launch(task);
        }
        settings.unknown = environment.into_keys().filter(|name| is_unknown(name)).collect();
        settings.read_pipe(pipe)?;
        settings.read_secret(directory)?;
        Ok(settings)
    }

    /// Reads the file, and takes the variables of settings out of the environment.
    fn read_texts(
        &mut self,
        environment: &mut BTreeMap<String, String>,
        directory: &Path,
    ) -> Result<(), JoinError> {
        if let Some(path) = file::find(environment, directory)? {
            for (key, value) in file::read(&path)? {
                self.say_nonempty(key, value, Origin::File(path.clone()))?;
            }
        }
        for key in SettingKey::ALL {
            if let Some(value) = environment.remove(key.variable()) {
                self.say_nonempty(key, value, Origin::Environment)?;
            }
        }
        Ok(())
    }

    /// All settings there are.
    #[must_use]
    pub fn all(&self) -> Vec<Setting> {
        let mut all: Vec<_> = SettingKey::ALL.into_iter().map(|key| self.setting(key)).collect();
        if let Some(task) = &self.task
            && let Some(registry) = all.iter_mut().find(|setting| setting.name == "registry")
            && registry.value.is_none()
        {
            registry.value = Some("(where rank 0 opens it)".to_owned());
            registry.origin = task.by.clone();
        }
        all
    }

    /// Whether another launcher than `egret run` has started this process as one of several: `srun` or `mpiexec`.
    #[doc(hidden)]
    #[must_use]
    pub fn is_task() -> bool {
        let read = || Self::read_with(own_environment()?, Path::new(""), PipeUse::Leave);
        read().is_ok_and(|settings| settings.task().is_some())
    }

    /// How long a job stands still until its launcher says who waits for whom, by the environment and the file of this
    /// process.
    ///
    /// # Errors
    ///
    /// If the setting is no time, or the file cannot be read.
    #[doc(hidden)]
    pub fn stall() -> Result<Deadline, JoinError> {
        let mut environment = own_environment()?;
        // A launcher joins no pool, and leaves the secret of one that started it alone.
        let others = SettingKey::ALL.into_iter();
        let others = others.filter(|key| !matches!(key, SettingKey::Stall | SettingKey::Config));
        others.for_each(|key| _ = environment.remove(key.variable()));
        let mut settings = Self::default();
        settings.read_texts(&mut environment, Path::new(""))?;
        settings.needed(SettingKey::Stall)
    }

    /// Variables of the environment that look like settings and are none.
    #[must_use]
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    fn setting(&self, key: SettingKey) -> Setting {
        let (value, origin) = match (key, &self.secret, self.said.get(&key)) {
            (SettingKey::Secret, Some((_, origin)), _) => {
                (Some("(not shown)".to_owned()), origin.clone())
            }
            (SettingKey::Secret, None, _) => match &self.left {
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

    /// Sets a setting of the environment or the file; an empty secret is an error.
    fn say_nonempty(
        &mut self,
        key: SettingKey,
        value: String,
        origin: Origin,
    ) -> Result<(), JoinError> {
        match key {
            SettingKey::Secret => {
                let said = match &origin {
                    Origin::Environment => key.variable().to_owned(),
                    origin => origin.to_string(),
                };
                let value = Zeroizing::new(value);
                if value.trim().is_empty() {
                    return Err(JoinError::EmptySecret { said });
                }
                self.secret = Some((secret::parse(value.as_bytes(), &said)?, origin));
                Ok(())
            }
            SettingKey::SecretFile if value.is_empty() => {
                let (name, why) = (key.name(), "it is empty, and names no file".to_owned());
                Err(JoinError::BadSetting { name, value, origin, why })
            }
            _ => {
                self.say(key, value, origin);
                Ok(())
            }
        }
    }

    /// Sets a setting.
    pub(crate) fn say(&mut self, key: SettingKey, value: String, origin: Origin) {
        if key == SettingKey::Registry && origin == Origin::Code {
            self.leave_launched();
        }
        match key {
            SettingKey::Secret => {
                let value = Zeroizing::new(value);
                self.secret = Some((Secret::from(value.as_str()), origin));
            }
            key => drop(self.said.insert(key, (value, origin))),
        }
    }

    /// What a launcher of another kind than `egret run` says of this process, if nothing nearer says who it is and where
    /// the registry is.
    pub(crate) const fn task(&self) -> Option<&LaunchedTask> {
        self.task.as_ref()
    }

    /// Whether a setting is set.
    pub(crate) fn is_said(&self, key: SettingKey) -> bool {
        self.said.contains_key(&key)
    }

    pub(crate) fn set_secret(&mut self, secret: Secret) {
        self.secret = Some((secret, Origin::Code));
    }

    /// The secret, if there is one.
    ///
    /// # Errors
    ///
    /// If it is empty.
    #[doc(hidden)]
    pub fn secret(&self) -> Result<Option<Secret>, JoinError> {
        match &self.secret {
            Some((secret, origin)) if secret.is_empty() => {
                Err(JoinError::EmptySecret { said: origin.to_string() })
            }
            said => Ok(said.as_ref().map(|(secret, _)| secret.clone())),
        }
    }

    /// The value of a setting, or its default.
    pub(crate) fn value<T: SettingValue>(&self, key: SettingKey) -> Result<Option<T>, JoinError> {
        let Setting { name, value: Some(value), origin, .. } = self.setting(key) else {
            return Ok(None);
        };
        let bad = |why| JoinError::BadSetting { name, value: value.clone(), origin, why };
        T::read(&value).map(Some).map_err(bad)
    }

    /// The value of a setting that has no default, or an error if it is not set.
    pub(crate) fn needed<T: SettingValue>(&self, key: SettingKey) -> Result<T, JoinError> {
        let missing = JoinError::MissingSetting { name: key.name(), variable: key.variable() };
        self.value(key)?.ok_or(missing)
    }

    /// Reads the secret out of a pipe, unless the environment has the secret itself.
    fn read_pipe(&mut self, pipe: PipeUse) -> Result<(), JoinError> {
        let Some((said, _)) = self.said.get(&SettingKey::SecretFd) else { return Ok(()) };
        if matches!(self.secret, Some((_, Origin::Environment))) {
            return Ok(());
        }
        match pipe {
            PipeUse::Take => self.secret = Some(descriptor::take(said)?),
            PipeUse::Leave => {
                self.secret = None;
                self.left = Some(descriptor::look(said)?);
            }
        }
        Ok(())
    }

    /// Reads the secret out of a file of its own, unless a nearer source has it.
    fn read_secret(&mut self, directory: &Path) -> Result<(), JoinError> {
        let Some((path, origin)) = self.said.get(&SettingKey::SecretFile).cloned() else {
            return Ok(());
        };
        let said = self.secret.as_ref().map(|(_, origin)| origin);
        let said = said.or(self.left.as_ref().map(|(_, origin)| origin));
        let is_nearer = matches!(said, Some(Origin::Environment | Origin::Descriptor(_)));
        if is_nearer || said == Some(&origin) {
            return Ok(());
        }
        let path = directory.join(path);
        let bytes = secret::read(&path).map_err(|why| match why {
            JoinError::File { path, why } => {
                let why = format!("{why} ({} names it, {origin})", SettingKey::SecretFile.name());
                JoinError::File { path, why }
            }
            why => why,
        })?;
        if bytes.trim_ascii().is_empty() {
            return Err(JoinError::EmptySecret { said: path.display().to_string() });
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
enum PipeUse {
    Take,
    Leave,
}

fn own_environment() -> Result<BTreeMap<String, String>, JoinError> {
    let mut environment = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => drop(environment.insert(name, value)),
            (Ok(variable), Err(_)) if SettingKey::is_variable(&variable) => {
                return Err(JoinError::VariableNotText { variable });
            }
            _ => {}
        }
    }
    Ok(environment)
}

fn is_unknown(variable: &str) -> bool {
    let is_other = OTHERS.contains(&variable) || variable.starts_with("EGRET_TEST_");
    variable.starts_with("EGRET_") && !SettingKey::is_variable(variable) && !is_other
}

/// Variables for simulated worlds and for tests, and those by which a job knows its processes.
const OTHERS: [&str; 5] =
    ["EGRET_SEED", "EGRET_SEEDS", "EGRET_ROUNDS", "EGRET_OUTPOST", "EGRET_JOB_RANK"];
/// Who says one of these knows the registry, or is a process of `egret run`.
const WHO_AND_WHERE: [SettingKey; 4] =
    [SettingKey::Registry, SettingKey::Rank, SettingKey::Size, SettingKey::Job];
