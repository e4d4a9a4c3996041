//! Files that contain a secret: only users who may know the secret may read or change them.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use egret_net::vi::{PublicKey, Secret};
use zeroize::Zeroizing;

use crate::pool::JoinError;

/// Reads a file with a secret.
pub(crate) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, JoinError> {
    let mut file = open(path)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(size(&file)));
    check(&file, path)?;
    file.read_to_end(&mut bytes).map_err(|why| failed(path, &why))?;
    Ok(bytes)
}

/// The secret of a text, unless the text is meant to be another one: a random secret that was not copied
/// whole, or the operator's private key.
pub(crate) fn parse(text: &[u8], said: &str) -> Result<Secret, JoinError> {
    let words = str::from_utf8(text).unwrap_or_default();
    if Secret::is_damaged(words) {
        return Err(JoinError::DamagedSecret { said: said.to_owned() });
    }
    if words.parse::<PublicKey>().is_ok() {
        return Err(JoinError::KeyAsSecret { said: said.to_owned() });
    }
    Ok(Secret::new(text))
}

/// A link to the file will do: what is looked at is the very file that is read.
pub(super) fn open(path: &Path) -> Result<File, JoinError> {
    File::open(path).map_err(|why| failed(path, &why))
}

/// Room for all that a file says, so that a buffer does not grow and leave copies behind.
pub(super) fn size(file: &File) -> usize {
    let bytes = file.metadata().map_or(0, |is| is.len().min(SIZE_MAX));
    usize::try_from(bytes).unwrap_or(0) + 1
}

/// Whether an open file may say a secret.
pub(super) fn check(file: &File, path: &Path) -> Result<(), JoinError> {
    let is = file.metadata().map_err(|why| failed(path, &why))?;
    if is.is_dir() {
        return Err(failed(path, &std::io::ErrorKind::IsADirectory.into()));
    }
    let kind = is.file_type();
    if !kind.is_file() && !kind.is_fifo() {
        let why =
            "it is no regular file, and holds no secret: `egret secret FILE` makes one that does";
        return Err(JoinError::File { path: path.to_owned(), why: why.to_owned() });
    }
    may_hold(path, is.mode(), is.uid(), rustix::process::geteuid().as_raw())
}

/// Whether a file of this mode and owner may say a secret to a process of this user.
pub(super) fn may_hold(path: &Path, mode: u32, owner: u32, user: u32) -> Result<(), JoinError> {
    let (mode, path) = (mode & 0o7777, path.to_owned());
    if mode & OTHERS != 0 {
        return Err(JoinError::SecretOpen { path, mode });
    }
    if owner != user && owner != ROOT {
        return Err(JoinError::SecretOwner { path, owner, user });
    }
    Ok(())
}

pub(super) fn failed(path: &Path, why: &std::io::Error) -> JoinError {
    JoinError::File { path: path.to_owned(), why: why.to_string() }
}

/// What group and world may do.
const OTHERS: u32 = 0o077;
/// More than any file of settings has.
const SIZE_MAX: u64 = 1 << 20;
/// The user that can read every file.
const ROOT: u32 = 0;
