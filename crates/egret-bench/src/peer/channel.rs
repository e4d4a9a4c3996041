//! Messages and descriptors between the two processes of a benchmark.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One end of a connection that carries JSON values and, with them, open
/// descriptors.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// This process's end, and the other's, which is to become its stdin.
    pub(crate) fn pair(patience: Duration) -> Result<(Self, OwnedFd)> {
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (mine, theirs) = socketpair(kind.0, kind.1, kind.2, None).context("socketpair")?;
        set_socket_timeout(&mine, Timeout::Recv, Some(patience)).context("SO_RCVTIMEO")?;
        Ok((Self(mine), theirs))
    }

    /// The end that was given to this process as its stdin.
    pub(crate) fn inherited() -> Result<Self> {
        Ok(Self(io::stdin().as_fd().try_clone_to_owned()?))
    }

    pub(crate) fn send<T: Serialize>(&self, value: &T, fds: &[OwnedFd]) -> Result<()> {
        let text = serde_json::to_vec(value)?;
        ensure!(text.len() <= BYTES_MAX, "a message of {} bytes, {BYTES_MAX} at most", text.len());
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            let room = control.push(SendAncillaryMessage::ScmRights(&fds));
            ensure!(room, "{} descriptors in a message, {FDS_MAX} at most", fds.len());
        }
        sendmsg(&self.0, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Whether a message has come, or the other process is gone, within this time.
    pub(crate) fn has_come(&self, within: Duration) -> Result<bool> {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        Ok(poll(&mut fds, Some(&Timespec::try_from(within)?))? > 0)
    }

    /// The next message, or `None` if the other process is gone.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> Result<Option<(T, Vec<OwnedFd>)>> {
        let mut text = [0; BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut text)];
        let got = match recvmsg(&self.0, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(rustix::io::Errno::AGAIN) => bail!("no answer for too long"),
            got => got?,
        };
        ensure!(!got.flags.contains(ReturnFlags::TRUNC), "a message was cut off");
        let fds = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let fds = fds.flatten().collect();
        if got.bytes == 0 {
            return Ok(None);
        }
        Ok(Some((serde_json::from_slice(&text[..got.bytes])?, fds)))
    }
}

const BYTES_MAX: usize = 4096;
const FDS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_arrive_with_their_descriptors_until_the_end() {
        let (near, far) = Channel::pair(Duration::from_secs(5)).unwrap();
        let far = Channel(far);
        let (read, write) = io::pipe().unwrap();
        near.send(&"here", &[write.into()]).unwrap();
        let (text, fds) = far.receive::<String>().unwrap().unwrap();
        assert_eq!((text.as_str(), fds.len()), ("here", 1));
        rustix::io::write(&fds[0], b"x").unwrap();
        assert_eq!(rustix::io::read(&read, &mut [0; 2]).unwrap(), 1);
        drop(near);
        assert!(far.receive::<String>().unwrap().is_none());
    }

    #[test]
    fn silence_ends() {
        let (near, _far) = Channel::pair(Duration::from_millis(20)).unwrap();
        let error = near.receive::<String>().unwrap_err();
        assert_eq!(error.to_string(), "no answer for too long");
    }
}
