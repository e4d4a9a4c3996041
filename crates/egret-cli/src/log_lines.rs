//! Warnings and errors of the libraries as lines on stderr, for a process that runs for long and has no other log.
//!
//! A thread of its own writes them: a reader of stderr that stops does not stop who warns.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result};
use egret::rt::{self, Thread};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::system::tell;

/// The lines of this process; to be [ended](Self::end).
pub(crate) struct LogLines {
    lines: SyncSender<LogLine>,
    counts: Arc<LineCounts>,
}

enum LogLine {
    Said(String),
    /// This thread waits until all lines before are written.
    Last(Thread),
}

#[derive(Default)]
struct LineCounts {
    /// Lines for which there was no room.
    lost: AtomicU64,
    /// Whether all are written.
    is_over: AtomicBool,
}

/// Writes what the libraries warn of from now on.
pub(crate) fn begin() -> Result<LogLines> {
    let ((lines, waiting), counts) = (sync_channel(LINES_MAX), Arc::<LineCounts>::default());
    let counted = Arc::clone(&counts);
    rt::spawn("log", move || write(&waiting, &counted)).context("starting a thread for the log")?;
    let log = LogSubscriber { lines: lines.clone(), counts: Arc::clone(&counts) };
    // A program that has set another subscriber keeps it.
    let _ = tracing::subscriber::set_global_default(log);
    Ok(LogLines { lines, counts })
}

fn write(waiting: &Receiver<LogLine>, counts: &LineCounts) {
    for line in waiting {
        let lost = counts.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tell(&format!("{lost} warnings are lost: stderr was not read for so long"));
        }
        match line {
            LogLine::Said(line) => tell(&line),
            LogLine::Last(thread) => {
                counts.is_over.store(true, Ordering::Release);
                thread.unpark();
            }
        }
    }
}

impl LogLines {
    /// Waits until the lines are written; not for long, for the reader of stderr may have stopped.
    pub(crate) fn end(self) {
        let until = rt::now() + END_WITHIN;
        let is_asked = self.lines.try_send(LogLine::Last(rt::current())).is_ok();
        while is_asked && !self.counts.is_over.load(Ordering::Acquire) && rt::now() < until {
            rt::park(Some(until));
        }
    }
}

/// A subscriber that hands a line on for each event from the level of warnings on, and keeps no spans.
struct LogSubscriber {
    lines: SyncSender<LogLine>,
    counts: Arc<LineCounts>,
}

impl Subscriber for LogSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = EventLine::default();
        event.record(&mut line);
        if self.lines.try_send(LogLine::Said(line.to_string())).is_err() {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message of an event, and its fields behind it.
#[derive(Default)]
struct EventLine {
    message: String,
    fields: String,
}

impl Visit for EventLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

impl fmt::Display for EventLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One line, whatever a peer has sent.
        let line = format!("{}{}", self.message, self.fields);
        f.write_str(&line.replace(char::is_control, " "))
    }
}

/// Lines that wait to be written; further ones are counted.
const LINES_MAX: usize = 256;
/// How long the end of the process waits for the lines.
const END_WITHIN: Duration = Duration::from_secs(1);
