use super::*;

fn interface(index: u32, name: &str, addresses: &[&str]) -> NetworkInterface {
    NetworkInterface {
        index,
        name: name.to_owned(),
        is_up: true,
        is_loopback: false,
        addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
        default_route: [None; 2],
    }
}

fn lo() -> NetworkInterface {
    NetworkInterface { is_loopback: true, ..interface(1, "lo", &["127.0.0.1", "::1"]) }
}

fn machine() -> Vec<NetworkInterface> {
    let wired = interface(2, "eth0", &["198.51.100.7", "fe80::7", "2001:db8::7"]);
    let inner = interface(3, "ib0", &["10.0.0.7", "fd00::7"]);
    vec![lo(), wired, inner]
}

/// Where `host` listens on this machine, what peers are told, and why.
fn place(host: &str, machine: &[NetworkInterface]) -> Result<(String, String, String), OpenError> {
    let place = ListenAddress::among(host, || Ok(machine.to_vec()))?;
    Ok((place.bind.to_string(), place.told.to_string(), place.why))
}

fn binds(host: &str) -> String {
    place(host, &machine()).unwrap().0
}

#[test]
fn loopback_unless_told_otherwise() {
    for host in ["", "a", "node-7", "reachable-not", "node.cluster", "localhost"] {
        assert_eq!(binds(host), "127.0.0.1:0", "{host}");
    }
    assert_eq!(binds(":7000"), "127.0.0.1:7000");
    assert_eq!(binds("localhost:7000"), "127.0.0.1:7000");
    let unknown = || Err(Errno::PERM);
    assert_eq!(ListenAddress::among("a", unknown).unwrap().bind.to_string(), "127.0.0.1:0");
    assert_eq!(ListenAddress::among("reachable", unknown), Err(unlisted("reachable")(Errno::PERM)));
}

#[test]
fn an_address_is_taken_as_it_is() {
    for (host, expected) in [
        ("198.51.100.7", "198.51.100.7:0"),
        ("198.51.100.7:7000", "198.51.100.7:7000"),
        ("2001:db8::7", "[2001:db8::7]:0"),
        ("[2001:db8::7]", "[2001:db8::7]:0"),
        ("[2001:db8::7]:7000", "[2001:db8::7]:7000"),
        ("::1", "[::1]:0"),
        ("fe80::7%eth0", "[fe80::7%2]:0"),
        ("[fe80::7%3]:7000", "[fe80::7%3]:7000"),
    ] {
        assert_eq!(binds(host), expected, "{host}");
    }
    let place = ListenAddress::among("10.0.0.7", || Ok(machine())).unwrap();
    assert_eq!((place.interface.as_deref(), place.why.as_str()), (Some("ib0"), "asked for"));
}

#[test]
fn an_interface_is_asked_for_by_name() {
    assert_eq!(binds("eth0"), "198.51.100.7:0");
    assert_eq!(binds("ib0:7000"), "10.0.0.7:7000");
    let link = interface(4, "eth1", &["fe80::8"]);
    assert_eq!(place("eth1:70", &[link]).unwrap().0, "[fe80::8%4]:70");
    let none = place("eth1", &[interface(4, "eth1", &[])]).unwrap_err();
    assert_eq!(
        none.to_string(),
        "no nic is opened at \"eth1\": the interface eth1 has no address that can be used"
    );
}

#[test]
fn what_is_neither_is_an_error() {
    for host in ["eth9:7000", "10.0.0.300", "10.0.0", "[::1]x", "[::1", "::1::", "a:b", "a:70000"] {
        let error = place(host, &machine()).unwrap_err();
        let unknown = format!(
            "no nic is opened at {host:?}: that is no address and no interface of this machine, \
             which has: lo, eth0, ib0"
        );
        assert_eq!(error.to_string(), unknown);
    }
}

#[test]
fn the_default_route_is_followed() {
    let mut machine = machine();
    machine[1].default_route = [Some(100), None];
    let (binds, told, why) = place("reachable:7000", &machine).unwrap();
    assert_eq!((binds.as_str(), told.as_str()), ("198.51.100.7:7000", "198.51.100.7:7000"));
    assert_eq!(why, "the default route goes over it");
    machine[2].default_route = [Some(50), None];
    let (binds, _, why) = place("reachable", &machine).unwrap();
    assert_eq!(binds, "10.0.0.7:0");
    assert_eq!(why, "the default route with the lowest metric, 50, goes over it");
    machine[2].is_up = false;
    let (binds, _, why) = place("reachable", &machine).unwrap();
    assert_eq!(binds, "198.51.100.7:0");
    assert_eq!(why, "it is the only interface that others can reach");
}

#[test]
fn then_a_private_address_then_the_first() {
    let (binds, _, why) = place("reachable", &machine()).unwrap();
    assert_eq!(binds, "10.0.0.7:0");
    assert_eq!(why, "no default route, and it alone has a private address");
    let mut machine = machine();
    machine.push(interface(4, "ib1", &["192.168.0.7"]));
    let (binds, _, why) = place("reachable", &machine).unwrap();
    assert_eq!(binds, "10.0.0.7:0");
    assert_eq!(why, "no default route, and it is the first with a private address");
    let open = [interface(3, "b", &["203.0.113.7"]), interface(2, "a", &["198.51.100.7"])];
    let (binds, _, why) = place("reachable", &open).unwrap();
    assert_eq!(binds, "198.51.100.7:0");
    assert_eq!(why, "no default route and no private address, and it is the first");
}

#[test]
fn all_addresses_tell_one() {
    let (binds, told, why) = place("0.0.0.0:7000", &machine()).unwrap();
    assert_eq!((binds.as_str(), told.as_str()), ("0.0.0.0:7000", "10.0.0.7:7000"));
    assert!(why.starts_with("all addresses, and told is this one: no default route"), "{why}");
    let six = [interface(2, "eth0", &["2001:db8::7"])];
    assert!(place("0.0.0.0", &six).is_err());
    let (binds, told, _) = place("::", &six).unwrap();
    assert_eq!((binds.as_str(), told.as_str()), ("[::]:0", "[2001:db8::7]:0"));
}

#[test]
fn nowhere_is_told_with_its_reasons() {
    let down = NetworkInterface { is_up: false, ..interface(2, "eth0", &["10.0.0.7"]) };
    let bare = interface(3, "eth1", &[]);
    let link = interface(4, "eth2", &["169.254.0.7", "fe80::7"]);
    let error = place("reachable", &[lo(), down, bare, link]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no nic is opened at \"reachable\": no address that others can reach: lo is loopback, eth0 is down, eth1 has no address, \
         eth2 has addresses of its link only"
    );
}

#[test]
fn this_machine_has_loopback() {
    let interfaces = interfaces().unwrap();
    let lo = interfaces.iter().find(|interface| interface.is_loopback).expect("loopback");
    assert!(lo.index > 0 && !lo.name.is_empty(), "{lo:?}");
    assert!(!lo.is_up || lo.addresses.iter().any(IpAddr::is_loopback), "{lo:?}");
    assert!(interfaces.is_sorted_by_key(|interface| interface.index));
    assert_eq!(ListenAddress::of(&lo.name).is_ok(), !lo.addresses.is_empty());
    if let Ok(place) = ListenAddress::of("reachable") {
        std::net::TcpListener::bind(place.bind).expect("an address of this machine");
        assert!(!place.told.ip().is_loopback());
    }
}

#[test]
fn peers_are_where_they_say() {
    let read = |host: &str| PeerAddress::among(host, machine);
    let at = |text: &str| Some(PeerAddress::At(vec![text.parse().unwrap()]));
    assert_eq!(read("127.0.0.1:7000"), at("127.0.0.1:7000"));
    assert_eq!(read("[::1]:7000"), at("[::1]:7000"));
    assert_eq!(read("[fe80::7%eth0]:7000"), at("[fe80::7%2]:7000"));
    let both = ["127.0.0.1:70", "[::1]:70"].map(|text| text.parse().unwrap());
    assert_eq!(read("localhost:70"), Some(PeerAddress::At(both.to_vec())));
    let named = PeerAddress::Named { name: "node7.cluster".to_owned(), port: 70 };
    assert_eq!(read("node7.cluster:70"), Some(named));
    for host in
        ["", "a", "127.0.0.1", "127.0.0.1:0", "::1", "a b:70", "10.0.0.300:70", ":70", "a/b:7"]
    {
        assert_eq!(read(host), None, "{host}");
    }
}
