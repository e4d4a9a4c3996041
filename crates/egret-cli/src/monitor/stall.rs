//! Whether the nodes of a job or a pool stand still, and what they wait for.

use std::time::Duration;

use egret::node::{NodeReport, wait_circle};
use egret::rt::{self, Instant};

use super::MemberReport;

/// Whether a job or pool stands still: every member waits, has waited for long, and sends nothing to others.
pub(super) struct StallWatch {
    what: &'static str,
    most: Duration,
    /// All messages of the members, and since when it is that many.
    progress: (u64, Instant),
    /// Whether it was said since then.
    is_said: bool,
    looked: Instant,
}

impl StallWatch {
    pub(super) fn new(what: &'static str, most: Duration) -> Self {
        let now = rt::now();
        Self { what, most, progress: (u64::MAX, now), is_said: false, looked: now }
    }

    pub(super) fn pause(&self) -> Duration {
        (self.most / 4).max(PAUSE_LEAST)
    }

    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now - self.looked >= self.pause();
        if is_due {
            self.looked = now;
        }
        is_due
    }

    /// Looks at reports of now; returns what is to be said, if the job stands still.
    pub(super) fn look(&mut self, reports: &[MemberReport], now: Instant) -> Option<String> {
        let all: Option<Vec<_>> = reports.iter().map(|(_, report)| report.clone()).collect();
        let all = all.filter(|all| !all.is_empty())?;
        let progress = all.iter().map(NodeReport::progress).fold(0, u64::wrapping_add);
        if self.progress.0 != progress {
            (self.progress, self.is_said) = ((progress, now), false);
        }
        let most = u64::try_from(self.most.as_millis()).unwrap_or(u64::MAX);
        let waits_long = |report: &NodeReport| {
            report.waits.iter().any(|wait| wait.waited_ms >= most && !wait.is_idle())
        };
        if self.is_said || now - self.progress.1 < self.most || !all.iter().all(waits_long) {
            return None;
        }
        self.is_said = true;
        let Self { what, most, .. } = self;
        let waits = waits_of(&all);
        Some(format!("the {what} has stood still for {most:.0?} (EGRET_STALL):\n{waits}"))
    }
}

/// A line for each wait, and the circle of waits if there is one.
pub(crate) fn waits_of(reports: &[NodeReport]) -> String {
    let mut lines = Vec::new();
    for report in reports {
        lines.extend(report.waits.iter().map(|wait| format!("  {}: {wait}", report.node)));
        if report.omitted_waits > 0 {
            lines.push(format!("  {}: and {} more waits", report.node, report.omitted_waits));
        }
    }
    let circle = wait_circle(reports);
    if let Some(first) = circle.first() {
        let nodes = circle.iter().chain([first]).map(ToString::to_string);
        lines.push(format!("  circle of waits: {}", nodes.collect::<Vec<_>>().join(" → ")));
    }
    lines.join("\n")
}

/// The shortest time between two looks for a job that stands still.
const PAUSE_LEAST: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_still_is_said_once_until_it_goes_on() {
        let start = rt::now();
        let mut watch = StallWatch::new("pool", Duration::from_secs(1));
        let at = |seconds| start + Duration::from_secs(seconds);
        let pool = egret::local::pool(1).unwrap();
        let idle = pool[0].report();
        let mut reports = vec![(idle.node, Some(idle))];
        assert_eq!(watch.look(&reports, at(0)), None);
        assert_eq!(watch.look(&reports, at(5)), None, "no thread waits");
        let waiting = wait_of(&pool[0]);
        reports[0].1 = Some(waiting.clone());
        let said = watch.look(&reports, at(6)).expect("it stands still");
        assert!(said.starts_with("the pool has stood still for 1s (EGRET_STALL):"), "{said}");
        assert_eq!(watch.look(&reports, at(60)), None, "it was said");
        let mut moved = waiting;
        moved.total.sent += 1;
        reports[0].1 = Some(moved);
        assert_eq!(watch.look(&reports, at(61)), None, "it goes on");
        assert!(watch.look(&reports, at(63)).is_some(), "and stands again");
        reports.push((reports[0].0, None));
        assert_eq!(
            watch.look(&reports, at(90)),
            None,
            "one that does not answer is not known to wait"
        );
        assert_eq!(StallWatch::new("job", Duration::ZERO).look(&[], at(9)), None);
    }

    /// The report of a node with a thread that has waited for more than a second.
    fn wait_of(node: &egret::node::NodeHandle) -> NodeReport {
        let until = rt::now() + Duration::from_secs(20);
        let waiter = node.clone();
        let wait = move || waiter.wait_bound("nothing", Duration::from_secs(3)).map(drop);
        let waits = rt::spawn("waiter", wait).unwrap();
        loop {
            let report = node.report();
            if report.waits.iter().any(|wait| wait.waited_ms >= 1000) {
                drop(waits);
                return report;
            }
            assert!(rt::now() < until, "{report}");
            rt::sleep(Duration::from_millis(10));
        }
    }
}
