//! Which addresses are the public internet's.

use std::net::IpAddr;

use lapse::plugin::http::address::is_public;

#[test]
fn only_the_public_internet_is_public() {
    let private = [
        "0.0.0.0",
        "10.1.2.3",
        "100.100.100.200",
        "127.0.0.1",
        "127.8.8.8",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.168.1.1",
        "198.18.0.1",
        "203.0.113.7",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001::1",
        "2001:db8::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];
    for address in private {
        assert!(!is_public(address.parse::<IpAddr>().unwrap()), "{address}");
    }
    for address in ["1.1.1.1", "100.63.0.1", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"] {
        assert!(is_public(address.parse::<IpAddr>().unwrap()), "{address}");
    }
}
