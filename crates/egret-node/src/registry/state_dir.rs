//! The directory of a registry whose state lasts: its journal, its key, and where it listens.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use egret_net::vi::Identity;
use rustix::fs::{FlockOperation, flock};

use super::journal::{Disk, DiskFile};
use super::operator::write_new;
use crate::pool::JoinError;
use crate::settings::read_secret_file;

/// The directory of one registry, locked against others for as long as this lives.
#[derive(Debug)]
pub(super) struct StateDir {
    path: PathBuf,
    /// The log, which is opened when it is first written.
    log: Option<File>,
    _lock: File,
}

impl StateDir {
    /// Opens a directory, and makes it if it is not there.
    pub(super) fn open(path: &Path) -> Result<Self, JoinError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|why| failed(path, &why))?;
        let lock = path.join("lock");
        let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(&lock);
        let file = file.map_err(|why| failed(&lock, &why))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|why| {
            let why = match why {
                rustix::io::Errno::WOULDBLOCK => {
                    "another registry has this directory: it ends first, or this one gets another directory".to_owned()
                }
                why => io::Error::from(why).to_string(),
            };
            JoinError::File { path: lock.clone(), why }
        })?;
        Ok(Self { path: path.to_owned(), log: None, _lock: file })
    }

    /// The key pair of the registry, which is made when the directory is new.
    pub(super) fn identity(&self) -> Result<Identity, JoinError> {
        let path = self.path.join("registry.key");
        if !path.exists() {
            let identity = Identity::random();
            let written = write_new(&path, &identity.reveal()).and_then(|()| self.sync());
            return written.map(|()| identity).map_err(|why| failed(&path, &why));
        }
        let text = read_secret_file(&path)?;
        let identity = str::from_utf8(text.trim_ascii()).ok().and_then(|text| text.parse().ok());
        identity.ok_or_else(|| JoinError::File {
            path,
            why: "it is not a private key: 64 hexadecimal digits".to_owned(),
        })
    }

    /// Where the registry is to listen that was asked to listen at `place`: where it did before, if it was asked for
    /// the same or for no place, for its members look for it there.
    pub(super) fn listen(&self, place: &str) -> Result<String, JoinError> {
        let path = self.path.join("address");
        let text = match fs::read_to_string(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(place.to_owned()),
            text => text.map_err(|why| failed(&path, &why))?,
        };
        let mut lines = text.lines();
        let (asked, address) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
        let is_same = asked == place || place.is_empty();
        Ok(if is_same && !address.is_empty() { address } else { place }.to_owned())
    }

    /// Notes where the registry listens that was asked to listen at `place`.
    pub(super) fn note_address(&self, place: &str, address: &str) -> Result<(), JoinError> {
        let path = self.path.join("address");
        if place.is_empty() && path.exists() {
            return Ok(());
        }
        let port = address.rsplit_once(':').map_or("", |(_, port)| port);
        // All addresses, and those of names, are found anew: the port is what is to stay.
        let place_of = place.strip_suffix(":0").unwrap_or(place);
        let has_port = place.parse::<std::net::SocketAddr>().is_ok_and(|at| at.port() != 0);
        let listen = match place_of {
            "" => address.to_owned(),
            _ if has_port => place.to_owned(),
            _ if place_of.contains(':') && !place_of.starts_with('[') => {
                format!("[{place_of}]:{port}")
            }
            _ => format!("{place_of}:{port}"),
        };
        self.replace_file("address", format!("{place}\n{listen}\n").as_bytes())
            .map_err(|why| failed(&path, &why))
    }

    /// Writes a file in place of the one before, as a whole.
    fn replace_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (path, new) = (self.path.join(name), self.path.join(format!("{name}.new")));
        let file =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        self.sync()
    }

    /// Writes the names in the directory to disk.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn log(&mut self) -> io::Result<&File> {
        if self.log.is_none() {
            let path = self.path(DiskFile::Log);
            let is_new = !path.exists();
            let log =
                File::options().write(true).create(true).truncate(false).mode(0o600).open(path)?;
            if is_new {
                self.sync()?;
            }
            self.log = Some(log);
        }
        self.log.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for StateDir {
    fn read(&mut self, file: DiskFile) -> io::Result<Vec<u8>> {
        match fs::read(self.path(file)) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }

    fn append(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let log = self.log()?;
        if log.metadata()?.len() != at {
            log.set_len(at)?;
        }
        log.write_all_at(bytes, at)?;
        log.sync_data()
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.replace_file("snapshot", bytes)
    }

    fn path(&self, file: DiskFile) -> PathBuf {
        self.path.join(match file {
            DiskFile::Log => "log",
            DiskFile::Snapshot => "snapshot",
        })
    }
}

fn failed(path: &Path, why: &io::Error) -> JoinError {
    JoinError::File { path: path.to_owned(), why: why.to_string() }
}
