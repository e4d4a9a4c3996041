//! What the log is told of those whom the registry refuses.

use std::fmt;
use std::mem::{Discriminant, discriminant};

use egret_net::rt::{Instant, Seldom};

use super::limits::log_text;
use super::wire::Ask;
use crate::node::Refused;

/// Says it of each reason once in a while: who asks for ever does not fill the log, nor keep
/// others out of it.
#[derive(Debug, Default)]
pub(super) struct Refusals(Vec<(Discriminant<Refused>, Seldom)>);

/// What was asked, as far as the log tells it.
#[derive(Debug)]
pub(super) enum Question {
    Join { pool: String, rank: Option<u32> },
    Other,
}

impl Question {
    pub(super) fn of(ask: &Ask) -> Self {
        match ask {
            Ask::Join(join) => Self::Join { pool: log_text(&join.pool), rank: join.rank },
            _ => Self::Other,
        }
    }

    /// Whether a member is refused what it asked for, which is its own affair.
    pub(super) const fn is_of_members(&self, why: &Refused) -> bool {
        matches!(self, Self::Other)
            && matches!(why, Refused::NameTaken { .. } | Refused::TooLarge { .. })
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Join { pool, rank: None } => write!(f, "to join {pool:?}"),
            Self::Join { pool, rank: Some(rank) } => write!(f, "to join {pool:?} as rank {rank}"),
            Self::Other => f.write_str("what members ask"),
        }
    }
}

impl Refusals {
    pub(super) fn say(&mut self, peer: &str, question: &Question, why: &Refused, now: Instant) {
        let kind = discriminant(why);
        let at = self.0.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            self.0.push((kind, Seldom::default()));
            self.0.len() - 1
        });
        if let Some(others) = self.0[at].1.say(now) {
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
    fn each_reason_is_told_with_who_and_how_many_and_a_flood_of_one_hides_no_other() {
        let (log, mut refusals, now) = (Log::default(), Refusals::default(), Instant::default());
        let join = Question::Join { pool: "p".into(), rank: Some(3) };
        let full = Refused::PoolFull { size: 3 };
        tracing::subscriber::with_default(log.clone(), || {
            for _ in 0..1000 {
                refusals.say("a:1", &join, &full, now);
            }
            refusals.say("b:2", &Question::Other, &Refused::NotMember, now);
            let forged = Refused::Fenced { why: format!("x\n{}", "y".repeat(1000)) };
            refusals.say("c:3", &Question::Other, &forged, now);
            refusals.say("a:1", &join, &full, now + Duration::from_secs(1));
        });
        let told = log.0.lock();
        let mut told: Vec<_> = told.iter().map(|line| line.trim_end()).collect();
        let forged = told.remove(2);
        assert!(forged.contains(": x y") && forged.len() < 500, "{forged}");
        let full = r#"message=refused to join "p" as rank 3; the node is told: all 3 nodes are there: a rank is free when one of them is gone"#;
        let other = "message=refused what members ask; the node is told: it is no member";
        let with = |message: &str, peer: &str, others: u64| {
            format!("{message} peer={peer:?} others={others}")
        };
        assert_eq!(told, [with(full, "a:1", 0), with(other, "b:2", 0), with(full, "a:1", 999)]);
    }
}
