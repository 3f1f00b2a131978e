//! Which addresses a plugin may reach by name: public ones only. What a name resolves to is checked where the
//! connection is made, so that a name that changes its mind in between (DNS rebinding) gains nothing.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Addresses of one name that are tried.
const ADDRESSES: usize = 16;

/// Whether an address is one of the public internet: not this machine's, this network's, a cloud's metadata service or
/// reserved (IANA special-purpose address registries), nor an IPv6 form of such an IPv4 address.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    let special = v4.is_private()
        || v4.is_loopback()
        || v4.is_link_local()
        || v4.is_broadcast()
        || v4.is_documentation()
        || v4.is_multicast()
        || a == 0
        || a >= 240
        // Carrier-grade NAT, where some clouds keep their metadata.
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a, b, c) == (192, 88, 99)
        || (a == 198 && (18..20).contains(&b))
        // Azure's host agent, a public address that is not.
        || v4 == Ipv4Addr::new(168, 63, 129, 16);
    !special
}

fn is_public_v6(v6: Ipv6Addr) -> bool {
    match v6.segments() {
        // IPv4-mapped, IPv4-compatible (with :: and ::1), NAT64, and 6to4, which has the IPv4 address in front.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            is_public_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        // Teredo and ORCHID, benchmarking, documentation: 2001::/23 and 2001:db8::/32, 3fff::/20.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // Only 2000::/3 is global unicast: this leaves out ULA, link-local, site-local and multicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// What a name resolves to may not be reached.
#[derive(Debug)]
pub struct Forbidden {
    name: String,
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        write!(f, "{name} has no public address; a private one is reached only if the grant names it as an address")
    }
}

impl std::error::Error for Forbidden {}

/// Resolves names as the system does, and leaves out what may not be reached.
#[derive(Debug)]
pub struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let host = name.as_str();
            // `localhost` comes here only where a grant names it, and then means this machine whatever DNS says.
            let is_local = host == "localhost";
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await?.take(ADDRESSES).collect();
            let allowed: Vec<SocketAddr> =
                found.into_iter().filter(|a| if is_local { a.ip().is_loopback() } else { is_public(a.ip()) }).collect();
            if allowed.is_empty() {
                return Err(Forbidden { name: host.to_owned() }.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}
