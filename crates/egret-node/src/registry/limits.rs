//! How much anybody may ask the registry to remember.

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
/// Bytes of what a node says of itself.
const MEMBER_MAX: usize = 16 << 10;
/// Bytes of the log when nobody may join any more: about 100,000 lives.
const LOG_MAX: usize = 32 << 20;
/// Bytes of a log with all that may still end.
pub(crate) const TOLD_MAX: usize = 4 * LOG_MAX;
/// Bytes of a reason.
const TEXT_MAX: usize = 1 << 10;
/// Bytes of entries that are told at once, if one is not larger.
const BATCH: usize = 3 << 10;

/// Whether so much can be remembered of a node.
pub(super) fn check_join(join: &Join, log_bytes: usize) -> Result<(), Refused> {
    let large = |what, most: usize| Err(Refused::TooLarge { what, most: most as u64 });
    let texts = join.fabrics.iter().map(|offer| {
        let more = offer.properties.more.iter().map(|(key, value)| key.len() + value.len() + 16);
        offer.fabric.len() + offer.host.len() + more.sum::<usize>() + 64
    });
    let says = join.machine.len() + texts.sum::<usize>();
    if says > MEMBER_MAX {
        return large(format!("the node says {says} bytes of itself"), MEMBER_MAX);
    }
    if log_bytes > LOG_MAX {
        return large(format!("the registry's log has {log_bytes} bytes"), LOG_MAX);
    }
    Ok(())
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

/// As much of a text as is told.
pub(super) fn cut_text(text: &str) -> String {
    let end = (0..=text.len().min(TEXT_MAX)).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}
