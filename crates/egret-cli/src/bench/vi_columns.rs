//! What the reports about messages show.

use super::report::Column;
use super::vi::What;

/// The columns for people; with one for what is lost, where that can be.
pub(super) const fn columns(what: What, is_lossy: bool) -> &'static [Column] {
    match (what, is_lossy) {
        (What::Latency, false) => &[
            Column::SIZE,
            Column::MODE,
            Column::P50,
            Column::P99,
            Column::LIMIT,
            Column::LIMIT_NS,
            Column::RATIO,
            Column::OF_SLOT,
            Column::SPREAD,
        ],
        (What::Latency, true) => &[
            Column::SIZE,
            Column::MODE,
            Column::P50,
            Column::P99,
            Column::LOST,
            Column::LIMIT,
            Column::LIMIT_NS,
            Column::RATIO,
            Column::SPREAD,
        ],
        (What::Bandwidth, false) => &[
            Column::SIZE,
            Column::MODE,
            Column::MB_S,
            Column::LIMIT,
            Column::LIMIT_MB_S,
            Column::RATIO,
            Column::SPREAD,
        ],
        (What::Bandwidth, true) => &[
            Column::SIZE,
            Column::MODE,
            Column::MB_S,
            Column::LOST,
            Column::LIMIT,
            Column::LIMIT_MB_S,
            Column::RATIO,
            Column::SPREAD,
        ],
        (What::Rate, false) => &[
            Column::SIZE,
            Column::MODE,
            Column::MSG_S,
            Column::LIMIT,
            Column::LIMIT_MSG_S,
            Column::RATIO,
            Column::SPREAD,
        ],
        (What::Rate, true) => &[
            Column::SIZE,
            Column::MODE,
            Column::MSG_S,
            Column::LOST,
            Column::LIMIT,
            Column::LIMIT_MSG_S,
            Column::RATIO,
            Column::SPREAD,
        ],
    }
}

/// The same of what is encrypted, with what that costs.
pub(super) const fn encrypted(what: What) -> &'static [Column] {
    match what {
        What::Latency => &[
            Column::SIZE,
            Column::MODE,
            Column::P50,
            Column::P99,
            Column::LIMIT,
            Column::LIMIT_NS,
            Column::RATIO,
            Column::OF_PLAIN,
            Column::OF_AEAD,
            Column::OF_SLOWER,
            Column::OF_BOTH,
            Column::SPREAD,
        ],
        What::Bandwidth => &[
            Column::SIZE,
            Column::MODE,
            Column::MB_S,
            Column::LIMIT,
            Column::LIMIT_MB_S,
            Column::RATIO,
            Column::OF_PLAIN,
            Column::OF_AEAD,
            Column::OF_SLOWER,
            Column::OF_BOTH,
            Column::SPREAD,
        ],
        What::Rate => &[
            Column::SIZE,
            Column::MODE,
            Column::MSG_S,
            Column::LIMIT,
            Column::LIMIT_MSG_S,
            Column::RATIO,
            Column::OF_PLAIN,
            Column::SPREAD,
        ],
    }
}
