//! What every benchmark can be told.

use std::fmt;
use std::sync::Arc;

use egret::fabric::Fabrics;
use egret::fabric::udp::UdpDatagrams;

/// Options of every benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Payload sizes in bytes, with K for 1024 and M for 1024 K
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_size)]
    pub(crate) sizes: Vec<usize>,
    /// Print one JSON object a line instead of columns
    #[arg(long)]
    pub(crate) json: bool,
    /// Repetitions of limit and measurement, from which medians are taken
    /// [default: 5, or 3 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) reps: Option<u32>,
    /// Finish within seconds: shows that it works, the figures mean little
    #[arg(long)]
    pub(crate) quick: bool,
}

/// Arguments that make no sense together; ends with exit code 2, like those
/// that make none alone.
#[derive(Debug)]
pub struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The fabrics that everything can be measured over, and the one that loses.
pub(crate) fn fabrics() -> Fabrics {
    let mut fabrics = Fabrics::default();
    fabrics.add(Arc::new(UdpDatagrams));
    fabrics
}

/// The fabric of this name, if there is one.
pub(crate) fn fabric(name: &str) -> Result<&'static str, Usage> {
    of(&Fabrics::default(), name)
}

/// The same; [`UDP_DATAGRAMS`] is one of them.
pub(crate) fn fabric_or_datagrams(name: &str) -> Result<&'static str, Usage> {
    of(&fabrics(), name)
}

fn of(fabrics: &Fabrics, name: &str) -> Result<&'static str, Usage> {
    fabrics.names().find(|known| *known == name).ok_or_else(|| {
        let known = fabrics.names().collect::<Vec<_>>().join(", ");
        Usage(format!("no fabric {name:?}; there are: {known}"))
    })
}

/// The same, if it connects processes.
pub(crate) fn between_processes(name: &str) -> Result<&'static str, Usage> {
    match fabric(name)? {
        SIM => Err(Usage(format!(
            "{SIM} is one process, and this needs two: --fabric shm, tcp or udp"
        ))),
        fabric => Ok(fabric),
    }
}

/// The fabric of one process.
pub(crate) const SIM: &str = "sim";
pub(crate) const UDP: &str = "udp";
/// What [`UDP`] is without its window: it loses.
pub(crate) const UDP_DATAGRAMS: &str = "udp-datagrams";

impl Common {
    /// The sizes asked for, or else `default`.
    pub(crate) fn sizes_or(&self, default: &[usize]) -> Vec<usize> {
        if self.sizes.is_empty() { default.to_vec() } else { self.sizes.clone() }
    }

    /// For a benchmark whose payload is given.
    pub(crate) fn no_sizes(&self, bench: &str) -> Result<(), Usage> {
        if self.sizes.is_empty() {
            return Ok(());
        }
        Err(Usage(format!("{bench} has no --sizes")))
    }
}

/// Reads `4`, `1K`, `64K`, `1M`.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let with_unit = |letters: [char; 2]| text.strip_suffix(letters);
    let (digits, unit) = match (with_unit(['K', 'k']), with_unit(['M', 'm'])) {
        (Some(digits), _) => (digits, 1 << 10),
        (_, Some(digits)) => (digits, 1 << 20),
        (None, None) => (text, 1),
    };
    let count: usize = digits.parse().map_err(|_| "a size is a number, or one with K or M")?;
    match count.checked_mul(unit) {
        Some(0) => Err("a payload has at least one byte".to_owned()),
        Some(bytes) if bytes <= BYTES_MAX => Ok(bytes),
        _ => Err(format!("a payload has at most {} MiB here", BYTES_MAX >> 20)),
    }
}

/// Sixteen of them still fit into the memory of an ordinary machine.
const BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        let read = |text| parse_size(text).ok();
        assert_eq!(read("4"), Some(4));
        assert_eq!(read("1K"), Some(1024));
        assert_eq!(read("64k"), Some(65536));
        assert_eq!(read("1M"), Some(1 << 20));
    }

    #[test]
    fn invalid_sizes_are_refused() {
        for text in ["", "K", "0", "-1", "1.5K", "1KB", "1KK", "1G", "99999999999999999999"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
