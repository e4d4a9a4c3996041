//! The operator of a registry: the secret of a pool, and the registry's key pair.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use egret_net::vi::{Identity, Secret};

use super::RegistryOptions;
use crate::pool::JoinError;
use crate::settings::read_secret_file;

/// The secret of a pool and the key pair of its registry, which were made together and which the
/// operator of the registry keeps.
///
/// Nodes have the [secret](Self::secret), which names the public half of the key: they join a
/// registry that proves the private half, and no other. A registry that is opened again by the same
/// operator is the same one for them. `egret secret FILE` makes the two files of an operator.
///
/// ```
/// use egret_node::registry::{Operator, Registry, RegistryOptions};
///
/// # let dir = std::env::temp_dir().join(format!("egret-operator-{}", std::process::id()));
/// # std::fs::create_dir(&dir)?;
/// let file = dir.join("secret");
/// Operator::random().save(&file)?;
///
/// let operator = Operator::load(&file)?;
/// let registry = Registry::open(RegistryOptions::new("pool", 2).operator(&operator))?;
/// assert_eq!(registry.secret(), Some(operator.secret()));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Operator {
    secret: Secret,
    identity: Identity,
}

impl Operator {
    /// A new secret and a new key pair.
    ///
    /// # Panics
    ///
    /// If the operating system has no randomness to give.
    #[must_use]
    pub fn random() -> Self {
        let identity = Identity::random();
        Self { secret: Secret::random().with_key(identity.key()), identity }
    }

    /// The secret of the pool with the registry's public key in it, for registry and nodes.
    #[must_use]
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The registry's key pair.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The file of the private key that belongs to the secret in `file`: `file` with `.key` appended.
    #[must_use]
    pub fn key_file(file: &Path) -> PathBuf {
        let mut name = file.as_os_str().to_owned();
        name.push(".key");
        name.into()
    }

    /// Writes two new files that only this user can read: the secret in `file`, for nodes
    /// (`EGRET_SECRET_FILE`), and the private key [beside it](Self::key_file).
    ///
    /// # Errors
    ///
    /// If one of the files is there already, or cannot be written: then neither is left.
    pub fn save(&self, file: &Path) -> io::Result<()> {
        let secret = self.secret.reveal().expect("the secret of an operator is random");
        let key_file = Self::key_file(file);
        write_new(&key_file, &self.identity.reveal())?;
        write_new(file, &secret).inspect_err(|_| drop(fs::remove_file(&key_file)))
    }

    /// Reads the files that [`save`](Self::save) has written.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or others can read it, or the two were not made together.
    pub fn load(file: &Path) -> Result<Self, JoinError> {
        let key_file = Self::key_file(file);
        let wrong =
            |path: &Path, why: &str| JoinError::File { path: path.to_owned(), why: why.to_owned() };
        let text = read_secret_file(file)?;
        let secret = Secret::new(text.trim_ascii());
        if !secret.is_random() {
            return Err(wrong(
                file,
                "it is not the secret of an operator: `egret secret FILE` makes one",
            ));
        }
        let text = read_secret_file(&key_file).map_err(|why| match why {
            JoinError::File { path, why } => {
                let why = format!("{why}; it has the private key of the registry, without which the registry of {} cannot be opened", file.display());
                JoinError::File { path, why }
            }
            why => why,
        })?;
        let identity = str::from_utf8(text.trim_ascii()).ok().and_then(|text| text.parse().ok());
        let identity: Identity = identity
            .ok_or_else(|| wrong(&key_file, "it is not a private key: 64 hexadecimal digits"))?;
        if secret.key() != Some(identity.key()) {
            let why = format!("its key is not the one that {} names", file.display());
            return Err(wrong(&key_file, &why));
        }
        Ok(Self { secret, identity })
    }
}

/// Writes a file that is not there, for this user alone. What cannot be written whole is not left.
pub(super) fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let named = |why: io::Error| {
        let hint = match why.kind() {
            io::ErrorKind::AlreadyExists => "; neither a secret nor a key is ever overwritten",
            _ => "",
        };
        io::Error::new(why.kind(), format!("{}: {why}{hint}", path.display()))
    };
    let mut file =
        File::options().write(true).create_new(true).mode(0o600).open(path).map_err(named)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n"));
    let written = written.and_then(|()| file.sync_all());
    written.map_err(named).inspect_err(|_| drop(fs::remove_file(path)))
}

impl RegistryOptions {
    /// Sets the secret and the key pair of an operator.
    #[must_use]
    pub fn operator(self, operator: &Operator) -> Self {
        self.secret(operator.secret.clone()).identity(operator.identity.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A directory that goes with the value.
    struct Dir(PathBuf);

    impl Dir {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("egret-{test}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_saved_operator_loads_and_is_private() {
        let dir = Dir::new("operator-saved");
        let (file, made) = (dir.0.join("secret"), Operator::random());
        made.save(&file).unwrap();
        for path in [file.clone(), dir.0.join("secret.key")] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, 0o600);
        }
        let loaded = Operator::load(&file).unwrap();
        assert_eq!((loaded.secret(), loaded.identity()), (made.secret(), made.identity()));
        assert_eq!(loaded.secret().key(), Some(made.identity().key()));
        let again = Operator::random().save(&file).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert!(again.to_string().contains("secret.key"), "{again}");
        assert_eq!(
            Operator::load(&file).unwrap().identity(),
            made.identity(),
            "nothing is changed"
        );
    }

    #[test]
    fn half_an_operator_is_not_left() {
        let dir = Dir::new("operator-half");
        let file = dir.0.join("secret");
        fs::write(&file, "somebody's").unwrap();
        assert!(Operator::random().save(&file).is_err());
        assert!(!Operator::key_file(&file).exists());
        assert_eq!(fs::read_to_string(&file).unwrap(), "somebody's");
    }

    #[test]
    fn files_that_do_not_belong_together_are_refused() {
        let dir = Dir::new("operator-mixed");
        let (one, other) = (dir.0.join("one"), dir.0.join("other"));
        Operator::random().save(&one).unwrap();
        Operator::random().save(&other).unwrap();
        fs::copy(Operator::key_file(&other), Operator::key_file(&one)).unwrap();
        let why = Operator::load(&one).unwrap_err().to_string();
        assert!(why.contains("one.key") && why.contains("not the one that"), "{why}");
        fs::write(Operator::key_file(&one), "no key").unwrap();
        assert!(Operator::load(&one).unwrap_err().to_string().contains("64 hexadecimal"));
        let open = fs::Permissions::from_mode(0o640);
        fs::set_permissions(Operator::key_file(&other), open).unwrap();
        let why = Operator::load(&other).unwrap_err();
        assert!(matches!(why, JoinError::SecretOpen { mode: 0o640, .. }), "{why}");
    }
}
