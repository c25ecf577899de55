use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn opening(ranges: &[&str], ports: &[u16]) -> Policy {
    let ranges = ranges.iter().map(|range| range.parse().expect("a range")).collect();
    Policy::new(ranges, ports.to_vec())
}

fn host(authority: &str) -> Result<Host, Denied> {
    Policy::default().destination("http", authority).map(|destination| destination.host)
}

#[test]
fn addresses_that_are_not_public_are_refused() {
    let refused = [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "100::1",
        "64:ff9b:1::808:808",
        "::8.8.8.8",
        "::ffff:0:8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.169.254",
        "2001::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:2::1",
        "2001:10::1",
        "2001:20::1",
        "2001:30::1",
        "2001:1ff::1",
        "2001:db8::1",
        "2002:808:808::1",
        "2002:7f00:1::1",
        "3fff::1",
        "3fff:fff::1",
        "4000::1",
        "5f00::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "ffff::1",
    ];
    for address in refused {
        assert!(!Policy::default().allows(ip(address)), "{address}");
    }
}

#[test]
fn public_addresses_are_allowed() {
    let allowed = [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.88.98.255",
        "192.167.255.255",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2000::1",
        "2001:200::1",
        "2001:4860:4860::8888",
        "2a00::1",
        "3ffe::1",
        "3fff:1000::1",
    ];
    for address in allowed {
        assert!(Policy::default().allows(ip(address)), "{address}");
    }
}

#[test]
fn an_operator_opens_ranges_and_nothing_beside_them() {
    let table: [(&[&str], &str, bool); 18] = [
        (&["10.1.0.0/16"], "10.1.2.3", true),
        (&["10.1.0.0/16"], "10.2.0.1", false),
        (&["10.1.0.0/16"], "::ffff:10.1.2.3", true),
        (&["10.1.0.0/16"], "64:ff9b::10.1.2.3", true),
        (&["10.1.0.0/16"], "64:ff9b:1::10.1.2.3", false),
        (&["10.1.0.0/16"], "2002:a01:203::1", false),
        (&["10.1.0.0/16"], "::10.1.2.3", false),
        (&["10.1.0.0/16", "2002::/16"], "2002:a01:203::1", true),
        (&["2002::/16"], "2002:a01:203::1", false),
        (&["2002::/16"], "2002:808:808::1", true),
        (&["64:ff9b:1::/48"], "64:ff9b:1::8.8.8.8", true),
        (&["64:ff9b:1::/48"], "64:ff9b:1::10.1.2.3", false),
        (&["::/0"], "::1", true),
        (&["::/0"], "::ffff:127.0.0.1", false),
        (&["::/0"], "::127.0.0.1", false),
        (&["::/0"], "127.0.0.1", false),
        (&["::1"], "::1", true),
        (&["0.0.0.0/0"], "::1", false),
    ];
    for (ranges, address, allowed) in table {
        assert_eq!(opening(ranges, &[]).allows(ip(address)), allowed, "{ranges:?} {address}");
    }
}

#[test]
fn every_spelling_of_an_address_is_that_address() {
    let loopback = [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "0x7f000001",
        "0X7F000001",
        "0x7f.1",
        "2130706433",
        "017700000001",
        "0177.0.0.01",
        "0x7f.0x0.0x0.0x1",
        "127.0.0.0x1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::FFFF:7f00:1]",
        "[0:0:0:0:0:0:0:1]",
        "0",
        "0x0",
    ];
    for text in loopback {
        for authority in [text.to_owned(), format!("{text}:8080")] {
            assert_eq!(host(&authority), Err(Denied::Address), "{authority}");
        }
    }
    let metadata = ["169.254.169.254", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376"];
    for text in metadata {
        assert_eq!(host(text), Err(Denied::Address), "{text}");
    }
    for text in ["8.8.8.8", "8.8.2056", "0x8080808", "010.8.8.8", "134744072", "8.8.8.8."] {
        assert_eq!(host(text), Ok(Host::Literal(ip("8.8.8.8"))), "{text}");
    }
}

#[test]
fn what_is_neither_a_name_nor_an_address_is_no_url() {
    let refused = [
        "",
        ".",
        "..",
        "a..example",
        ".example",
        "127.0.0.1..",
        "256.1.1.1",
        "1.2.3.4.5",
        "1.256.1",
        "4294967296",
        "0x100000000",
        "040000000000",
        "08",
        "09.1.1.1",
        "0x",
        "1.2.3.0x",
        "example.1",
        "::1",
        "[::1",
        "::1]",
        "[::1]x",
        "[::1%eth0]",
        "[fe80::1%25eth0]",
        "[127.0.0.1]",
        "[v1.x]",
        "%31%32%37.0.0.1",
        "127%2e0.0.1",
        "ex%61mple",
        "１２７.0.0.1",
        "bücher.example",
        "a b",
        "a/b",
        "a\\b",
        "a#b",
        "user@example.com",
        "user:password@example.com",
        "@example.com",
        "example.com:80:90",
        "example.com:http",
        "example.com:+80",
        "example.com:65536",
        "example.com:99999999999",
    ];
    for authority in refused {
        assert_eq!(host(authority), Err(Denied::Url), "{authority}");
    }
    assert_eq!(host(&format!("{}.example", "a".repeat(64))), Err(Denied::Url));
    let longest = "a.".repeat(126) + "a";
    assert_eq!(host(&longest), Ok(Host::Name(longest.clone())));
    assert_eq!(host(&(longest + "a")), Err(Denied::Url));
    for scheme in ["ftp", "file", "HTTP", ""] {
        let denied = Policy::default().destination(scheme, "example.com");
        assert_eq!(denied, Err(Denied::Url), "{scheme}");
    }
}

#[test]
fn names_are_names_localhost_among_them() {
    let names = [
        "example.com",
        "localhost",
        "a.localhost",
        "0x7f.example",
        "1.2.3.4.example",
        "0xg",
        "_x-1",
    ];
    for name in names {
        assert_eq!(host(name), Ok(Host::Name(name.to_owned())), "{name}");
    }
    assert_eq!(host("LocalHost."), Ok(Host::Name("localhost.".to_owned())));
}

#[test]
fn the_port_is_the_schemes_unless_the_url_says_another() {
    let to = |scheme, authority| {
        let destination = Policy::default().destination(scheme, authority).expect("allowed");
        (destination.port, destination.tls)
    };
    assert_eq!(to("http", "a.example"), (80, false));
    assert_eq!(to("https", "a.example"), (443, true));
    assert_eq!(to("https", "a.example:"), (443, true));
    assert_eq!(to("http", "[2a00::1]:08080"), (8080, false));
}

#[test]
fn ports_of_other_protocols_are_refused_whatever_the_address() {
    let policy = opening(&["10.0.0.0/8"], &[587]);
    for port in ports::BAD.into_iter().filter(|port| *port != 587) {
        for host in ["a.example", "8.8.8.8", "10.0.0.1", "127.0.0.1", "[::1]"] {
            let denied = policy.destination("http", &format!("{host}:{port}"));
            assert_eq!(denied, Err(Denied::Port), "{host}:{port}");
        }
    }
    assert!(policy.destination("http", "10.0.0.1:587").is_ok());
    assert_eq!(policy.destination("http", "127.0.0.1:587"), Err(Denied::Address));
    for port in [80, 443, 2, 24, 586, 3000, 8080, 10079, 65535] {
        assert!(policy.destination("https", &format!("a.example:{port}")).is_ok(), "{port}");
    }
    assert!(ports::BAD.is_sorted());
}

/// An IPv4 address in each form of IPv6 that carries one.
fn forms(address: Ipv4Addr, filler: [u16; 4]) -> [Ipv6Addr; 7] {
    let [a, b, c, d] = address.octets();
    let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let [w, x, y, z] = filler;
    [
        Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
        Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
        Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
        Ipv6Addr::new(0x64, 0xff9b, 1, w, x, y, high, low),
        Ipv6Addr::new(0x2002, high, low, w, x, y, z, w),
        Ipv6Addr::new(0x2001, 0, high, low, w, x, y, z),
        Ipv6Addr::new(0x2001, 0, 0x808, 0x808, w, x, !high, !low),
    ]
}

fn a_range() -> impl Strategy<Value = AddressRange> {
    let v6 = prop_oneof![
        any::<u128>(),
        prop::sample::select(vec![
            0,
            0x2002 << 112,
            0x2001 << 112,
            0x0064_ff9b_0001 << 80,
            0xffff_0000_0000,
            0xffff_0000_0000_0000,
        ]),
    ];
    let cut = |text: String| match text.parse::<AddressRange>() {
        Err(RangeError::BitsBelowPrefix { meant, .. }) => meant.parse().ok(),
        parsed => parsed.ok(),
    };
    prop_oneof![
        (any::<u32>(), 0..=32u8).prop_filter_map("a range", move |(base, bits)| {
            cut(format!("{}/{bits}", Ipv4Addr::from_bits(base)))
        }),
        (v6, 0..=128u8).prop_filter_map("a range", move |(base, bits)| {
            cut(format!("{}/{bits}", Ipv6Addr::from_bits(base)))
        }),
    ]
}

proptest! {
    #[test]
    fn no_form_reaches_what_its_ipv4_address_would_not(
        bits in any::<u32>(),
        filler in any::<[u16; 4]>(),
        ranges in prop::collection::vec(a_range(), 0..4),
    ) {
        let carried = Ipv4Addr::from_bits(bits);
        let policy = Policy::new(ranges, Vec::new());
        if !policy.allows(carried.into()) {
            for form in forms(carried, filler) {
                prop_assert!(!policy.allows(form.into()), "{carried} as {form}");
            }
        }
    }

    #[test]
    fn a_refused_address_stays_refused_in_every_form(
        (base, prefix) in prop::sample::select(REFUSED_V4.to_vec()),
        bits in any::<u32>(),
        filler in any::<[u16; 4]>(),
    ) {
        let below = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
        let address = Ipv4Addr::from_bits(base.to_bits() | bits & below);
        let policy = Policy::default();
        prop_assert!(!policy.allows(address.into()));
        for form in forms(address, filler) {
            prop_assert!(!policy.allows(form.into()), "{address} as {form}");
        }
    }

    #[test]
    fn opening_ranges_closes_nothing(
        bits in any::<u32>(),
        ranges in prop::collection::vec(a_range(), 0..4),
    ) {
        let address = IpAddr::from(Ipv4Addr::from_bits(bits));
        let opened = Policy::new(ranges, Vec::new());
        prop_assert!(!Policy::default().allows(address) || opened.allows(address));
    }

    #[test]
    fn outside_global_unicast_nothing_is_public(bits in any::<u128>()) {
        let address = Ipv6Addr::from_bits(bits);
        let form = address.to_ipv4_mapped().is_some() || nat64(address).is_some();
        prop_assume!(!form && address.segments()[0] >> 13 != 1);
        prop_assert!(!Policy::default().allows(address.into()));
    }

    #[test]
    fn a_spelling_means_what_the_system_takes_it_for(
        parts in prop::collection::vec((0..=255u32, 0..3u8), 0..4),
        last in any::<u32>(),
        radix in 0..3u8,
    ) {
        let spelled = |number: u32, radix| match radix {
            0 => number.to_string(),
            1 => format!("0{number:o}"),
            _ => format!("0x{number:x}"),
        };
        let room = 32 - 8 * parts.len() as u32;
        let last = last & u32::MAX.checked_shr(32 - room).unwrap_or(u32::MAX);
        let mut texts: Vec<_> = parts.iter().map(|(n, radix)| spelled(*n, *radix)).collect();
        texts.push(spelled(last, radix));
        let text = texts.join(".");
        let mut system = libc::in_addr { s_addr: 0 };
        let name = std::ffi::CString::new(text.clone()).expect("no zero");
        // SAFETY: a string that ends with zero, and a place for the address.
        let taken = unsafe { inet_aton(name.as_ptr(), &raw mut system) };
        prop_assert_eq!(taken, 1);
        let address = Ipv4Addr::from_bits(u32::from_be(system.s_addr));
        prop_assert_eq!(Host::parse(&text), Some(Host::Literal(address.into())), "{}", text);
    }

    #[test]
    fn no_text_is_a_name_that_the_system_takes_for_an_address(text in "[0-9a-fxX.]{1,12}") {
        if let Some(Host::Name(name)) = Host::parse(&text) {
            let name = std::ffi::CString::new(name).expect("no zero");
            let mut system = libc::in_addr { s_addr: 0 };
            // SAFETY: a string that ends with zero, and a place for the address.
            let taken = unsafe { inet_aton(name.as_ptr(), &raw mut system) };
            prop_assert_eq!(taken, 0, "{}", text);
        }
    }
}

unsafe extern "C" {
    fn inet_aton(text: *const libc::c_char, address: *mut libc::in_addr) -> libc::c_int;
}
