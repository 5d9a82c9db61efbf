//! The addresses that mean this relay in AUTH events (NIP-42) and requests to vanish (NIP-62).

use std::net::{Ipv6Addr, SocketAddr};

/// A text that is not a `ws://` or `wss://` URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a ws:// or wss:// address")]
pub struct UrlError(pub String);

/// The addresses by which clients may mean this relay. Never taken from a Host header: another
/// relay could pass on an AUTH that was signed for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayUrls {
    /// Normalised; the first is the one to tell clients.
    ours: Vec<String>,
}

impl RelayUrls {
    /// The one address that the operator has configured.
    pub fn public(url: &str) -> Result<Self, UrlError> {
        let ours = normalize(url).ok_or_else(|| UrlError(url.to_owned()))?;
        Ok(Self { ours: vec![ours] })
    }

    /// The listen address and localhost, while no address is configured.
    pub fn listening(address: SocketAddr) -> Self {
        Self::listening_as("ws", address)
    }

    /// The same of an address that speaks TLS.
    pub fn listening_with_tls(address: SocketAddr) -> Self {
        Self::listening_as("wss", address)
    }

    fn listening_as(scheme: &str, address: SocketAddr) -> Self {
        let port = address.port();
        let local =
            ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("{scheme}://{host}:{port}"));
        let ours = std::iter::once(format!("{scheme}://{address}"))
            .chain(local)
            .filter_map(|url| normalize(&url))
            .collect();
        Self { ours }
    }

    /// Tells whether the URL means this relay. Scheme, host, port and path must agree; case of
    /// scheme and host, a default port and a slash at the end make no difference.
    pub fn names_us(&self, url: &str) -> bool {
        normalize(url).is_some_and(|url| self.ours.contains(&url))
    }

    /// Returns the address to tell clients.
    pub fn canonical(&self) -> &str {
        self.ours.first().map_or("", String::as_str)
    }
}

/// Returns the one way to write a URL that is the same address; `None` if it is none.
fn normalize(url: &str) -> Option<String> {
    let (scheme, rest) = url.trim().split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let default_port = match scheme.as_str() {
        "ws" => 80,
        "wss" => 443,
        _ => return None,
    };
    let (authority, path) = match rest.find(['/', '?', '#']) {
        Some(end) => rest.split_at(end),
        None => (rest, ""),
    };
    let (host, port) = split_port(authority)?;
    let port = if port.is_empty() {
        default_port
    } else {
        port.parse::<u16>().ok()?
    };
    let host = normalize_host(host)?;
    let path = path.trim_end_matches('/');
    Some(if port == default_port {
        format!("{scheme}://{host}{path}")
    } else {
        format!("{scheme}://{host}:{port}{path}")
    })
}

/// Splits an authority without user name into host and port, which may be empty.
fn split_port(authority: &str) -> Option<(&str, &str)> {
    if authority.contains('@') {
        return None;
    }
    let host_end = authority.find(']').map_or(0, |bracket| bracket + 1);
    let (bracketed, rest) = authority.split_at(host_end);
    match rest.split_once(':') {
        Some((host, port)) if bracketed.is_empty() => Some((host, port)),
        Some(("", port)) => Some((bracketed, port)),
        Some(_) => None,
        None if bracketed.is_empty() => Some((rest, "")),
        None => rest.is_empty().then_some((bracketed, "")),
    }
}

fn normalize_host(host: &str) -> Option<String> {
    if let Some(address) = host.strip_prefix('[') {
        let address: Ipv6Addr = address.strip_suffix(']')?.parse().ok()?;
        return Some(format!("[{address}]"));
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    let plain = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control());
    plain.then(|| host.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_address_written_differently_names_us() {
        let urls = RelayUrls::public("wss://Relay.Example.com/").unwrap();
        for same in [
            "wss://relay.example.com",
            "wss://relay.example.com/",
            "WSS://RELAY.EXAMPLE.COM:443",
            "wss://relay.example.com.:443/",
            " wss://relay.example.com ",
        ] {
            assert!(urls.names_us(same), "{same}");
        }
    }

    #[test]
    fn another_address_does_not_name_us() {
        let urls = RelayUrls::public("wss://relay.example.com").unwrap();
        for other in [
            "",
            "relay.example.com",
            "ws://relay.example.com",
            "https://relay.example.com",
            "wss://relay.example.com:444",
            "wss://relay.example.com:99999",
            "wss://relay.example.com/other",
            "wss://relay.example.com?other",
            "wss://relay.example.com.evil.net",
            "wss://evil.net/relay.example.com",
            "wss://relay.example.com@evil.net",
            "wss://user@relay.example.com",
            "wss://",
            "wss://[::1",
            "wss://[zz]:443",
        ] {
            assert!(!urls.names_us(other), "{other}");
        }
    }

    #[test]
    fn a_path_is_part_of_the_address() {
        let urls = RelayUrls::public("ws://example.com:8080/Nostr/").unwrap();
        assert!(urls.names_us("ws://EXAMPLE.com:8080/Nostr"));
        assert!(!urls.names_us("ws://example.com:8080/nostr"));
        assert!(!urls.names_us("ws://example.com:8080"));
    }

    #[test]
    fn unconfigured_only_the_listen_address_and_localhost_name_us() {
        let urls = RelayUrls::listening("192.0.2.7:7777".parse().unwrap());
        for ours in [
            "ws://192.0.2.7:7777",
            "ws://localhost:7777/",
            "ws://127.0.0.1:7777",
            "ws://[0:0:0:0:0:0:0:1]:7777",
        ] {
            assert!(urls.names_us(ours), "{ours}");
        }
        assert!(!urls.names_us("ws://localhost"));
        assert!(!urls.names_us("ws://relay.example.com:7777"));
        assert_eq!(urls.canonical(), "ws://192.0.2.7:7777");
    }

    #[test]
    fn with_tls_the_listen_address_is_wss() {
        let urls = RelayUrls::listening_with_tls("192.0.2.7:443".parse().unwrap());
        assert!(urls.names_us("wss://192.0.2.7") && urls.names_us("wss://localhost:443/"));
        assert!(!urls.names_us("ws://192.0.2.7:443"));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        assert!(RelayUrls::public("https://example.com").is_err());
        assert!(RelayUrls::public("example.com").is_err());
        assert!(RelayUrls::public("wss://user@example.com").is_err());
    }
}
