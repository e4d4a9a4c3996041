//! What the nics of a switched fabric share.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use egret_net::buf::Kind;
use egret_net::fabric::ListenerName;
use egret_net::vi::{AccessError, Reliability, RemoteSlice, ViError};

/// Who is there, and what is on its way to whom.
#[derive(Debug, Default)]
pub(crate) struct Switch(Mutex<BTreeMap<String, Nic>>);

#[derive(Debug)]
struct Nic {
    packets: Vec<Packet>,
    listeners: BTreeMap<ListenerName, Reliability>,
    bell: UnixStream,
    is_armed: bool,
}

/// One end of a connection: the host, and its number there.
pub(crate) type EndAt = (String, u64);

#[derive(Debug)]
pub(crate) struct Packet {
    /// The number of the end that it is for; 0 of a call, which is for none yet.
    pub to: u64,
    pub from: EndAt,
    pub body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    /// Somebody wants a connection with this listener,
    Call(ListenerName),
    /// and wants it no more.
    GiveUp,
    /// The call is accepted.
    Accept,
    /// The listener that was called is gone.
    Again,
    /// So many more receives are posted.
    Receives(u64),
    Message {
        number: u64,
        tag: u64,
        kind: Option<Kind>,
        bytes: Vec<u8>,
    },
    /// A message of the eager class.
    Eager {
        tag: u64,
        bytes: Vec<u8>,
    },
    Write {
        number: u64,
        to: RemoteSlice,
        bytes: Vec<u8>,
        /// The tag of the receive that it consumes.
        notify: Option<u64>,
    },
    Read {
        number: u64,
        from: RemoteSlice,
        len: u64,
    },
    /// What came of the message, write or read with this number, and the bytes of a read.
    Done {
        number: u64,
        result: Result<Vec<u8>, AccessError>,
    },
    /// The end is in the error state, and the other is to be for this reason.
    Gone(ViError),
}

/// What is known of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    NoHost,
    NotListening,
    OtherTag,
    Listening(Reliability),
}

impl Switch {
    /// A new nic, which this bell wakes. `false`: its name is taken.
    pub(crate) fn add(&self, host: &str, bell: UnixStream) -> bool {
        let mut nics = self.nics();
        let is_new = !nics.contains_key(host);
        if is_new {
            let (packets, listeners) = (Vec::new(), BTreeMap::new());
            nics.insert(host.to_owned(), Nic { packets, listeners, bell, is_armed: false });
        }
        is_new
    }

    pub(crate) fn remove(&self, host: &str) {
        self.nics().remove(host);
    }

    /// Whether nobody listened for that there.
    pub(crate) fn listen(&self, host: &str, name: &ListenerName, level: Reliability) -> bool {
        let mut nics = self.nics();
        nics.get_mut(host).is_some_and(|nic| match nic.listeners.contains_key(name) {
            true => false,
            false => nic.listeners.insert(name.clone(), level).is_none(),
        })
    }

    pub(crate) fn unlisten(&self, host: &str, name: &ListenerName) {
        if let Some(nic) = self.nics().get_mut(host) {
            nic.listeners.remove(name);
        }
    }

    pub(crate) fn find(&self, host: &str, name: &ListenerName) -> Found {
        let nics = self.nics();
        let Some(Nic { listeners, .. }) = nics.get(host) else { return Found::NoHost };
        match listeners.get(name) {
            Some(level) => Found::Listening(*level),
            None if listeners.keys().any(|(service, _)| *service == name.0) => Found::OtherTag,
            None => Found::NotListening,
        }
    }

    /// Puts a packet on its way, and wakes who sleeps there. For a host that is gone it is lost.
    pub(crate) fn send(&self, host: &str, packet: Packet) {
        if let Some(nic) = self.nics().get_mut(host) {
            nic.packets.push(packet);
            if std::mem::take(&mut nic.is_armed) {
                let _ = nic.bell.write(&[1]);
            }
        }
    }

    /// What has come for this nic.
    pub(crate) fn take(&self, host: &str) -> Vec<Packet> {
        let mut nics = self.nics();
        nics.get_mut(host).map(|nic| std::mem::take(&mut nic.packets)).unwrap_or_default()
    }

    /// Whether the next packet rings the bell.
    pub(crate) fn arm(&self, host: &str, is_armed: bool) {
        if let Some(nic) = self.nics().get_mut(host) {
            nic.is_armed = is_armed;
        }
    }

    fn nics(&self) -> MutexGuard<'_, BTreeMap<String, Nic>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
