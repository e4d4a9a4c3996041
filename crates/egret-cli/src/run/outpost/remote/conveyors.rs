//! The threads that pass on what the launcher and an outpost say to each other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use egret::rt::{self, Instant};
use rustix::event::{PollFd, PollFlags};
use zeroize::Zeroizing;

use crate::run::inbox::Inbox;
use crate::run::outpost::SAY_EVERY;
use crate::run::outpost::frames::{Frame, write_bytes};
use crate::run::outpost::order::{GREETING, OutpostOrder, OutpostReport, PROGRAM, WINDOW};
use crate::system::{tell, wait_for};

/// What is written to an outpost.
#[derive(Debug)]
pub(super) enum OutpostBytes {
    Frame(Zeroizing<Vec<u8>>),
    /// The file in frames of the stream [`PROGRAM`].
    Program(Arc<File>),
}

/// What the threads of an outpost have for the launcher.
#[derive(Debug)]
pub(super) enum OutpostSaid {
    Report(OutpostReport),
    /// It says no more, for this reason if it is not just the end.
    Ends(Option<String>),
    /// Its output has been passed on.
    Written,
}

/// What a thread passes on to where it is made lines.
#[derive(Debug)]
pub(super) enum OutputPiece {
    /// The streams there are, by their numbers.
    Streams(BTreeMap<u32, File>),
    Bytes(u32, Vec<u8>),
    End,
}

/// Starts the threads of the outpost with this number, which is reached by `process`.
pub(super) fn convey(
    process: &mut Child,
    (at, inbox): (usize, &Inbox<(usize, OutpostSaid)>),
    orders: &Inbox<OutpostBytes>,
    (output, pieces): (Sender<OutputPiece>, Receiver<OutputPiece>),
    heard: &Arc<Mutex<Instant>>,
) -> Result<()> {
    let stdin = process.stdin.take().context("its input is a pipe")?;
    let stdout = process.stdout.take().context("its output is a pipe")?;
    let ordered = orders.clone();
    rt::spawn("orders", move || give_orders(stdin, &ordered))?;
    let untaken = Arc::new(AtomicUsize::new(0));
    let (hears, reports) = (Arc::clone(heard), inbox.clone());
    let unread = Arc::clone(&untaken);
    rt::spawn("outpost", move || {
        let why = hear(stdout, |said| {
            *hears.lock().unwrap_or_else(PoisonError::into_inner) = rt::now();
            match said {
                Frame::Said(report) => reports.put((at, OutpostSaid::Report(report))),
                Frame::Bytes(stream, bytes) => {
                    let before = unread.fetch_add(bytes.len(), Ordering::Relaxed);
                    if bytes.is_empty() || before + bytes.len() > WINDOW {
                        bail!("it says more output than it was asked for, or none");
                    }
                    _ = output.send(OutputPiece::Bytes(stream, bytes));
                }
            }
            Ok(())
        });
        let _ = output.send(OutputPiece::End);
        reports.put((at, OutpostSaid::Ends(why.err().map(|why| format!("{why:#}")))));
    })?;
    let (back, written) = (orders.clone(), inbox.clone());
    rt::spawn("outpost output", move || {
        pass_on(&pieces, &back, &untaken);
        written.put((at, OutpostSaid::Written));
    })?;
    Ok(())
}

/// Writes orders to an outpost until it does not read them any more, and says between them that the launcher is there.
fn give_orders(mut to: ChildStdin, orders: &Inbox<OutpostBytes>) {
    let Ok(here) = Frame::said(&OutpostOrder::Here) else { return };
    loop {
        wait_for(&mut [PollFd::new(orders, PollFlags::IN)], Some(SAY_EVERY));
        let mut all = orders.take();
        if all.is_empty() {
            all.push_back(OutpostBytes::Frame(here.clone()));
        }
        for bytes in all {
            let written = match bytes {
                OutpostBytes::Frame(frame) => to.write_all(&frame),
                OutpostBytes::Program(file) => write_program(&mut to, &file),
            };
            if written.and_then(|()| to.flush()).is_err() {
                return;
            }
        }
    }
}

/// Writes the bytes of a file as those of the program.
fn write_program(to: &mut impl Write, file: &File) -> io::Result<()> {
    let (mut piece, mut at) = (vec![0; PROGRAM_PIECE], 0);
    loop {
        let read = file.read_at(&mut piece, at);
        match read.inspect_err(|why| tell(&format!("reading the program to copy it: {why}")))? {
            0 => return Ok(()),
            bytes => {
                write_bytes(to, PROGRAM, &piece[..bytes])?;
                at += bytes as u64;
            }
        }
    }
}

/// Reads what an outpost says to its end.
fn hear(from: ChildStdout, mut said: impl FnMut(Frame<OutpostReport>) -> Result<()>) -> Result<()> {
    let mut from = BufReader::with_capacity(READ_AHEAD, from);
    let mut greeting = [0; GREETING.len()];
    let mut come = 0;
    while come < greeting.len() {
        match from.read(&mut greeting[come..])? {
            0 if come == 0 => return Ok(()),
            0 => break,
            more => come += more,
        }
    }
    if greeting != *GREETING {
        let said = String::from_utf8_lossy(&greeting[..come]).into_owned();
        bail!(
            "it began with {said:?} instead of the greeting of an outpost; does a start file of the shell print something there?"
        );
    }
    while let Some(frame) = Frame::read(&mut from, REPORT_MAX)? {
        said(frame)?;
    }
    Ok(())
}

/// Passes on what the processes of an outpost write, to where it is made lines, and tells the outpost how much that was.
fn pass_on(pieces: &Receiver<OutputPiece>, orders: &Inbox<OutpostBytes>, untaken: &AtomicUsize) {
    let mut streams = BTreeMap::new();
    let order = |order: &OutpostOrder| {
        if let Ok(frame) = Frame::said(order) {
            orders.put(OutpostBytes::Frame(frame));
        }
    };
    for piece in pieces {
        match piece {
            OutputPiece::Streams(all) => streams = all,
            OutputPiece::Bytes(number, bytes) => {
                let written =
                    streams.get_mut(&number).map(|stream: &mut File| stream.write_all(&bytes));
                if matches!(written, Some(Err(_))) {
                    // Its reader is gone.
                    streams.remove(&number);
                    order(&OutpostOrder::Unread(number));
                }
                untaken.fetch_sub(bytes.len(), Ordering::Relaxed);
                order(&OutpostOrder::Taken(u32::try_from(bytes.len()).unwrap_or(u32::MAX)));
            }
            OutputPiece::End => return,
        }
    }
}

const READ_AHEAD: usize = 128 << 10;
/// Bytes of the program in one frame: by each whole frame the outpost knows that the launcher is there.
const PROGRAM_PIECE: usize = 16 << 10;
/// Bytes of one report: thousands of processes that end at once.
const REPORT_MAX: usize = 1 << 20;
