//! Measuring the link with another node on request.

use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_net::sync::Mutex;

use super::NodeHandle;
use super::handle::NodePart;
use crate::Links;
use crate::am::{Endpoint, EndpointName, Message, MessageError, RemoteEndpoint};
use crate::pool::{NodeError, NodeId};

/// What a link can do, as [`NodeHandle::probe`] has measured.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkProbe {
    /// The fabric.
    pub fabric: String,
    /// The time from an empty request to its answer, half of those measured being shorter.
    pub round_trip: Duration,
    /// Bytes in a second, of messages of 256 KiB one after the other.
    pub bandwidth: u64,
}

impl NodeHandle {
    /// Measures the link with another node, over the fabric of the [route](Self::route) to it: sends 32 empty requests
    /// and then eight with 256 KiB each, and waits for the answer of each. What else the link carries meanwhile counts.
    ///
    /// ```
    /// let pool = egret_node::local::pool(2)?;
    /// let probe = pool[0].probe(pool[1].id(), pool[0].deadline())?;
    /// println!("{}: {:?}, {} MB/s", probe.fabric, probe.round_trip, probe.bandwidth / 1_000_000);
    /// assert!(probe.bandwidth > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`route`](Self::route), and [`NodeError::NotProbed`] if the other node does not answer within the deadline, has
    /// no room for another mapping, or in a handler, which may not wait.
    #[track_caller]
    pub fn probe(
        &self,
        node: NodeId,
        deadline: impl Into<Deadline>,
    ) -> Result<LinkProbe, NodeError> {
        let _waits = self.waits("probe", Some(node));
        let route = self.route(node)?;
        let measured = || {
            let until = deadline.into().until();
            let endpoint = route.links.bundle().endpoint(0);
            let to = EndpointName::new(&route.host, ENDPOINT, 0);
            let remote = endpoint.wait_map(&to, Deadline::left(until))?;
            let round_trip = median(EMPTY_COUNT, || timed(&remote, Vec::new(), until))?;
            let large = median(LARGE_COUNT, || timed(&remote, vec![0; LARGE], until))?;
            Ok::<_, MessageError>((round_trip, bandwidth(large, round_trip)))
        };
        let (round_trip, bandwidth) =
            measured().map_err(|why| NodeError::NotProbed { node, why })?;
        Ok(LinkProbe { fabric: route.fabric, round_trip, bandwidth })
    }
}

/// How long a request with these bytes takes until its answer comes.
fn timed(
    remote: &RemoteEndpoint,
    bytes: Vec<u8>,
    until: Option<Instant>,
) -> Result<Duration, MessageError> {
    let message = Message::to(PROBE);
    let message = if bytes.is_empty() { message } else { message.data(bytes) };
    let started = rt::now();
    remote.wait_call(message, Deadline::left(until))?;
    Ok(rt::now() - started)
}

fn median(
    count: usize,
    mut measure: impl FnMut() -> Result<Duration, MessageError>,
) -> Result<Duration, MessageError> {
    let mut all = (0..count).map(|_| measure()).collect::<Result<Vec<_>, _>>()?;
    all.sort_unstable();
    Ok(all[count / 2])
}

/// Bytes in a second, if a large message takes so long and an empty one the round trip. The difference of two times that
/// vary is no shorter than a part of the longer one.
fn bandwidth(large: Duration, round_trip: Duration) -> u64 {
    let taken = large.saturating_sub(round_trip).max(large / 8).as_nanos().max(1);
    u64::try_from(LARGE as u128 * 1_000_000_000 / taken).unwrap_or(u64::MAX)
}

/// Answers the probes of other nodes, on the links of each fabric, until it is closed.
pub(super) struct ProbeServer {
    endpoints: Mutex<Vec<Endpoint>>,
}

impl ProbeServer {
    /// Serves probes from now on: the other nodes may send them as soon as they know the node.
    pub(super) fn open(fabrics: &[(String, Links)]) -> Self {
        let serve = |(_, links): &(String, Links)| {
            let endpoint = links.bundle().register(ENDPOINT, 0)?;
            endpoint.on(PROBE, |request| request.reply(&[]));
            Ok::<_, MessageError>(endpoint)
        };
        // Links over which that cannot be registered have no probes.
        let endpoints = fabrics.iter().filter_map(|fabric| serve(fabric).ok()).collect();
        Self { endpoints: Mutex::new(endpoints) }
    }
}

impl NodePart for ProbeServer {
    fn close(&self, _: Instant) {
        self.endpoints.lock().clear();
    }
}

/// The endpoint that answers probes.
const ENDPOINT: &str = "egret.probe";
/// Its handler.
const PROBE: u8 = 0;
/// Empty requests of a probe.
const EMPTY_COUNT: usize = 32;
/// Large requests of a probe.
const LARGE_COUNT: usize = 8;
/// Bytes of a large request.
const LARGE: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bandwidth_is_that_of_the_time_beyond_a_round_trip() {
        let micros = Duration::from_micros;
        assert_eq!(bandwidth(micros(300), micros(50)), LARGE as u64 * 4000);
        assert_eq!(bandwidth(micros(80), micros(90)), LARGE as u64 * 100_000, "not without an end");
        assert!(bandwidth(Duration::ZERO, Duration::ZERO) > 0);
    }

    #[test]
    fn the_median_is_not_moved_by_one_that_is_late() {
        let mut times = [9, 1, 500, 2, 3].into_iter().map(Duration::from_micros);
        assert_eq!(median(5, || Ok(times.next().unwrap())), Ok(Duration::from_micros(3)));
    }
}
