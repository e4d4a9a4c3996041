//! How much anybody may ask the registry to remember.

use super::fault::{Fault, planted};
use super::wire::{Entry, Join};
use crate::node::Refused;

/// Nodes of a pool.
pub(crate) const SIZE_MAX: u32 = 65_536;
/// Bytes of a name.
pub(crate) const NAME_MAX: usize = 255;
/// Bytes that a name stands for: a question with them and the name is one message.
pub(crate) const BOUND_MAX: usize = 3 << 10;
/// Names that a node has bound.
pub(super) const NAMES_MAX: usize = 4096;
/// Names that a node waits for.
pub(super) const WAITS_MAX: usize = 1024;
/// Bytes of what a node says of itself, and at most a quarter of the [share] of its rank.
const MEMBER_MAX: usize = 16 << 10;
/// Bytes of the log: about 200,000 lives. Each rank has its share, and at least so much.
const LOG_MAX: usize = 64 << 20;
const SHARE_MIN: usize = 4 << 10;
/// Bytes of the longest log: all ranks have their shares, and a life and an end that went beyond.
pub(crate) const TOLD_MAX: usize = 2 * SHARE_MIN * SIZE_MAX as usize;
/// Bytes of a reason, at least and at most; and a sixteenth of the share of its rank.
const TEXT_MIN: usize = 256;
const TEXT_MAX: usize = 1 << 10;
/// Bytes of entries that are told at once, if one is not larger.
const BATCH: usize = 3 << 10;

/// Bytes of what a node says of itself, if it is not too much.
pub(super) fn says(join: &Join, size: u32) -> Result<usize, Refused> {
    let texts = join.fabrics.iter().map(|offer| {
        let more = offer.properties.more.iter().map(|(key, value)| key.len() + value.len() + 16);
        offer.fabric.len() + offer.host.len() + more.sum::<usize>() + 64
    });
    let says = join.machine.len() + texts.sum::<usize>();
    let most = MEMBER_MAX.min(share(size) / 4);
    if says > most {
        let what = format!("the node says {says} bytes of itself, to a pool of {size}");
        return Err(Refused::TooLarge { what, most: most as u64 });
    }
    Ok(says)
}

/// Bytes of the log that a rank has for all its lives: who comes and goes for ever uses up its own.
pub(super) fn share(size: u32) -> usize {
    if planted(Fault::LogForOne) { LOG_MAX } else { SHARE_MIN.max(LOG_MAX / size.max(1) as usize) }
}

/// Why a rank that has had so many bytes of the log gets none for this life.
pub(super) fn used_up(rank: u32, bytes: usize, size: u32) -> Refused {
    let what =
        format!("rank {rank} had so many lives that the registry's log has {bytes} bytes of them");
    Refused::TooLarge { what, most: share(size) as u64 }
}

/// The entries from this one on that are told at once.
pub(super) fn batch(log: &[Entry], next: u64) -> Vec<Entry> {
    let next = usize::try_from(next).unwrap_or(usize::MAX);
    let mut room = BATCH;
    let fits = |entry: &&Entry| {
        let fits = room == BATCH || entry.len() <= room;
        room = room.saturating_sub(entry.len().max(1));
        fits
    };
    log.get(next..).unwrap_or_default().iter().take_while(fits).cloned().collect()
}

/// As much of the reason of an end as a pool of this size is told.
pub(super) fn cut_reason(text: &str, size: u32) -> String {
    cut_text(text, (share(size) / 16).clamp(TEXT_MIN, TEXT_MAX))
}

/// As much of a text as a line of the program's log has, on one line.
pub(super) fn log_text(text: &str) -> String {
    cut_text(text, TEXT_MIN).replace(char::is_control, " ")
}

fn cut_text(text: &str, most: usize) -> String {
    let end = (0..=text.len().min(most)).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}
