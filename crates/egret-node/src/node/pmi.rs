//! One text from rank 0 to all processes of a job, over the connection that a launcher that speaks PMI gives each of
//! them.
//!
//! The messages are those of PMI-1 (MPICH's `simple_pmi`): lines of `cmd=NAME KEY=VALUE …`. Hydra's `mpiexec` speaks it,
//! and Slurm's `--mpi=pmi2` too.

use std::collections::BTreeMap;
use std::time::Duration;

use egret_net::rt::{self, Instant};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};

/// Puts `own` where all find it, if this is rank 0, and returns what rank 0 has put there: `None` if it says that
/// it has nothing. The connection is used up by that.
pub(super) fn share(
    fd: i32,
    own: Option<Option<&str>>,
    until: Option<Instant>,
) -> Result<Option<String>, String> {
    let mut launcher = PmiConnection { fd, until, received: Vec::new() };
    launcher.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
    let space = launcher.ask("cmd=get_my_kvsname", "my_kvsname")?;
    let space = space.get("kvsname").ok_or("the launcher says no name of the space for keys")?;
    if let Some(own) = own {
        let value = own.unwrap_or(NOTHING);
        launcher.ask(&format!("cmd=put kvsname={space} key={KEY} value={value}"), "put_result")?;
    }
    launcher.ask("cmd=barrier_in", "barrier_out")?;
    let mut found = launcher.ask(&format!("cmd=get kvsname={space} key={KEY}"), "get_result")?;
    launcher.ask("cmd=finalize", "finalize_ack")?;
    let found = found.remove("value").ok_or("the launcher has lost it")?;
    Ok((found != NOTHING).then_some(found))
}

/// The connection of this process to its launcher. The launcher closes it when it has answered `finalize`; the number
/// stays taken here, so that another library of the program that looks for it finds an end, and no other file.
struct PmiConnection {
    fd: i32,
    until: Option<Instant>,
    received: Vec<u8>,
}

impl PmiConnection {
    /// Sends a line, and takes the answer apart, which has this name.
    fn ask(&mut self, line: &str, name: &str) -> Result<BTreeMap<String, String>, String> {
        self.send(format!("{line}\n").as_bytes())?;
        let answer = self.line()?;
        let parts = answer.split_whitespace().filter_map(|part| part.split_once('='));
        let parts: BTreeMap<_, _> =
            parts.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let is_well = parts.get("rc").is_none_or(|code| code == "0");
        if parts.get("cmd").map(String::as_str) != Some(name) || !is_well {
            return Err(format!("the launcher has answered {answer:?} to {line:?}"));
        }
        Ok(parts)
    }

    fn send(&self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            match send(self.fd, bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
                Ok(count) => bytes = &bytes[count..],
                Err(why) => self.pause(why)?,
            }
        }
        Ok(())
    }

    /// The next line that the launcher sends.
    fn line(&mut self) -> Result<String, String> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line = self.received.drain(..=end).collect::<Vec<_>>();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            let mut bytes = [0; 1024];
            match recv(self.fd, &mut bytes, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Err(USED.to_owned()),
                Ok(count) if self.received.len() + count <= LINE_MAX => {
                    self.received.extend(&bytes[..count]);
                }
                Ok(_) => return Err(format!("the launcher has sent more than {LINE_MAX} bytes")),
                Err(why) => self.pause(why)?,
            }
        }
    }

    /// Waits a moment for the launcher, or says why that is in vain.
    fn pause(&self, why: Errno) -> Result<(), String> {
        match why {
            Errno::EAGAIN if self.until.is_some_and(|until| rt::now() >= until) => {
                Err("the others have not come so far within the deadline (EGRET_DEADLINE)"
                    .to_owned())
            }
            Errno::EAGAIN => {
                rt::sleep(LOOK);
                Ok(())
            }
            Errno::EINTR => Ok(()),
            Errno::EPIPE | Errno::ECONNRESET | Errno::EBADF | Errno::ENOTSOCK => {
                Err(USED.to_owned())
            }
            why => Err(format!("the connection has failed: {}", why.desc())),
        }
    }
}

/// The name under which rank 0 puts it.
const KEY: &str = "egret-registry";
/// What rank 0 puts there if it has nothing to say.
const NOTHING: &str = "none";
/// What is the matter with a connection that is closed, or is none.
const USED: &str = "the connection is closed: MPI in this process, or another program of the same process of the \
                    job, has used it, and it serves once (EGRET_REGISTRY names an `egret registry` instead)";
/// More than any answer has.
const LINE_MAX: usize = 1 << 16;
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Shares `own` with a launcher that gives these answers; returns what it was asked too.
    fn shared(
        own: Option<Option<&str>>,
        answers: &[&str],
    ) -> (Result<Option<String>, String>, String) {
        let (near, far) = UnixStream::pair().unwrap();
        let answers: Vec<_> = answers.iter().map(|answer| format!("{answer}\n")).collect();
        let launcher = rt::spawn("launcher", move || {
            let (mut write, mut asked) = (far.try_clone().unwrap(), String::new());
            let mut read = BufReader::new(far);
            for answer in answers {
                if read.read_line(&mut asked).unwrap() == 0 {
                    break;
                }
                write.write_all(answer.as_bytes()).unwrap();
            }
            asked
        });
        let until = Some(rt::now() + Duration::from_secs(30));
        let found = share(near.as_raw_fd(), own, until);
        drop(near);
        (found, launcher.unwrap().join().unwrap())
    }

    /// As Hydra of MPICH 4.0 says it; Slurm 22.05 says the same in another order, without `msg`.
    const ANSWERS: [&str; 6] = [
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
        "cmd=my_kvsname kvsname=kvs_8682_0",
        "cmd=put_result rc=0 msg=success",
        "cmd=barrier_out",
        "cmd=get_result rc=0 msg=success value=10.0.0.7:41",
        "cmd=finalize_ack",
    ];

    #[test]
    fn rank_0_puts_and_all_find() {
        let (found, asked) = shared(Some(Some("10.0.0.7:41")), &ANSWERS);
        assert_eq!(found.unwrap().as_deref(), Some("10.0.0.7:41"));
        let lines = "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_my_kvsname\n\
            cmd=put kvsname=kvs_8682_0 key=egret-registry value=10.0.0.7:41\ncmd=barrier_in\n\
            cmd=get kvsname=kvs_8682_0 key=egret-registry\ncmd=finalize\n";
        assert_eq!(asked, lines);
        let mut others = ANSWERS.to_vec();
        others.remove(2);
        others[3] = "cmd=get_result rc=0 value=none";
        let (found, asked) = shared(None, &others);
        assert_eq!(found.unwrap(), None);
        assert!(!asked.contains("put"), "{asked}");
    }

    #[test]
    fn a_launcher_that_refuses_or_is_gone_is_an_error() {
        let (why, _) = shared(None, &["cmd=response_to_init rc=-1"]);
        assert!(why.unwrap_err().contains("rc=-1"));
        let (why, _) = shared(None, &["cmd=barrier_out"]);
        assert!(why.unwrap_err().contains("barrier_out"));
        let (why, _) = shared(None, &ANSWERS[..1]);
        assert!(why.unwrap_err().contains("serves once"));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(share(file.as_raw_fd(), None, None).unwrap_err().contains("serves once"));
        let (near, _far) = UnixStream::pair().unwrap();
        let why = share(near.as_raw_fd(), None, Some(rt::now())).unwrap_err();
        assert!(why.contains("EGRET_DEADLINE"), "{why}");
    }
}
