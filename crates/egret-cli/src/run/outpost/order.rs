//! What a launcher orders, and what an outpost reports.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use super::super::status::Status;

/// What the launcher says to an outpost.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum OutpostOrder {
    /// Start the processes.
    Begin(Box<OutpostJob>),
    /// Give the signal to the groups of the processes that run.
    Pass(i32),
    /// Give it to every descendant, except to the group of one rank.
    End { signal: i32, spare: Option<u32> },
    /// Give it to the group of one rank.
    EndOne { rank: u32, signal: i32 },
    /// So many bytes of output have been passed on.
    Taken(u32),
    /// No output of this stream is wanted any more: who writes to it is to learn that.
    Unread(u32),
    /// The launcher is there.
    Here,
    /// The outpost may go.
    Finish,
}

/// What an outpost says to the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum OutpostReport {
    /// The first of all.
    Hello(OutpostHello),
    /// All processes are started.
    Started,
    /// The job cannot begin here; the exit code is that of a shell.
    Refused { why: String, code: u8 },
    /// These processes have ended, in no known order.
    Exited(Vec<(u32, Status)>),
    /// No process of the job is left here.
    Alone,
    /// So many bytes of input have been passed on to rank 0.
    InputTaken(u32),
    /// Rank 0 reads no more.
    InputUnread,
    /// The processes were told to stop, and the outpost waits for the signal to go on however long that takes.
    Stopped,
    /// All output has been said.
    OutputEnds,
    /// The outpost is there.
    Here,
}

/// Who an outpost is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct OutpostHello {
    /// [`PROTOCOL`] there.
    pub(super) protocol: u32,
    /// The version of egret.
    pub(super) version: String,
    /// The address that the launcher has for the outpost, if it knows.
    pub(super) launcher: Option<String>,
}

/// What an outpost needs to know of the job.
#[derive(Serialize, Deserialize)]
pub(super) struct OutpostJob {
    /// The command line that says the job.
    pub(super) args: Vec<OsBytes>,
    pub(super) ranks: Range<u32>,
    /// How many ranks other outposts of the machine have had.
    pub(super) local: u32,
    /// The program has come before this order, as bytes of [`PROGRAM`].
    pub(super) is_copied: bool,
    pub(super) pool: String,
    pub(super) registry: String,
    /// Wiped with this.
    #[serde(serialize_with = "write_secret", deserialize_with = "read_secret")]
    pub(super) secret: Zeroizing<String>,
    /// The working directory.
    pub(super) directory: OsBytes,
    /// The program is `egret` itself, which may be at another place there.
    pub(super) is_egret: bool,
    /// Variables of the launcher that go along.
    pub(super) variables: Vec<(OsBytes, OsBytes)>,
}

impl std::fmt::Debug for OutpostJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the secret.
        f.debug_struct("OutpostJob").field("ranks", &self.ranks).finish_non_exhaustive()
    }
}

fn write_secret<S: Serializer>(secret: &Zeroizing<String>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(secret)
}

fn read_secret<'de, D: Deserializer<'de>>(from: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(from).map(Zeroizing::new)
}

/// A text of the system, which need not be Unicode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OsBytes(Vec<u8>);

impl From<&OsStr> for OsBytes {
    fn from(text: &OsStr) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<OsBytes> for OsString {
    fn from(text: OsBytes) -> Self {
        Self::from_vec(text.0)
    }
}

/// The number of a stream of a rank: its standard output or its standard error.
pub(super) fn stream_of(rank: u32, is_error: bool) -> u32 {
    2 * rank + u32::from(is_error)
}

/// The stream that rank 0 reads; no bytes are its end.
pub(super) const INPUT: u32 = 0;
/// The stream with the program that the outpost is to start, if the program is copied.
pub(super) const PROGRAM: u32 = 1;
/// Bytes of input that the launcher says before the outpost has passed them on.
pub(super) const INPUT_WINDOW: usize = 256 << 10;
/// Launcher and outpost understand each other if this is the same.
pub(crate) const PROTOCOL: u32 = 3;
/// What an outpost says before its first frame.
pub(super) const GREETING: &[u8] = b"egret outpost\n";
/// Bytes of output that an outpost says before the launcher has passed them on.
pub(super) const WINDOW: usize = 1 << 20;
