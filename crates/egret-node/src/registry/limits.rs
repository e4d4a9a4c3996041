//! Limits of what the registry keeps for its nodes.

use super::fault::{Fault, planted};
use crate::pool::RegistryRefusal;
use crate::pool::wire::{JoinRequest, LogEntry, SHARE_MIN};

/// Bytes that a name is bound to: a request with them and the name is one message.
pub(crate) const BOUND_MAX: usize = 3 << 10;
/// Names that a node has bound.
pub(super) const NAMES_MAX: usize = 4096;
/// Names that a node waits for.
pub(super) const WAITS_MAX: usize = 1024;
/// Bytes of a node's description of itself, and at most a quarter of the [share] of its rank.
const MEMBER_MAX: usize = 16 << 10;
/// Bytes of the log: about 200,000 lives. Each rank has its share, of [`SHARE_MIN`] at least.
const LOG_MAX: usize = 64 << 20;
/// Bytes of a reason, at least and at most; and a sixteenth of the share of its rank.
const TEXT_MIN: usize = 256;
const TEXT_MAX: usize = 1 << 10;
/// Bytes of entries in one answer, unless one entry is larger.
const BATCH: usize = 3 << 10;

/// Bytes of a node's description of itself, unless it is too long.
pub(super) fn says(join: &JoinRequest, size: u32) -> Result<usize, RegistryRefusal> {
    let texts = join.fabrics.iter().map(|offer| {
        let more = offer.properties.more.iter().map(|(key, value)| key.len() + value.len() + 16);
        offer.fabric.len() + offer.host.len() + more.sum::<usize>() + 64
    });
    let says = join.machine.len() + texts.sum::<usize>();
    let most = MEMBER_MAX.min(share(size) / 4);
    if says > most {
        let what = format!("the node says {says} bytes of itself, to a pool of {size}");
        return Err(RegistryRefusal::TooLarge { what, most: most as u64 });
    }
    Ok(says)
}

/// Bytes of the log that a rank has for all its lives: a node that joins and leaves for ever uses up
/// the share of its own rank.
pub(super) fn share(size: u32) -> usize {
    if planted(Fault::LogForOne) { LOG_MAX } else { SHARE_MIN.max(LOG_MAX / size.max(1) as usize) }
}

/// The refusal of a life of a rank whose share of the log is used up.
pub(super) fn used_up(rank: u32, bytes: usize, size: u32) -> RegistryRefusal {
    let what =
        format!("rank {rank} had so many lives that the registry's log has {bytes} bytes of them");
    RegistryRefusal::TooLarge { what, most: share(size) as u64 }
}

/// The entries from this one on that one answer has.
pub(super) fn batch(log: &[LogEntry], next: u64) -> Vec<LogEntry> {
    let next = usize::try_from(next).unwrap_or(usize::MAX);
    let mut room = BATCH;
    let fits = |entry: &&LogEntry| {
        let fits = room == BATCH || entry.len() <= room;
        room = room.saturating_sub(entry.len().max(1));
        fits
    };
    log.get(next..).unwrap_or_default().iter().take_while(fits).cloned().collect()
}

/// The reason of an end, cut to the length that a pool of this size allows.
pub(super) fn cut_reason(text: &str, size: u32) -> String {
    cut_text(text, (share(size) / 16).clamp(TEXT_MIN, TEXT_MAX))
}

/// A text for the program's log: cut, and on one line.
pub(super) fn log_text(text: &str) -> String {
    cut_text(text, TEXT_MIN).replace(char::is_control, " ")
}

fn cut_text(text: &str, most: usize) -> String {
    let end = (0..=text.len().min(most)).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}
