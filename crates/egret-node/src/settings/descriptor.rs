//! A secret that a launcher hands over in a pipe, and not in the environment, which every
//! process that the program starts inherits and `/proc` shows.
//!
//! The variable says which descriptor the pipe is, and which pipe, `N:INODE`: a process that
//! merely inherited the variable may have something else under that number. The secret is
//! taken out of the pipe once; what is left for the children of the program is an empty pipe, or
//! none. What was taken is kept for whatever reads the settings in this process later.

use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use egret_net::rt;
use egret_net::vi::Secret;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, FdFlags, fcntl_setfd, ioctl_fionread, read};
use zeroize::Zeroizing;

use super::{Origin, SettingKey};
use crate::pool::JoinError;

/// Starts `command` with a secret in a pipe, which the process finds by `EGRET_SECRET_FD`
/// ([`Settings::read`](super::Settings::read)).
///
/// The variables `EGRET_SECRET` and `EGRET_SECRET_FILE` are removed from `command`. Nothing but
/// that process inherits the pipe, as long as other threads start processes by this function too,
/// or not at the same moment.
///
/// # Errors
///
/// If the secret is empty or longer than 4096 bytes, and as for [`Command::spawn`].
///
/// ```no_run
/// use std::process::Command;
/// use egret_node::settings::start_with_secret;
///
/// let mut member = Command::new("./member");
/// member.env("EGRET_POOL", "pool").env("EGRET_REGISTRY", "127.0.0.1:4711");
/// let child = start_with_secret(&mut member, b"16 random bytes or more")?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn start_with_secret(command: &mut Command, secret: &[u8]) -> io::Result<Child> {
    if secret.trim_ascii().is_empty() || secret.len() > SECRET_MAX {
        let why =
            format!("a secret of {} bytes; 1 to {SECRET_MAX} can be handed over", secret.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let (end, mut write) = io::pipe()?;
    // A pipe takes so much at once without anybody who reads.
    write.write_all(secret)?;
    drop(write);
    let end = OwnedFd::from(end);
    let value = format!("{}:{}", end.as_raw_fd(), fstat(&end)?.st_ino);
    for key in [SettingKey::Secret, SettingKey::SecretFile] {
        command.env_remove(key.variable());
    }
    command.env(SettingKey::SecretFd.variable(), value);
    // From here to the end of the function a process that is started inherits the pipe.
    static STARTING: Mutex<()> = Mutex::new(());
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    fcntl_setfd(&end, FdFlags::empty())?;
    let child = command.spawn();
    drop(end);
    child
}

/// Closes the pipe with a secret that this process was given, unread: for a process that starts
/// others to which the secret says nothing. Who has the pipe too can still take it.
#[doc(hidden)]
pub fn leave_secret() {
    let said = std::env::var(SettingKey::SecretFd.variable());
    if let Some(place) = said.ok().and_then(|said| PipeDescriptor::parse(&said).ok())
        && place.open().is_ok()
    {
        place.close();
    }
}

/// Takes the secret from where `said` says, or from memory if this process took it before.
pub(super) fn take(said: &str) -> Result<(Secret, Origin), JoinError> {
    let mut taken = lock();
    let place = PipeDescriptor::parse(said).map_err(|why| bad(said, why))?;
    let origin = Origin::Descriptor(place.number);
    if let Some((_, secret)) = taken.iter().find(|(known, _)| known == said) {
        return Ok((secret.clone(), origin));
    }
    let secret = place.take(said)?;
    taken.push((said.to_owned(), secret.clone()));
    Ok((secret, origin))
}

/// Whether the secret is still to be had where `said` says, without taking it.
pub(super) fn look(said: &str) -> Result<(bool, Origin), JoinError> {
    let place = PipeDescriptor::parse(said).map_err(|why| bad(said, why))?;
    let is_known = lock().iter().any(|(known, _)| known == said);
    let holds = |fd: OwnedFd| ioctl_fionread(fd).is_ok_and(|bytes| bytes > 0);
    let is_there = is_known || place.open().is_ok_and(holds);
    Ok((is_there, Origin::Descriptor(place.number)))
}

/// Which descriptor, and which pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PipeDescriptor {
    number: u32,
    inode: u64,
}

impl PipeDescriptor {
    fn parse(said: &str) -> Result<Self, String> {
        let why = || "N:INODE is expected, of a descriptor and the pipe that it is".to_owned();
        let (number, inode) = said.split_once(':').ok_or_else(why)?;
        let number = number.parse().ok().filter(|number| i32::try_from(*number).is_ok());
        let inode = inode.parse().map_err(|_| why())?;
        Ok(Self { number: number.ok_or_else(why)?, inode })
    }

    /// The pipe by a descriptor of its own: reading does not block, whatever others do with the
    /// one that was inherited. `Err(BADF)` if the number is another file's, or no file's.
    fn open(self) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/self/fd/{}", self.number);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let found = match rustix::fs::stat(path.as_str()) {
            Err(Errno::NOENT) if rustix::fs::stat("/proc/self/fd").is_ok() => {
                return Err(Errno::BADF);
            }
            found => found?,
        };
        let is_pipe = FileType::from_raw_mode(found.st_mode) == FileType::Fifo;
        if !is_pipe || self.inode != found.st_ino {
            return Err(Errno::BADF);
        }
        open(path.as_str(), flags, Mode::empty())
    }

    fn take(self, said: &str) -> Result<Secret, JoinError> {
        let failed = |why: String| JoinError::SecretPipe { said: said.to_owned(), why };
        let pipe = match self.open() {
            Err(Errno::BADF) => return Err(taken(said, "is not open here, or is another file")),
            Err(Errno::ACCESS | Errno::PERM) => {
                let why = "the pipe was made by another user than this process runs as";
                return Err(failed(why.to_owned()));
            }
            pipe => pipe.map_err(|errno| failed(errno.to_string()))?,
        };
        let bytes = read_all(&pipe).map_err(|why| failed(why.to_string()))?;
        drop(pipe);
        self.close();
        if bytes.is_empty() {
            return Err(taken(said, "is a pipe with nothing in it"));
        }
        if bytes.trim_ascii().is_empty() {
            return Err(JoinError::EmptySecret {
                said: SettingKey::SecretFd.variable().to_owned(),
            });
        }
        super::secret::parse(bytes.trim_ascii_end(), &format!("EGRET_SECRET_FD={said}"))
    }

    /// Closes what was inherited. The number was looked at before, and is the pipe's; a standard
    /// stream stays, as its number is not to become another file's.
    fn close(self) {
        if self.number > 2 {
            // No code of this process owns it: it was there at the start, for whom takes the secret.
            let _ = i32::try_from(self.number).map(nix::unistd::close);
        }
    }
}

/// All that was written. Who wrote it has closed its end, or is about to.
fn read_all(pipe: &OwnedFd) -> io::Result<Zeroizing<Vec<u8>>> {
    let until = rt::now() + PATIENCE;
    // Never grows, so that no copy is left behind.
    let mut bytes = Zeroizing::new(vec![0; SECRET_MAX + 1]);
    let mut len = 0;
    loop {
        match read(pipe, &mut bytes[len..]) {
            Ok(0) if len > SECRET_MAX => {
                return Err(io::Error::other(format!(
                    "more than {SECRET_MAX} bytes are in the pipe"
                )));
            }
            Ok(0) => break,
            Ok(more) => len += more,
            Err(Errno::AGAIN) if rt::now() >= until => {
                let why = format!("the writer of the pipe has not closed it in {PATIENCE:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Err(Errno::AGAIN) => {
                let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
                let _ = poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&moment));
            }
            Err(Errno::INTR) => (),
            Err(errno) => return Err(errno.into()),
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

fn taken(said: &str, found: &'static str) -> JoinError {
    let parent = rustix::process::getppid().map_or(0, rustix::process::Pid::as_raw_pid);
    let name = std::fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    let number = said.split(':').next().unwrap_or_default().to_owned();
    JoinError::SecretTaken { number, found, parent, name: name.trim_end().to_owned() }
}

fn bad(said: &str, why: String) -> JoinError {
    let (name, value) = (SettingKey::SecretFd.name(), said.to_owned());
    JoinError::BadSetting { name, value, origin: Origin::Environment, why }
}

/// What this process took, by what the variable said.
fn lock() -> MutexGuard<'static, Vec<(String, Secret)>> {
    static TAKEN: Mutex<Vec<(String, Secret)>> = Mutex::new(Vec::new());
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a pipe always has room for.
const SECRET_MAX: usize = 4096;
/// How long a script that writes the pipe may take.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::io::PipeReader;
    use std::os::fd::IntoRawFd;
    use std::path::Path;
    use std::process::Stdio;

    use super::*;
    use crate::settings::Settings;

    /// A pipe with this in it, as if this process had inherited it.
    fn inherited(text: &[u8]) -> String {
        let (end, mut write) = io::pipe().unwrap();
        write.write_all(text).unwrap();
        named(end)
    }

    fn named(end: PipeReader) -> String {
        let end = OwnedFd::from(end);
        let inode = fstat(&end).unwrap().st_ino;
        format!("{}:{inode}", end.into_raw_fd())
    }

    fn read(variables: &[(&str, &str)]) -> Result<Settings, JoinError> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Settings::read_from(variables.iter().map(own), Path::new("/nowhere"))
    }

    #[test]
    fn a_secret_is_taken_once_and_kept() {
        let said = inherited(b"hush\n");
        let number: u32 = said.split(':').next().unwrap().parse().unwrap();
        assert_eq!(look(&said).unwrap(), (true, Origin::Descriptor(number)));
        for _ in 0..2 {
            let settings = read(&[("EGRET_SECRET_FD", &said)]).unwrap();
            assert_eq!(settings.secret().unwrap(), Some(Secret::from("hush")));
            let shown = format!("{settings:?} {:?}", settings.all());
            assert!(!shown.contains("hush") && shown.contains("(not shown)"), "{shown}");
        }
        assert_eq!(look(&said).unwrap(), (true, Origin::Descriptor(number)), "it is kept");
        // As another process says it, which took nothing.
        let other = format!("0{said}");
        let why = read(&[("EGRET_SECRET_FD", &other)]).unwrap_err();
        assert!(matches!(why, JoinError::SecretTaken { .. }), "{why}");
        assert!(why.to_string().contains("the secret was taken already"), "{why}");
        assert_eq!(look(&other).unwrap(), (false, Origin::Descriptor(number)));
    }

    #[test]
    fn an_empty_pipe_is_a_secret_that_was_taken() {
        let why = read(&[("EGRET_SECRET_FD", &inherited(b""))]).unwrap_err();
        let JoinError::SecretTaken { found, parent, .. } = &why else { panic!("{why}") };
        assert!(found.contains("nothing in it") && *parent > 0, "{why}");
        let why = read(&[("EGRET_SECRET_FD", &inherited(b" \n"))]).unwrap_err();
        assert!(matches!(why, JoinError::EmptySecret { .. }), "{why}");
        let why = read(&[("EGRET_SECRET_FD", &inherited(&[b'x'; SECRET_MAX + 1]))]).unwrap_err();
        assert!(why.to_string().contains("more than 4096 bytes"), "{why}");
    }

    #[test]
    fn a_replaced_descriptor_is_not_read() {
        let (end, mut write) = io::pipe().unwrap();
        write.write_all(b"not yours").unwrap();
        let number = end.as_raw_fd();
        for said in [format!("{number}:1"), format!("{}:1", i32::MAX)] {
            let why = read(&[("EGRET_SECRET_FD", &said)]).unwrap_err();
            assert!(matches!(why, JoinError::SecretTaken { .. }), "{why}");
        }
        drop(write);
        assert_eq!(io::read_to_string(end).unwrap(), "not yours");
        let file = std::fs::File::open("/dev/null").unwrap();
        let said = format!("{}:{}", file.as_raw_fd(), fstat(&file).unwrap().st_ino);
        assert!(matches!(read(&[("EGRET_SECRET_FD", &said)]), Err(JoinError::SecretTaken { .. })));
        for said in ["", "x", "4", "-1:1", "4:x", "4294967295:1"] {
            let why = read(&[("EGRET_SECRET_FD", said)]).unwrap_err();
            assert!(matches!(why, JoinError::BadSetting { name: "secret_fd", .. }), "{why}");
        }
    }

    #[test]
    fn the_variable_counts_before_the_pipe_and_the_pipe_before_the_file() {
        let said = inherited(b"piped");
        let both = [("EGRET_SECRET_FD", &*said), ("EGRET_SECRET", "said")];
        assert_eq!(read(&both).unwrap().secret().unwrap(), Some(Secret::from("said")));
        let both = [("EGRET_SECRET_FD", &*said), ("EGRET_SECRET_FILE", "nowhere")];
        assert_eq!(read(&both).unwrap().secret().unwrap(), Some(Secret::from("piped")));
    }

    #[test]
    fn the_secret_of_a_child_is_only_in_its_pipe() {
        let script =
            "cat /proc/self/fd/${EGRET_SECRET_FD%:*}; echo; tr '\\0' '\\n' < /proc/self/environ";
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("EGRET_SECRET", "old").env("EGRET_SECRET_FILE", "old");
        let child = start_with_secret(command.stdout(Stdio::piped()), b"hush-hush").unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with("hush-hush\n"), "{said}");
        assert_eq!(said.matches("hush-hush").count(), 1, "{said}");
        assert!(!said.contains("EGRET_SECRET=") && !said.contains("EGRET_SECRET_FILE="), "{said}");
        for bad in [&b""[..], b" ", &[b'x'; SECRET_MAX + 1]] {
            let why = start_with_secret(&mut Command::new("true"), bad).unwrap_err();
            assert_eq!(why.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
