//! Both ends in one process, on two threads.

use std::net::UdpSocket;

use super::*;
use egret::rt;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs `rounds` rounds twice and returns what the second run measured.
fn run(limit: MachineLimit, bytes: usize, rounds: u64) -> LimitTime {
    let (mut end, fds) = limit.prepare(bytes).unwrap();
    let follower = rt::spawn("follower", move || {
        let mut end = limit.join(bytes, fds).unwrap();
        end.follow(rounds, TIMEOUT).and_then(|()| end.follow(rounds, TIMEOUT))
    });
    end.lead(rounds, TIMEOUT).unwrap();
    let measured = end.lead(rounds, TIMEOUT).unwrap();
    follower.unwrap().join().unwrap().unwrap();
    measured
}

#[test]
fn every_limit_runs_at_every_size() {
    for limit in MachineLimit::ALL {
        let sizes = [1, 4, 56, 57, 4096, 100_000];
        for bytes in sizes.map(|bytes| bytes.min(limit.bytes_max())) {
            let is_rate = matches!(
                limit,
                MachineLimit::LineRing
                    | MachineLimit::LineEcho
                    | MachineLimit::TcpWrite
                    | MachineLimit::UdpSend
            );
            let rounds = if is_rate { 3000 } else { 40 };
            match run(limit, bytes, rounds) {
                LimitTime::RoundTrips(times) => {
                    assert_eq!(times.len() as u64, rounds, "{limit}");
                    assert!(times.iter().all(|&nanos| nanos > 0.0), "{limit}");
                }
                LimitTime::OneWay(time) => assert!(time > Duration::ZERO, "{limit}"),
                LimitTime::Arrived { took, messages, bytes: each } => {
                    assert!(took > Duration::ZERO, "{limit}");
                    assert!((1..=rounds).contains(&messages), "{limit}: {messages} of {rounds}");
                    assert_eq!(each, bytes.min(65_507), "{limit}");
                }
            }
        }
    }
}

#[test]
fn a_follower_that_never_comes_is_an_error() {
    for limit in MachineLimit::ALL {
        let (mut end, _fds) = limit.prepare(64).unwrap();
        let error = end.lead(100, Duration::from_millis(30)).unwrap_err();
        assert!(matches!(error, LimitError::Stalled(_)), "{limit}: {error}");
    }
}

#[test]
fn a_closed_connection_is_noticed_at_once() {
    use MachineLimit::{TcpFrugal, TcpSpin, UdpBandwidth, UdpFrugal, UdpSend, UdpSpin};
    for limit in [TcpSpin, TcpFrugal, UdpSpin, UdpFrugal, UdpBandwidth, UdpSend] {
        let (mut end, fds) = limit.prepare(64).unwrap();
        drop(fds);
        let error = end.lead(100, TIMEOUT).unwrap_err();
        assert!(matches!(error, LimitError::Gone), "{limit}: {error}");
    }
}

#[test]
fn descriptors_of_another_limit_are_refused() {
    let (_end, fds) = MachineLimit::Eventfd.prepare(8).unwrap();
    let error = MachineLimit::ShmSlot.join(8, fds).unwrap_err();
    assert_eq!(error.to_string(), "2 descriptors for shm-slot, which has 1");
    let (_end, fds) = MachineLimit::ShmSlot.prepare(8).unwrap();
    let error = MachineLimit::ShmSlot.join(1 << 20, fds).unwrap_err();
    assert!(matches!(error, LimitError::OtherSize { .. }), "{error}");
}

#[test]
fn a_payload_that_no_datagram_carries_is_refused() {
    let error = MachineLimit::UdpSpin.prepare(65_508).unwrap_err();
    assert_eq!(error.to_string(), "a payload of 65508 bytes, and 65507 at most");
    run(MachineLimit::UdpFrugal, 65_507, 3);
}

#[test]
fn a_datagram_that_is_lost_is_sent_again_or_not_counted() {
    for limit in [
        MachineLimit::UdpSpin,
        MachineLimit::UdpFrugal,
        MachineLimit::UdpBandwidth,
        MachineLimit::UdpSend,
    ] {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let thief = sockets[1].try_clone().unwrap();
        let (mut end, fds) = limit.prepare_over(64, sockets).unwrap();
        let follower = rt::spawn("follower", move || {
            thief.recv(&mut [0; 64]).unwrap();
            limit.join(64, fds).unwrap().follow(10, TIMEOUT)
        });
        match end.lead(10, TIMEOUT).unwrap() {
            LimitTime::RoundTrips(times) => assert_eq!(times.len(), 10, "{limit}"),
            LimitTime::Arrived { messages, bytes, .. } => assert_eq!((messages, bytes), (9, 64)),
            LimitTime::OneWay(_) => panic!("{limit}"),
        }
        follower.unwrap().join().unwrap().unwrap();
    }
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let error = MachineLimit::TcpSpin.prepare_over(64, sockets).unwrap_err();
    assert!(matches!(error, LimitError::Descriptors { .. }), "{error}");
}

#[test]
fn keys_name_every_limit() {
    for limit in MachineLimit::ALL {
        assert_eq!(limit.to_string().parse::<MachineLimit>().unwrap(), limit);
    }
    assert!("shm".parse::<MachineLimit>().is_err());
}

#[test]
fn memory_takes_time_and_is_given_back() {
    let mut heap = HeapBlocks::new(4096);
    assert!(heap.malloc(100) > Duration::ZERO);
    assert!(heap.free() > Duration::ZERO);
    assert!(heap.malloc_free(100) > Duration::ZERO);
    assert!(Copying::new(1 << 16).copy(100) > Duration::ZERO);
    assert!(clone_of(&vec![0_u8; 1000], 100, 16) > Duration::ZERO);
}

#[test]
fn each_side_joins_once_and_a_broken_end_stays_broken() {
    let (mut leader, fds) = MachineLimit::ShmSlot.prepare(8).unwrap();
    let again = vec![fds[0].try_clone().unwrap()];
    let mut follower = MachineLimit::ShmSlot.join(8, fds).unwrap();
    assert!(matches!(MachineLimit::ShmSlot.join(8, again), Err(LimitError::Taken)));
    let short = Duration::from_millis(1);
    assert!(matches!(follower.lead(1, short), Err(LimitError::Taken)));
    assert!(matches!(leader.lead(1, short), Err(LimitError::Stalled(_))));
    assert!(matches!(leader.lead(1, short), Err(LimitError::Broken)));
}
