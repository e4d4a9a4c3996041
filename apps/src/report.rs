//! What an application says at its end: a small table, or one object of JSON.

use std::io::{self, Write};

use serde::Serialize;

/// The end of an application; the names are those of its JSON.
#[derive(Debug, Clone, Serialize)]
pub struct AppReport {
    /// `sor` or `pmm`.
    pub app: &'static str,
    /// How many computed.
    pub processes: u32,
    /// What was computed, in order.
    pub runs: Vec<AppRun>,
}

/// One computation.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AppRun {
    /// How it communicated.
    pub variant: &'static str,
    /// Rows, and columns.
    pub size: u32,
    /// How many iterations there were, where there are any.
    pub iterations: Option<u32>,
    /// The time of the parallel program; of several runs the median.
    pub seconds: f64,
    /// The time of the sequential program.
    pub sequential_seconds: f64,
    /// The second over the first.
    pub speed_up: f64,
    /// The part of the time that a process waited for others or sent to them, of
    /// all processes together.
    pub communication_share: f64,
    /// Messages of all processes in one run.
    pub messages: u64,
    /// Bytes of their data.
    pub bytes: u64,
    /// Whether the result is that of the sequential program. A run whose result is
    /// not ends with an error.
    pub checked: bool,
    /// How the speed-up compares to that of independent copies, if it was measured.
    pub efficiency: Option<Efficiency>,
}

/// The parallel program against as many independent copies of the sequential one,
/// turn by turn.
#[derive(Debug, Clone, Serialize)]
pub struct Efficiency {
    /// The time of one copy among the others, of each round.
    pub copies_seconds: Vec<f64>,
    /// The time of the parallel program, of each round.
    pub parallel_seconds: Vec<f64>,
    /// The median of the rounds: the speed-up over that of the copies.
    pub ratio: f64,
}

impl AppReport {
    /// Writes the object, or the table.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write(&self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        if json {
            serde_json::to_writer(&mut *out, self)?;
            return writeln!(out);
        }
        self.table(out)
    }

    fn table(&self, out: &mut dyn Write) -> io::Result<()> {
        let runs = self.runs.iter().map(AppRun::cells);
        let rows: Vec<Vec<String>> = [heads()].into_iter().chain(runs).collect();
        let used: Vec<usize> = (0..HEADS.len())
            .filter(|&at| rows[1..].iter().any(|row| !row[at].is_empty()))
            .collect();
        let wide = |at: usize| rows.iter().map(|row| row[at].len()).max().unwrap_or(0);
        let plural = if self.processes == 1 { "" } else { "es" };
        writeln!(out, "{} with {} process{plural}", self.app, self.processes)?;
        for row in &rows {
            let cells = used.iter().map(|&at| match at {
                0 => format!("{:<wide$}", row[at], wide = wide(at)),
                _ => format!("{:>wide$}", row[at], wide = wide(at)),
            });
            writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

impl AppRun {
    fn cells(&self) -> Vec<String> {
        let share = format!("{:.1} %", self.communication_share * 100.0);
        vec![
            self.variant.to_owned(),
            self.size.to_string(),
            self.iterations.map_or_else(String::new, |count| count.to_string()),
            time(self.seconds),
            time(self.sequential_seconds),
            format!("{:.2}", self.speed_up),
            share,
            self.messages.to_string(),
            bytes(self.bytes),
            if self.checked { "yes" } else { "no" }.to_owned(),
            self.efficiency.as_ref().map_or_else(String::new, |e| format!("{:.3}", e.ratio)),
        ]
    }
}

const HEADS: [&str; 11] = [
    "variant",
    "size",
    "iterations",
    "time",
    "sequential",
    "speed-up",
    "communication",
    "messages",
    "bytes",
    "checked",
    "efficiency",
];

fn heads() -> Vec<String> {
    HEADS.map(str::to_owned).to_vec()
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count}"),
        10_000..10_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// The middle of some figures, or the mean of the two in the middle.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}
