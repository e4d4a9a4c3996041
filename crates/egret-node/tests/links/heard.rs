//! What an endpoint hears while it is flooded, and what a process that is killed notes of it.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use egret_node::am::{EndedLink, Endpoint, LinkPeer, MessageError, Request, Undelivered};
use egret_node::link::Fate;
use rustix::fs::{MemfdFlags, memfd_create};

use super::flood::{CALL, KINDS, ONE_WAY, len, pattern};

/// What an endpoint has heard from the one peer that floods it.
#[derive(Default)]
pub(crate) struct Heard {
    /// Who that is.
    peer: Option<LinkPeer>,
    /// Messages of each kind.
    pub(crate) came: [u64; KINDS],
    /// Messages of this side that came back: kind, number, what became of them.
    pub(crate) lost: Vec<(usize, u64, Fate)>,
    pub(crate) ended: Vec<EndedLink>,
    /// The first thing that was not right.
    pub(crate) wrong: Option<String>,
    pub(crate) notes: Option<Notes>,
}

/// What a process has heard, in a file in memory that its test keeps.
pub(crate) struct Notes(File);

/// Has an endpoint listen, and answer calls.
pub(crate) fn listen(endpoint: &Endpoint) -> Arc<Mutex<Heard>> {
    let heard: Arc<Mutex<Heard>> = Arc::default();
    for kind in 0..KINDS {
        let heard = Arc::clone(&heard);
        endpoint.on(u8::try_from(kind).unwrap(), move |request| {
            let number = heard.lock().unwrap().hear(kind, &request);
            if kind == CALL {
                request.reply(&[number * 3]);
            }
        });
    }
    let told = Arc::clone(&heard);
    endpoint.on_error(move |back| told.lock().unwrap().come_back(&back));
    let told = Arc::clone(&heard);
    endpoint.on_end(move |ended| told.lock().unwrap().ended.push(ended));
    heard
}

impl Heard {
    fn hear(&mut self, kind: usize, request: &Request<'_>) -> u64 {
        let (number, due) = (request.words()[0], self.came[kind]);
        let is_whole = request.bytes().len() == len(kind, number)
            && (0..).zip(request.bytes()).all(|(at, byte)| *byte == pattern(number, at));
        if *self.peer.get_or_insert(request.peer()) != request.peer() || !self.ended.is_empty() {
            self.complain(format!("message {number} of kind {kind} is of one who is gone"));
        } else if number != due {
            self.complain(format!("message {number} of kind {kind} is not in order: {due} is due"));
        } else if !is_whole {
            self.complain(format!("message {number} of kind {kind} is not whole"));
        }
        self.came[kind] += 1;
        if let Some(notes) = &self.notes {
            notes.write(kind, self.came[kind]);
        }
        number
    }

    fn come_back(&mut self, back: &Undelivered) {
        match &back.reason {
            MessageError::LinkLost { fate, .. } => {
                self.lost.push((usize::from(back.handler), back.words[0], *fate));
            }
            other => self.complain(format!("a message came back: {other}")),
        }
    }

    fn complain(&mut self, why: String) {
        self.wrong.get_or_insert(why);
    }

    /// How many messages of one kind may have been delivered or not, of `sent` of which `taken`
    /// were; or what is wrong with what came back.
    pub(crate) fn unknown(&self, kind: usize, sent: u64, taken: u64) -> Result<u64, String> {
        let lost = self.lost.iter().filter(|(lost, ..)| *lost == kind);
        let mut lost: Vec<(u64, Fate)> = lost.map(|(_, number, fate)| (*number, *fate)).collect();
        lost.sort_by_key(|(number, _)| *number);
        let first = sent.checked_sub(lost.len() as u64).ok_or("more came back than was sent")?;
        if taken > sent {
            return Err(format!("{sent} messages were sent, and {taken} came"));
        }
        if !lost.iter().map(|(number, _)| *number).eq(first..sent) {
            return Err(format!("not the last of {sent} messages came back: {lost:?}"));
        }
        let unsent = lost.iter().filter(|(_, fate)| *fate == Fate::NotDelivered);
        match unsent.clone().find(|(number, _)| *number < taken) {
            Some((number, _)) => Err(format!("message {number} was delivered after all")),
            None => Ok((lost.len() - unsent.count()) as u64),
        }
    }
}

impl Notes {
    pub(crate) fn new() -> Self {
        Self(File::from(memfd_create("notes", MemfdFlags::CLOEXEC).unwrap()))
    }

    /// The same file, as what the process writes to.
    pub(crate) fn stdout(&self) -> Stdio {
        self.0.try_clone().unwrap().into()
    }

    /// Those of this process, which was started so.
    pub(crate) fn inherited() -> Self {
        Self(File::from(std::io::stdout().as_fd().try_clone_to_owned().unwrap()))
    }

    fn write(&self, kind: usize, came: u64) {
        self.0.write_all_at(&came.to_ne_bytes(), offset(kind)).unwrap();
    }

    /// How many messages of a kind had come when it was noted last.
    pub(crate) fn came(&self, kind: usize) -> u64 {
        let mut came = [0; 8];
        // A file that ends before has no such note.
        let noted = self.0.read_exact_at(&mut came, offset(kind));
        noted.map_or(0, |()| u64::from_ne_bytes(came))
    }
}

const fn offset(kind: usize) -> u64 {
    BEHIND + kind as u64 * 8
}

/// The harness of the process writes in front of this.
const BEHIND: u64 = 1 << 16;

#[test]
fn what_came_back_is_held_against_what_was_taken() {
    let (perhaps, never) = (Fate::Unknown, Fate::NotDelivered);
    let unknown = |sent, taken, lost: &[(u64, Fate)]| {
        let lost = lost.iter().map(|(number, fate)| (ONE_WAY, *number, *fate)).collect();
        Heard { lost, ..Heard::default() }.unknown(ONE_WAY, sent, taken)
    };
    assert_eq!(unknown(10, 9, &[(9, never), (8, perhaps)]), Ok(1));
    assert_eq!(unknown(10, 10, &[]), Ok(0));
    for (sent, taken, lost, said) in [
        (10, 3, &[(8, perhaps)][..], "not the last"),
        (10, 3, &[(9, perhaps), (9, perhaps)], "not the last"),
        (10, 10, &[(9, never)], "after all"),
        (10, 11, &[], "and 11 came"),
        (0, 0, &[(0, perhaps)], "more came back"),
    ] {
        let why = unknown(sent, taken, lost).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
}
