//! What the reports about messages show.

use super::report::Column;
use super::vi::What;

/// What a report tells beside subject and limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Also {
    /// The bare memory that is shared, of latencies.
    Slot,
    /// What is lost.
    Lost,
    /// What encryption costs.
    Encryption,
}

/// The columns for people. There is one report in a process, which keeps them.
pub(super) fn columns(what: What, also: Also) -> &'static [Column] {
    let (subject, limit) = match what {
        What::Latency => (&[Column::P50, Column::P99][..], Column::LIMIT_NS),
        What::Bandwidth => (&[Column::MB_S][..], Column::LIMIT_MB_S),
        What::Rate => (&[Column::MSG_S][..], Column::LIMIT_MSG_S),
    };
    let lost = if also == Also::Lost { &[Column::LOST][..] } else { &[] };
    let further = match (also, what) {
        (Also::Slot, What::Latency) => &[Column::OF_SLOT][..],
        (Also::Encryption, What::Rate) => &[Column::OF_PLAIN],
        (Also::Encryption, _) => {
            &[Column::OF_PLAIN, Column::OF_AEAD, Column::OF_SLOWER, Column::OF_BOTH]
        }
        (Also::Slot | Also::Lost, _) => &[],
    };
    let against = [Column::LIMIT, limit, Column::RATIO];
    let all = [&[Column::SIZE, Column::MODE], subject, lost, &against, further, &[Column::SPREAD]];
    all.concat().leak()
}
