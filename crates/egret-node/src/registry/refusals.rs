//! Log lines about requests that the registry has refused.

use std::fmt;
use std::mem::{Discriminant, discriminant};

use egret_net::rt::{Instant, LogLimit};

use super::limits::log_text;
use crate::pool::RegistryRefusal;
use crate::pool::wire::RegistryQuestion;

/// Logs refusals, at a limited rate for each reason: a node that repeats its request neither fills the
/// log nor keeps other reasons out of it.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Vec<(Discriminant<RegistryRefusal>, LogLimit)>);

/// The request, as far as it is logged.
#[derive(Debug)]
pub(super) enum QuestionSummary {
    Join { pool: String, rank: Option<u32> },
    Other,
}

impl QuestionSummary {
    pub(super) fn of(ask: &RegistryQuestion) -> Self {
        match ask {
            RegistryQuestion::Join(join) => {
                Self::Join { pool: log_text(&join.pool), rank: join.rank }
            }
            _ => Self::Other,
        }
    }

    /// Whether this is a refusal that only the member itself needs to know, and that is not logged.
    pub(super) const fn is_of_members(&self, why: &RegistryRefusal) -> bool {
        matches!(self, Self::Other)
            && matches!(why, RegistryRefusal::NameTaken { .. } | RegistryRefusal::TooLarge { .. })
    }
}

impl fmt::Display for QuestionSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Join { pool, rank: None } => write!(f, "to join {pool:?}"),
            Self::Join { pool, rank: Some(rank) } => write!(f, "to join {pool:?} as rank {rank}"),
            Self::Other => f.write_str("what members ask"),
        }
    }
}

impl RefusalLog {
    pub(super) fn say(
        &mut self,
        peer: &str,
        question: &QuestionSummary,
        why: &RegistryRefusal,
        now: Instant,
    ) {
        let kind = discriminant(why);
        let at = self.0.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            self.0.push((kind, LogLimit::default()));
            self.0.len() - 1
        });
        if let Some(others) = self.0[at].1.permit(now) {
            let why = log_text(&why.to_string());
            tracing::warn!(peer, others, "refused {question}; the node is told: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use egret_net::sync::Mutex;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Keeps what the log is told.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0 += &format!("{}={value:?} ", field.name());
        }
    }

    impl Subscriber for Log {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut line = Line(String::new());
            event.record(&mut line);
            self.0.lock().push(line.0);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn refusals_are_logged_by_reason_sender_and_count() {
        let (log, mut refusals, now) = (Log::default(), RefusalLog::default(), Instant::default());
        let join = QuestionSummary::Join { pool: "p".into(), rank: Some(3) };
        let full = RegistryRefusal::PoolFull { size: 3 };
        tracing::subscriber::with_default(log.clone(), || {
            for _ in 0..1000 {
                refusals.say("a:1", &join, &full, now);
            }
            refusals.say("b:2", &QuestionSummary::Other, &RegistryRefusal::NotMember, now);
            let forged = RegistryRefusal::Fenced { why: format!("x\n{}", "y".repeat(1000)) };
            refusals.say("c:3", &QuestionSummary::Other, &forged, now);
            refusals.say("a:1", &join, &full, now + Duration::from_secs(1));
        });
        let told = log.0.lock();
        let mut told: Vec<_> = told.iter().map(|line| line.trim_end()).collect();
        let forged = told.remove(2);
        assert!(forged.contains(": x y") && forged.len() < 500, "{forged}");
        let full = r#"message=refused to join "p" as rank 3; the node is told: all 3 nodes are there: a rank is free when one of them is gone"#;
        let other =
            "message=refused what members ask; the node is told: the node is no member of the pool";
        let with = |message: &str, peer: &str, others: u64| {
            format!("{message} peer={peer:?} others={others}")
        };
        assert_eq!(told, [with(full, "a:1", 0), with(other, "b:2", 0), with(full, "a:1", 999)]);
    }
}
