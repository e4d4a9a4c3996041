//! What a benchmark prints.

use serde::{Serialize, Serializer};

/// One line of a report. The field names are a contract: fields are added,
/// never renamed, and stand in this order in JSON.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct ReportLine {
    pub(crate) bench: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fabric: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wait: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trust: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) encrypt: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payload: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) inflight: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) op: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) threads: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ring: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pairs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cores: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rounds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connections: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) words: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) objects: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peers: Option<u32>,
    /// Milliseconds until all have seen all, messages of the registry until then, and its constant.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) seen: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) messages: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) c: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stream_bytes: Option<usize>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) bytes: usize,
    #[serde(flatten)]
    pub(crate) subject: Figures,
    pub(crate) limit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) limit_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) limit_mb_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) limit_msg_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) limit_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) limit_cpu: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) ratio: Option<f64>,
    #[serde(flatten)]
    pub(crate) of: Ratios,
    #[serde(serialize_with = "rounded")]
    pub(crate) spread: Option<f64>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) noisy: bool,
}

/// The figures of what was measured; those of its unit are there.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Figures {
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) p50_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) p99_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) mb_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) msg_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) run_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) memory_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) cpu: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rounded")]
    pub(crate) lost: Option<f64>,
}

/// Ratios to what else was measured in the same run, beside the limit.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Ratios {
    #[serde(rename = "of_slot", skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "rounded")]
    pub(crate) slot: Option<f64>,
    #[serde(rename = "of_am", skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "rounded")]
    pub(crate) am: Option<f64>,
    #[serde(rename = "of_line_ring", skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "rounded")]
    pub(crate) line_ring: Option<f64>,
    #[serde(rename = "of_line_echo", skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "rounded")]
    pub(crate) line_echo: Option<f64>,
    #[serde(rename = "of_one_pair", skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "rounded")]
    pub(crate) one_pair: Option<f64>,
    #[serde(rename = "of_one", skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "rounded")]
    pub(crate) one: Option<f64>,
    #[serde(rename = "of_plain", skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "rounded")]
    pub(crate) plain: Option<f64>,
    #[serde(rename = "of_aead", skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "rounded")]
    pub(crate) aead: Option<f64>,
    /// To the slower of those two.
    #[serde(rename = "of_slower", skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "rounded")]
    pub(crate) slower: Option<f64>,
    /// To one of those after the other, the sum of their times.
    #[serde(rename = "of_both", skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "rounded")]
    pub(crate) both: Option<f64>,
}

/// Which of the [`Ratios`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// `shm-slot` of as many bytes.
    Slot,
    /// An active message with as much, answered by a word.
    Am,
    LineRing,
    LineEcho,
    /// The same of one pair without the others.
    OnePair,
    /// The same of one thread; this one is the total over it, whatever the unit.
    One,
    /// The same without encryption.
    Plain,
    /// The cipher alone.
    Aead,
}

/// What is reported about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds an operation: less is better.
    Nanos,
    /// Millions of payload bytes a second: more is better.
    Megabytes,
    /// Messages a second: more is better.
    Messages,
    /// Nanoseconds of a whole run: less is better.
    Run,
    /// Bytes of memory: less is better.
    Bytes,
    /// Part of the time of one core: less is better.
    Cpu,
}

/// What one run, or the median of several, came to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Figure {
    pub(crate) middle: f64,
    pub(crate) p99: Option<f64>,
    /// Of a stream meanwhile.
    pub(crate) mb_s: Option<f64>,
    /// The share of what was sent and did not arrive, where that can be.
    pub(crate) lost: Option<f64>,
}

impl ReportLine {
    pub(crate) fn set_subject(&mut self, unit: Unit, figure: Figure) {
        *self.figure_in(unit) = Some(figure.middle);
        self.subject.lost = figure.lost;
        if unit == Unit::Nanos {
            self.subject.p99_ns = figure.p99;
            self.subject.mb_s = figure.mb_s;
        }
    }

    /// The limit's figure, and with the subject's the ratio.
    pub(crate) fn set_limit(&mut self, unit: Unit, limit: f64) {
        self.ratio = self.over(unit, limit);
        let to = match unit {
            Unit::Nanos | Unit::Run => &mut self.limit_ns,
            Unit::Megabytes => &mut self.limit_mb_s,
            Unit::Messages => &mut self.limit_msg_s,
            Unit::Bytes => &mut self.limit_bytes,
            Unit::Cpu => &mut self.limit_cpu,
        };
        *to = Some(limit);
    }

    /// The ratio to something else.
    pub(crate) fn set_of(&mut self, of: Of, unit: Unit, limit: f64) {
        let ratio = self.over(unit, limit);
        match of {
            Of::Slot => self.of.slot = ratio,
            Of::Am => self.of.am = ratio,
            Of::LineRing => self.of.line_ring = ratio,
            Of::LineEcho => self.of.line_echo = ratio,
            Of::OnePair => self.of.one_pair = ratio,
            Of::One => self.of.one = self.figure_in(unit).map(|total| total / limit),
            Of::Plain => self.of.plain = ratio,
            Of::Aead => self.of.aead = ratio,
        }
        // A ratio is a time over a time, of rates too.
        let of_two = self.of.plain.zip(self.of.aead);
        self.of.slower = of_two.map(|(plain, aead)| plain.min(aead));
        self.of.both = of_two.map(|(plain, aead)| (plain.recip() + aead.recip()).recip());
    }

    /// The subject over the limit: above one is worse than the limit, for times and
    /// for rates.
    fn over(&mut self, unit: Unit, limit: f64) -> Option<f64> {
        let ratio = self.figure_in(unit).map(|subject| subject / limit);
        match unit {
            Unit::Megabytes | Unit::Messages => ratio.map(f64::recip),
            Unit::Nanos | Unit::Run | Unit::Bytes | Unit::Cpu => ratio,
        }
    }

    fn figure_in(&mut self, unit: Unit) -> &mut Option<f64> {
        let subject = &mut self.subject;
        match unit {
            Unit::Nanos => &mut subject.p50_ns,
            Unit::Megabytes => &mut subject.mb_s,
            Unit::Messages => &mut subject.msg_s,
            Unit::Run => &mut subject.run_ns,
            Unit::Bytes => &mut subject.memory_bytes,
            Unit::Cpu => &mut subject.cpu,
        }
    }

    pub(crate) fn set_spread(&mut self, spread: f64) {
        self.spread = Some(spread);
        self.noisy = spread > SPREAD_QUIET;
    }
}

/// A column for people.
#[derive(Clone, Copy)]
pub(crate) struct ReportColumn {
    title: &'static str,
    width: usize,
    text: fn(&ReportLine) -> String,
}

impl ReportColumn {
    pub(crate) const LIMIT: Self = Self::new("Limit", 14, |line| line.limit.to_owned());
    pub(crate) const OP: Self = Self::new("Op", 19, |line| line.op.unwrap_or_default().to_owned());
    pub(crate) const PAYLOAD: Self =
        Self::new("Payload", 13, |line| line.payload.unwrap_or_default().to_owned());
    pub(crate) const CALL: Self =
        Self::new("Call", 13, |line| line.call.unwrap_or_default().to_owned());
    pub(crate) const IN_FLIGHT: Self = Self::new("In flight", 11, |line| count(line.inflight));
    /// Where a call is run, or what else is done.
    pub(crate) const HOW: Self =
        Self::new("How", 15, |line| line.mode.or(line.op).unwrap_or_default().to_owned());
    pub(crate) const WAIT: Self =
        Self::new("Wait", 10, |line| line.wait.unwrap_or_default().to_owned());
    pub(crate) const MODE: Self =
        Self::new("Mode", 10, |line| line.mode.unwrap_or_default().to_owned());
    pub(crate) const ENCRYPT: Self =
        Self::new("Encrypt", 9, |line| line.encrypt.unwrap_or_default().to_owned());
    pub(crate) const WORDS: Self = Self::new("Words", 7, |line| count(line.words));
    pub(crate) const FABRIC: Self =
        Self::new("Fabric", 9, |line| line.fabric.unwrap_or_default().to_owned());
    pub(crate) const SIZE: Self = Self::new("Size", 9, |line| line.bytes.to_string());
    pub(crate) const STREAM: Self = Self::new("Stream", 9, |line| count(line.stream_bytes));
    pub(crate) const THREADS: Self = Self::new("Threads", 9, |line| count(line.threads));
    pub(crate) const PEERS: Self = Self::new("Peers", 7, |line| count(line.peers));
    pub(crate) const SEEN: Self = Self::new("seen ms", 10, |line| figure(line.seen));
    pub(crate) const MESSAGES: Self = Self::new("messages", 10, |line| figure(line.messages));
    pub(crate) const C: Self = Self::new("c", 8, |line| figure(line.c));
    pub(crate) const P50: Self = Self::new("p50 ns", 13, |line| figure(line.subject.p50_ns));
    pub(crate) const P99: Self = Self::new("p99 ns", 13, |line| figure(line.subject.p99_ns));
    pub(crate) const MB_S: Self = Self::new("MB/s", 11, |line| figure(line.subject.mb_s));
    pub(crate) const MSG_S: Self = Self::new("msg/s", 13, |line| figure(line.subject.msg_s));
    pub(crate) const LIMIT_NS: Self = Self::new("limit ns", 11, |line| figure(line.limit_ns));
    pub(crate) const LIMIT_MB_S: Self = Self::new("limit MB/s", 12, |line| figure(line.limit_mb_s));
    pub(crate) const LIMIT_MSG_S: Self =
        Self::new("limit msg/s", 13, |line| figure(line.limit_msg_s));
    pub(crate) const PAIRS: Self = Self::new("Pairs", 7, |line| count(line.pairs));
    pub(crate) const ROUNDS: Self = Self::new("Rounds", 9, |line| count(line.rounds));
    pub(crate) const CONNECTIONS: Self =
        Self::new("Connections", 13, |line| count(line.connections));
    pub(crate) const RUN_MS: Self = Self::new("run ms", 10, |line| millis(line.subject.run_ns));
    pub(crate) const LIMIT_MS: Self = Self::new("limit ms", 10, |line| millis(line.limit_ns));
    pub(crate) const KIB: Self =
        Self::new("KiB", 9, |line| figure(line.subject.memory_bytes.map(|bytes| bytes / 1024.0)));
    pub(crate) const CPU: Self = Self::new("CPU %", 9, |line| {
        line.subject.cpu.map_or_else(|| "-".to_owned(), |cpu| format!("{:.3}", cpu * 100.0))
    });
    pub(crate) const LOST: Self = Self::new("Lost %", 9, |line| {
        line.subject.lost.map_or_else(|| "-".to_owned(), |lost| format!("{:.3}", lost * 100.0))
    });
    pub(crate) const RATIO: Self = Self::new("Ratio", 8, |line| figure(line.ratio));
    pub(crate) const OF_SLOT: Self = Self::new("of slot", 9, |line| figure(line.of.slot));
    pub(crate) const OF_AM: Self = Self::new("of am", 8, |line| figure(line.of.am));
    pub(crate) const OF_LINE_RING: Self = Self::new("of ring", 9, |line| figure(line.of.line_ring));
    pub(crate) const OF_LINE_ECHO: Self = Self::new("of echo", 9, |line| figure(line.of.line_echo));
    pub(crate) const OF_ONE_PAIR: Self =
        Self::new("of 1 pair", 11, |line| figure(line.of.one_pair));
    pub(crate) const OF_ONE: Self = Self::new("of one", 8, |line| figure(line.of.one));
    pub(crate) const OF_PLAIN: Self = Self::new("of plain", 10, |line| figure(line.of.plain));
    pub(crate) const OF_AEAD: Self = Self::new("of AEAD", 9, |line| figure(line.of.aead));
    pub(crate) const OF_SLOWER: Self = Self::new("of slower", 11, |line| figure(line.of.slower));
    pub(crate) const OF_BOTH: Self = Self::new("of both", 9, |line| figure(line.of.both));
    pub(crate) const SPREAD: Self = Self::new("Spread", 8, |line| {
        let flag = if line.noisy { '!' } else { ' ' };
        format!("{}{flag}", figure(line.spread))
    });

    const fn new(title: &'static str, width: usize, text: fn(&ReportLine) -> String) -> Self {
        Self { title, width, text }
    }
}

/// The line above the columns.
pub(crate) fn titles(columns: &[ReportColumn]) -> String {
    let marked = |at| if at == 0 { "# " } else { "" };
    joined(columns, |at, column| format!("{}{}", marked(at), column.title))
}

/// `line` in columns.
pub(crate) fn row(columns: &[ReportColumn], line: &ReportLine) -> String {
    joined(columns, |_, column| (column.text)(line))
}

/// The name to the left, figures to the right of their columns.
fn joined(columns: &[ReportColumn], text: impl Fn(usize, &ReportColumn) -> String) -> String {
    let cells = columns.iter().enumerate().map(|(at, column)| match at {
        0 => format!("{:<width$}", text(at, column), width = column.width),
        _ => format!("{:>width$}", text(at, column), width = column.width),
    });
    cells.collect::<String>().trim_end().to_owned()
}

/// Two digits after the point where they are more than noise.
fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value < 100.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.0}"),
    }
}

fn millis(nanos: Option<f64>) -> String {
    figure(nanos.map(|nanos| nanos / 1e6))
}

fn count<T: ToString>(number: Option<T>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// To six digits, which is more than a machine repeats, whatever the size.
fn rounded<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    let digits = |value: f64| format!("{value:.5e}").parse().unwrap_or(value);
    value.map(digits).serialize(to)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls it with")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// A limit that moves by more than this between repetitions says that the
/// machine was busy with something else.
const SPREAD_QUIET: f64 = 0.15;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(unit: Unit, subject: f64, limit: f64, spread: f64) -> String {
        let mut line = ReportLine { bench: "b", bytes: 8, limit: "l", ..ReportLine::default() };
        line.set_subject(unit, Figure { middle: subject, ..Figure::default() });
        line.set_limit(unit, limit);
        line.set_spread(spread);
        serde_json::to_string(&line).unwrap()
    }

    #[test]
    fn a_time_is_over_its_limit_and_a_limit_over_its_rate() {
        assert_eq!(
            line(Unit::Nanos, 30.0, 20.0, 0.1),
            r#"{"bench":"b","bytes":8,"p50_ns":30.0,"limit":"l","limit_ns":20.0,"ratio":1.5,"spread":0.1}"#
        );
        assert_eq!(
            line(Unit::Megabytes, 20.0, 30.0, 0.16),
            r#"{"bench":"b","bytes":8,"mb_s":20.0,"limit":"l","limit_mb_s":30.0,"ratio":1.5,"spread":0.16,"noisy":true}"#
        );
        assert!(
            line(Unit::Messages, 20.0, 30.0, 0.0).contains(r#""limit_msg_s":30.0,"ratio":1.5"#)
        );
    }

    #[test]
    fn further_ratios_go_like_the_first_but_for_threads() {
        let mut line = ReportLine { bench: "b", limit: "l", ..ReportLine::default() };
        line.set_subject(Unit::Messages, Figure { middle: 20.0, ..Figure::default() });
        for of in [Of::Slot, Of::Am, Of::LineRing, Of::LineEcho, Of::OnePair, Of::One] {
            line.set_of(of, Unit::Messages, 40.0);
        }
        let text = serde_json::to_string(&line).unwrap();
        let of = r#""of_slot":2.0,"of_am":2.0,"of_line_ring":2.0,"of_line_echo":2.0,"of_one_pair":2.0,"of_one":0.5"#;
        assert!(text.contains(of), "{text}");
    }

    #[test]
    fn the_slower_of_two_is_nearer_and_both_take_the_sum_of_their_times() {
        for (unit, subject, plain, aead) in
            [(Unit::Nanos, 60.0, 20.0, 30.0), (Unit::Megabytes, 10.0, 30.0, 20.0)]
        {
            let mut line = ReportLine::default();
            line.set_subject(unit, Figure { middle: subject, ..Figure::default() });
            line.set_of(Of::Plain, unit, plain);
            assert_eq!((line.of.slower, line.of.both), (None, None));
            line.set_of(Of::Aead, unit, aead);
            assert_eq!([line.of.plain, line.of.aead, line.of.slower], [3.0, 2.0, 2.0].map(Some));
            assert!((line.of.both.unwrap() - 1.2).abs() < 1e-9, "{line:?}");
        }
    }

    #[test]
    fn figures_keep_six_digits_at_any_size() {
        let text = line(Unit::Nanos, 1_234_567.891, 0.000_123_456_78, 0.0);
        assert!(text.contains(r#""p50_ns":1234570.0"#), "{text}");
        assert!(text.contains(r#""limit_ns":0.000123457"#), "{text}");
    }

    #[test]
    fn titles_stand_above_their_figures() {
        let columns = [ReportColumn::LIMIT, ReportColumn::SIZE, ReportColumn::SPREAD];
        let mut line = ReportLine { bytes: 4096, limit: "shm-slot", ..ReportLine::default() };
        line.set_spread(0.2);
        assert_eq!(titles(&columns), "# Limit            Size  Spread");
        assert_eq!(row(&columns, &line), "shm-slot           4096   0.20!");
    }
}
