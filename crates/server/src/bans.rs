//! Who is kept out: keys and addresses. Every worker has the list in memory; who changes it, and where
//! it is kept, is the program's business.

use std::{collections::HashMap, fmt, net::IpAddr, rc::Rc, str::FromStr, sync::Arc};

use hikyaku_event::{PublicKey, Timestamp};
use hikyaku_store::Ban;
use tokio::sync::watch;

use crate::{AddressRange, clock::unix_now, worker::Worker};

/// Somebody who can be kept out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Banned {
    /// Whoever writes or authenticates with this key.
    Key(PublicKey),
    /// Whoever connects from these addresses.
    Addresses(AddressRange),
}

/// A text that names nobody who could be kept out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a public key in hex, an IP address, or a range like 10.0.0.0/8")]
pub struct BannedError(String);

impl FromStr for Banned {
    type Err = BannedError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(key) = PublicKey::from_hex(text.as_bytes()) {
            return Ok(Self::Key(key));
        }
        match text.parse::<AddressRange>() {
            Ok(range) => Ok(Self::Addresses(range.masked())),
            Err(_) => Err(BannedError(text.to_owned())),
        }
    }
}

/// One way to write each, which is read again as the same.
impl fmt::Display for Banned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => f.write_str(&key.to_hex()),
            Self::Addresses(range) => range.fmt(f),
        }
    }
}

/// The bans, by what is looked up: a ban is found in the same time among few and many.
#[derive(Debug, Default)]
pub(crate) struct BanList {
    keys: HashMap<PublicKey, Entry>,
    /// By family, length of the prefix, and prefix.
    networks: HashMap<(bool, u8, u128), Entry>,
    /// The families and lengths that there are: 162 at most.
    lengths: Vec<(bool, u8)>,
}

#[derive(Debug)]
struct Entry {
    text: Arc<str>,
    until: Option<Timestamp>,
}

impl Entry {
    fn text(&self, now: Timestamp) -> Option<Arc<str>> {
        let in_force = self.until.is_none_or(|until| now < until);
        in_force.then(|| Arc::clone(&self.text))
    }
}

impl BanList {
    fn new(bans: &[Ban]) -> Self {
        let mut list = Self::default();
        for ban in bans {
            let text: String = ban.reason.chars().filter(|c| !c.is_control()).collect();
            let text = match text.trim() {
                "" => "you are banned from this relay",
                text => text,
            };
            let entry = Entry {
                text: text.into(),
                until: ban.until,
            };
            match ban.who.parse() {
                Ok(Banned::Key(key)) => {
                    list.keys.insert(key, entry);
                }
                Ok(Banned::Addresses(range)) => {
                    let (is_v4, bits) = bits(range.network());
                    list.networks.insert((is_v4, range.prefix(), bits), entry);
                    list.lengths.push((is_v4, range.prefix()));
                }
                // A newer program may keep out what this one does not know.
                Err(error) => tracing::warn!(%error, "a ban has no effect here"),
            }
        }
        list.lengths.sort_unstable();
        list.lengths.dedup();
        list
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.networks.is_empty()
    }

    /// Returns why a key is kept out, if it is.
    pub(crate) fn of_key(&self, key: &PublicKey, now: Timestamp) -> Option<Arc<str>> {
        self.keys.get(key)?.text(now)
    }

    /// Returns why an address is kept out, if it is.
    pub(crate) fn of_address(&self, address: IpAddr, now: Timestamp) -> Option<Arc<str>> {
        let (is_v4, bits) = bits(address.to_canonical());
        self.lengths
            .iter()
            .filter(|(family, _)| *family == is_v4)
            .find_map(|(_, prefix)| {
                let place = (is_v4, *prefix, bits & mask(is_v4, *prefix));
                self.networks.get(&place)?.text(now)
            })
    }
}

/// Returns an address as a number: whether it is one of IPv4, and its bits.
fn bits(address: IpAddr) -> (bool, u128) {
    match address {
        IpAddr::V4(address) => (true, address.to_bits().into()),
        IpAddr::V6(address) => (false, address.to_bits()),
    }
}

fn mask(is_v4: bool, prefix: u8) -> u128 {
    let length = if is_v4 { 32 } else { 128 };
    let all = u128::MAX >> (128 - length);
    let host = u32::from(length - prefix.min(length));
    all & u128::MAX.checked_shl(host).unwrap_or(0)
}

/// Where the program says who is kept out.
#[derive(Debug, Clone)]
pub struct Bans(pub(crate) Arc<watch::Sender<Arc<BanList>>>);

impl Default for Bans {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Arc::default())))
    }
}

impl Bans {
    /// Keeps out these and nobody else. Connections that they have are closed.
    pub fn set(&self, bans: &[Ban]) {
        self.0.send_replace(Arc::new(BanList::new(bans)));
    }
}

/// Which keys are kept out, as plugins may know: [`Worker::banned_keys`](crate::Worker::banned_keys).
#[derive(Debug, Clone)]
pub struct BannedKeys(pub(crate) watch::Receiver<Arc<BanList>>);

impl BannedKeys {
    /// Tells whether a key is kept out now.
    pub fn contains(&self, key: &PublicKey) -> bool {
        self.0.borrow().of_key(key, unix_now()).is_some()
    }

    /// Returns all that are kept out now.
    pub fn all(&self) -> Vec<PublicKey> {
        let (list, now) = (Arc::clone(&self.0.borrow()), unix_now());
        let banned = list.keys.iter().filter(|(_, ban)| ban.text(now).is_some());
        banned.map(|(key, _)| *key).collect()
    }

    /// Resolves when others are kept out than when this last resolved, or was made. A ban that ends by
    /// its time is not told of.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // Nobody says so any more.
            std::future::pending::<()>().await;
        }
    }
}

/// Takes every new list for a worker, and closes whose connections are not to be; never returns.
pub(crate) async fn enforce(worker: Rc<Worker>) {
    let mut news = worker.shared.bans.0.subscribe();
    // One may have come between the worker's beginning and now.
    news.mark_changed();
    while news.changed().await.is_ok() {
        let list = Arc::clone(&news.borrow_and_update());
        worker.bans.replace(list);
        for connection in worker.all_connections() {
            connection.enforce_bans(&worker);
        }
    }
}

impl Worker {
    /// Returns why a client is kept out, if it is.
    pub(crate) fn ban_of(&self, address: IpAddr, keys: &[PublicKey]) -> Option<Arc<str>> {
        let bans = self.bans.borrow();
        if bans.is_empty() {
            return None;
        }
        let now = unix_now();
        let by_key = || keys.iter().find_map(|key| bans.of_key(key, now));
        bans.of_address(address, now).or_else(by_key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ban(who: &str, until: Option<u64>) -> Ban {
        Ban {
            who: who.to_owned(),
            reason: format!("for\n {who}"),
            since: 0,
            until,
        }
    }

    #[test]
    fn who_is_kept_out_is_found_until_the_ban_ends() {
        let key = "ab".repeat(32);
        let list = BanList::new(&[
            ban("192.0.2.7", None),
            ban("10.1.2.3/8", Some(100)),
            ban("2001:db8::/32", None),
            ban("0.0.0.0/1", Some(50)),
            ban(&key, Some(100)),
            ban("nobody", None),
        ]);
        let at = |address: &str, now| list.of_address(address.parse().unwrap(), now);
        assert_eq!(at("192.0.2.7", 60).as_deref(), Some("for 192.0.2.7"));
        assert!(at("::ffff:192.0.2.7", 60).is_some());
        for (inside, outside) in [("10.255.0.1", "11.0.0.1"), ("2001:db8:1::", "2001:db9::")] {
            assert!(at(inside, 60).is_some(), "{inside}");
            assert!(at(outside, 60).is_none(), "{outside}");
        }
        assert!(at("10.255.0.1", 100).is_none());
        assert!(at("1.2.3.4", 49).is_some());
        assert!(at("::1", 0).is_none());
        let key = PublicKey::from_hex(key.as_bytes()).unwrap();
        assert!(list.of_key(&key, 99).is_some());
        assert!(list.of_key(&key, 100).is_none());
    }

    #[test]
    fn each_has_one_way_to_be_written() {
        for (text, written) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("2001:db8:ff::1/32", "2001:db8::/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(text.parse::<Banned>().unwrap().to_string(), written);
        }
        assert!("localhost".parse::<Banned>().is_err());
    }
}
