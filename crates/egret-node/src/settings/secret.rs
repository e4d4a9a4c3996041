//! Files with a secret in them: only who may know the secret may read or change them.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::SettingsError;

/// What such a file says.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, SettingsError> {
    let (mut file, mut bytes) = (open(path)?, Vec::new());
    file.read_to_end(&mut bytes).map_err(|why| failed(path, &why))?;
    Ok(bytes)
}

/// Whether a file that turns out to say a secret may say one.
pub(super) fn check(path: &Path) -> Result<(), SettingsError> {
    open(path).map(drop)
}

/// A link to the file will do: what is looked at is the very file that is read.
fn open(path: &Path) -> Result<File, SettingsError> {
    let file = File::open(path).map_err(|why| failed(path, &why))?;
    let is = file.metadata().map_err(|why| failed(path, &why))?;
    if is.is_dir() {
        return Err(failed(path, &std::io::ErrorKind::IsADirectory.into()));
    }
    let (mode, path) = (is.mode() & 0o7777, path.to_owned());
    if mode & OTHERS != 0 {
        return Err(SettingsError::SecretOpen { path, mode });
    }
    let (owner, user) = (is.uid(), rustix::process::geteuid().as_raw());
    if owner != user && owner != ROOT {
        return Err(SettingsError::SecretOwner { path, owner, user });
    }
    Ok(file)
}

fn failed(path: &Path, why: &std::io::Error) -> SettingsError {
    SettingsError::File { path: path.to_owned(), why: why.to_string() }
}

/// What group and world may do.
const OTHERS: u32 = 0o077;
/// Who reads every file anyway.
const ROOT: u32 = 0;
