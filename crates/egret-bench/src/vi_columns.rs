//! What the reports about messages show.

use super::report::ReportColumn;
use super::vi::MessageMeasure;

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
pub(super) fn columns(what: MessageMeasure, also: Also) -> &'static [ReportColumn] {
    let (subject, limit) = match what {
        MessageMeasure::Latency => {
            (&[ReportColumn::P50, ReportColumn::P99][..], ReportColumn::LIMIT_NS)
        }
        MessageMeasure::Bandwidth => (&[ReportColumn::MB_S][..], ReportColumn::LIMIT_MB_S),
        MessageMeasure::Rate => (&[ReportColumn::MSG_S][..], ReportColumn::LIMIT_MSG_S),
    };
    let lost = if also == Also::Lost { &[ReportColumn::LOST][..] } else { &[] };
    let further = match (also, what) {
        (Also::Slot, MessageMeasure::Latency) => &[ReportColumn::OF_SLOT][..],
        (Also::Encryption, MessageMeasure::Rate) => &[ReportColumn::OF_PLAIN],
        (Also::Encryption, _) => &[
            ReportColumn::OF_PLAIN,
            ReportColumn::OF_AEAD,
            ReportColumn::OF_SLOWER,
            ReportColumn::OF_BOTH,
        ],
        (Also::Slot | Also::Lost, _) => &[],
    };
    let against = [ReportColumn::LIMIT, limit, ReportColumn::RATIO];
    let all = [
        &[ReportColumn::SIZE, ReportColumn::MODE],
        subject,
        lost,
        &against,
        further,
        &[ReportColumn::SPREAD],
    ];
    all.concat().leak()
}
