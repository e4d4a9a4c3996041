//! Nics of networks at the places their hosts name, found by address and by name.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::time::Duration;

use egret_net::fabric::place::ListenAddress;
use egret_net::fabric::sim::Sim;
use egret_net::fabric::{Fabrics, OpenError};
use egret_net::rt::Deadline;
use egret_net::vi::{
    Address, ConnectError, Descriptor, Encrypt, Identity, Listener, Nic, NicOptions, Reliability,
    Secret, ViOptions,
};

const LONG: Deadline = Deadline::In(Duration::from_secs(20));

fn open(fabric: &str, host: &str) -> Result<Nic, OpenError> {
    Fabrics::default().open(fabric, NicOptions::new(host).secret(SECRET.into()))
}

/// Has the form of one that nobody can guess, so that addresses alone will do.
const SECRET: &str = "egret1.00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn options(nic: &Nic) -> ViOptions {
    let is_reliable = nic.limits().offers(Reliability::Reception);
    ViOptions::of(if is_reliable { Reliability::Reception } else { Reliability::Unreliable })
}

/// A message from another nic, which finds this one at `to`.
fn assert_reached(fabric: &str, nic: &Nic, from: &str, to: &str) {
    let other = open(fabric, from).unwrap();
    let options = options(nic);
    let listener = nic.listen("place", 7, &options).unwrap();
    let connecting = other.connect(&Address::new(to, "place", 7), &options, LONG);
    let connected = egret_net::rt::spawn("other", move || other.block_on(connecting)).unwrap();
    let here = listener.wait_accept(LONG).unwrap();
    let there = connected.join().unwrap().unwrap();
    here.post_recv(Descriptor::new(vec![0_u8; 4])).unwrap();
    nic.poll();
    // Only who drives its nic learns of the receive.
    there.nic().wait(there.nic().poll(), Some(there.nic().now() + Duration::from_millis(20)));
    there.post_send(Descriptor::new(b"here".to_vec())).unwrap();
    let driven = egret_net::rt::spawn("other", move || there.send_queue().wait(LONG)).unwrap();
    let got = here.recv_queue().wait(LONG).unwrap().ok().unwrap().into_vec::<u8>();
    assert_eq!(got, b"here");
    nic.wait(nic.poll(), Some(nic.now() + Duration::from_millis(20)));
    driven.join().unwrap().unwrap().done().unwrap();
}

#[test]
fn a_nic_is_where_its_host_says() {
    for fabric in ["tcp", "udp"] {
        for host in ["", "a", "127.0.0.1", "localhost", "lo", "::1", "reachable", "0.0.0.0"] {
            // Not every machine has IPv6, or a network.
            let Ok(place) = ListenAddress::of(host) else { continue };
            if std::net::UdpSocket::bind(place.bind).is_err() {
                continue;
            }
            let nic = open(fabric, host).unwrap();
            let at: SocketAddr = nic.host().parse().unwrap();
            assert_eq!(at.ip(), place.told.ip(), "{fabric} at {host:?}");
            assert_ne!(at.port(), 0);
            let from =
                if at.ip().is_loopback() { place.told.ip().to_string() } else { host.into() };
            assert_reached(fabric, &nic, &from, nic.host());
        }
    }
}

#[test]
fn unclear_hosts_listen_on_loopback_only() {
    for fabric in ["tcp", "udp"] {
        for host in ["", "a", "node7", "0", "all"] {
            let Ok(nic) = open(fabric, host) else { continue };
            let at: SocketAddr = nic.host().parse().unwrap();
            assert!(at.ip().is_loopback(), "{fabric} at {host:?} listens at {at}");
        }
        let error = open(fabric, "203.0.113.300:7").unwrap_err().to_string();
        assert!(error.contains("no address and no interface"), "{error}");
    }
}

/// A name that the system has to be asked for, and where it leads.
fn own_name() -> Option<(String, IpAddr)> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?.trim().to_owned();
    let mut all = (name.as_str(), 7).to_socket_addrs().ok()?.map(|at| at.ip());
    let ip = all.find(|ip| ip.is_loopback())?;
    Some((name, ip))
}

#[test]
fn a_name_is_looked_up() {
    for fabric in ["tcp", "udp"] {
        let nic = open(fabric, "").unwrap();
        let at: SocketAddr = nic.host().parse().unwrap();
        assert_reached(fabric, &nic, "", &format!("localhost:{}", at.port()));
        match own_name() {
            None => println!("skipped: this machine has no name that leads to itself"),
            Some((name, ip)) => {
                let nic = open(fabric, &ip.to_string()).unwrap();
                let at: SocketAddr = nic.host().parse().unwrap();
                assert_reached(fabric, &nic, "", &format!("{name}:{}", at.port()));
            }
        }
        let port = |nobody| (nobody, "an address has a port, as in 10.0.0.1:7400");
        let name = ("no_such-host:7", "the system knows no host of this name: ");
        for (nobody, said) in [port("nobody"), name, port("127.0.0.1")] {
            let to = Address::new(nobody, "place", 7);
            // It may come yet, so all of this passes.
            let soon = Deadline::In(Duration::from_millis(500));
            let error = nic.wait_connect(&to, &options(&nic), soon).unwrap_err();
            assert_unknown(&error, nobody, said);
        }
    }
}

#[test]
fn secrets_are_compared_before_anything() {
    for fabric in ["tcp", "udp"] {
        let fabrics = Fabrics::default();
        let here = fabrics.open(fabric, NicOptions::new("").secret("one".into())).unwrap();
        let options = options(&here);
        let listener = here.listen("place", 7, &options).unwrap();
        for secret in [Some("two"), None] {
            let there = NicOptions::new("");
            let there = match secret {
                Some(secret) => there.secret(secret.into()),
                None => there,
            };
            let there = fabrics.open(fabric, there).unwrap();
            let to = Address::new(here.host(), "place", 7).key(here.key().unwrap());
            let error = try_connect(&listener, &here, there, &to).unwrap_err();
            assert!(error.is_secret_refused(), "{fabric}, {secret:?}: {error}");
        }
    }
}

/// What comes of connecting another nic to this one, which accepts.
fn try_connect(
    listener: &Listener,
    here: &Nic,
    there: Nic,
    to: &Address,
) -> Result<(), ConnectError> {
    let connecting = there.connect(to, &options(here), LONG);
    let made = egret_net::rt::spawn("there", move || there.block_on(connecting).map(drop)).unwrap();
    let mut accepted = Vec::new();
    while !made.is_finished() {
        let seen = here.poll();
        accepted.extend(listener.poll_accept().unwrap());
        here.wait(seen, Some(here.now() + Duration::from_millis(5)));
    }
    made.join().unwrap()
}

/// On a network a secret that somebody chose is proven to nobody but the one who was meant.
#[test]
fn a_chosen_secret_needs_the_key_of_the_other_end() {
    for fabric in ["shm", "tcp", "udp"] {
        let name = |what| format!("{what}-chosen-{}-{fabric}", std::process::id());
        let host = |what| if fabric == "shm" { name(what) } else { String::new() };
        let open = |what| {
            let options = NicOptions::new(&host(what)).secret("correct horse".into());
            Fabrics::default().open(fabric, options).unwrap()
        };
        let here = open("here");
        let listener = here.listen("place", 7, &options(&here)).unwrap();
        let to = Address::new(here.host(), "place", 7);
        let unknown = Err(ConnectError::UnknownKey);
        let made = try_connect(&listener, &here, open("there"), &to);
        assert_eq!(made, if fabric == "shm" { Ok(()) } else { unknown }, "{fabric}");
        let known = to.clone().key(here.key().unwrap());
        assert_eq!(try_connect(&listener, &here, open("known"), &known), Ok(()), "{fabric}");
        // Whoever else is called is not there.
        let wrong = to.key(Identity::random().key());
        let error = try_connect(&listener, &here, open("wrong"), &wrong).unwrap_err();
        let is_told = matches!(error, ConnectError::OtherSecretOrKey);
        let is_seen = matches!(error, ConnectError::OtherKey);
        assert!(is_told || is_seen, "{fabric}: {error}");
    }
}

/// One end that would have it encrypted is enough, and both are told the same.
#[test]
fn a_connection_is_encrypted_if_one_of_both_nics_would_have_it_so() {
    let (on, off, default) = (Encrypt::Always, Encrypt::Never, Encrypt::BetweenMachines);
    for (one, two, is_encrypted) in [
        (on, on, true),
        (on, off, true),
        (off, on, true),
        (default, on, true),
        (off, off, false),
        // This machine is not between two.
        (default, default, false),
    ] {
        for fabric in ["tcp", "udp"] {
            let open = |encrypt| {
                let options = NicOptions::new("").secret(SECRET.into()).encrypt(encrypt);
                Fabrics::default().open(fabric, options).unwrap()
            };
            let (nic, other) = (open(one), open(two));
            let options = options(&nic);
            let listener = nic.listen("place", 7, &options).unwrap();
            let connecting = other.connect(&Address::new(nic.host(), "place", 7), &options, LONG);
            let made = egret_net::rt::spawn("other", move || other.block_on(connecting)).unwrap();
            let here = listener.wait_accept(LONG).unwrap();
            let there = made.join().unwrap().unwrap();
            let told = [here.is_encrypted(), there.is_encrypted()];
            assert_eq!(told, [is_encrypted; 2], "{fabric}: {one:?} and {two:?}");
        }
    }
}

/// Whoever hears a group has what its members sign.
#[test]
fn a_chosen_secret_signs_nothing_for_a_group() {
    let group = Address::new("239.255.77.9:40123", "weather", 0);
    let join = |secret: Secret| {
        let nic = NicOptions::new("").secret(secret);
        let nic = Fabrics::default().open("udp", nic).unwrap();
        let options = ViOptions::of(Reliability::Unreliable);
        nic.wait_connect(&group, &options, Duration::from_secs(5)).map(drop)
    };
    assert_eq!(join("correct horse".into()), Err(ConnectError::GuessableGroupSecret));
    // Where there is no way to a group it fails otherwise.
    let random = join(Secret::random());
    assert!(!matches!(&random, Err(why) if why.is_key_refused()), "{random:?}");
}

/// Whether the error names the host, and begins so to say why it was not reached.
#[track_caller]
fn assert_unknown(error: &ConnectError, host: &str, said: &str) {
    let ConnectError::UnknownHost { host: named, why, .. } = error else { panic!("{error}") };
    assert!(named == host && why.starts_with(said), "{error}");
}

/// Who does not wait for a host is told that it is missing, where that can be known: the
/// deadline is an hour, which no test lasts.
#[test]
fn a_missing_host_is_told_at_once() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let hosts = [
        ("shm", "nobody-has-this-name", "no process of this machine has a nic of this name"),
        ("tcp", gone.as_str(), "Connection refused"),
        ("sim", "nobody", "no host answers there"),
    ];
    for (fabric, host, said) in hosts {
        let nic = match fabric {
            "sim" => Sim::new(1).nic("a"),
            _ => open(fabric, &format!("at-once-{}", std::process::id())).unwrap(),
        };
        let hour = Deadline::In(Duration::from_secs(3600));
        let to = Address::new(host, "place", 7);
        let error = nic.wait_connect(&to, &options(&nic).at_once(), hour).unwrap_err();
        assert_unknown(&error, host, said);
        let waited = nic.wait_connect(&to, &options(&nic), Deadline::In(Duration::from_millis(50)));
        assert!(waited.is_err(), "{fabric}: and one that waits for it, later");
    }
}

/// Places of this machine that others reach, as far as it has any.
fn beyond_loopback() -> Vec<(String, IpAddr)> {
    let hosts = ["reachable", "0.0.0.0", "::", "[::]:0", "0.0.0.0:0"].map(str::to_owned);
    let places = hosts.into_iter().filter_map(|host| {
        let at = ListenAddress::of(&host).ok()?.bind;
        std::net::UdpSocket::bind(at).ok().map(|_| (host, at.ip()))
    });
    places.collect()
}

#[test]
fn a_nic_without_a_secret_opens_on_loopback_only() {
    let beyond = beyond_loopback();
    if beyond.is_empty() {
        println!("skipped: this machine has no network");
    }
    let fabrics = Fabrics::default();
    for fabric in ["tcp", "udp"] {
        for (host, ip) in &beyond {
            let why = fabrics.open(fabric, host.as_str()).unwrap_err();
            let shown = why.to_string();
            assert!(
                matches!(why, OpenError::MissingSecret { at, .. } if at == *ip),
                "{fabric} at {host}: {shown}"
            );
            assert!(shown.contains("insecure_without_secret()"), "{shown}");
            open(fabric, host).unwrap();
            let said = NicOptions::new(host).insecure_without_secret();
            fabrics.open(fabric, said).unwrap();
        }
        for host in ["", "a", "localhost", "127.0.0.1", "127.0.0.2"] {
            fabrics.open(fabric, host).unwrap();
        }
    }
}

#[test]
fn an_empty_secret_opens_no_nic() {
    let fabrics = Fabrics::default();
    for fabric in ["sim", "shm", "tcp", "udp"] {
        for host in ["nobody-comes", "reachable"] {
            let options = NicOptions::new(host).secret("".into());
            for options in [options.clone(), options.insecure_without_secret()] {
                if ListenAddress::of(host).is_err() {
                    continue;
                }
                let why = fabrics.open(fabric, options).unwrap_err();
                let is_empty = matches!(why, OpenError::EmptySecret { .. });
                assert!(is_empty, "{fabric}: {why}");
            }
        }
    }
}
