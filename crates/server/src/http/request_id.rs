//! Names for requests, by which a client, its proxies and the log can speak of the same one.

use std::cell::{Cell, RefCell};

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries it.
pub(super) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Characters of one that somebody else has given.
const LENGTH_MAX: usize = 64;

thread_local! {
    static CURRENT: RefCell<Option<HeaderValue>> = const { RefCell::new(None) };
}

/// Returns the name of the request whose handler runs on this thread just now, if one does: for lines
/// of a log.
pub fn current_request() -> Option<String> {
    let name = |current: &Option<HeaderValue>| Some(current.as_ref()?.to_str().ok()?.to_owned());
    CURRENT.with_borrow(name)
}

/// Has work that is done on another thread be a part of the request of the moment.
pub(crate) fn carried<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let id = CURRENT.with_borrow(Clone::clone);
    move || match id {
        Some(id) => during(&id, work),
        None => work(),
    }
}

/// Runs a part of what answers a request.
pub(super) fn during<T>(id: &HeaderValue, part: impl FnOnce() -> T) -> T {
    struct Restore(Option<HeaderValue>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _restore = Restore(CURRENT.replace(Some(id.clone())));
    part()
}

/// Returns the name that a proxy has given a request, if it is one that can be passed on.
pub(super) fn given(headers: &HeaderMap) -> Option<HeaderValue> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    headers
        .get(HEADER)
        .filter(|value| !value.is_empty() && value.len() <= LENGTH_MAX)
        .filter(|value| value.as_bytes().iter().all(plain))
        .cloned()
}

/// Makes names: 16 hex digits each, which neither another worker nor another server makes, but by
/// chance.
#[derive(Debug)]
pub(crate) struct RequestIds {
    next: Cell<u64>,
}

impl RequestIds {
    /// `seed` is random. It is no secret: whoever sees a name can compute it.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            next: Cell::new(seed),
        }
    }

    pub(super) fn make(&self) -> HeaderValue {
        let number = self.next.get();
        self.next.set(number.wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut digits = [0; 16];
        let number = mix(number);
        for (place, digit) in digits.iter_mut().enumerate() {
            let nibble = (number >> (60 - 4 * place)) as u8 & 15;
            *digit = nibble + if nibble < 10 { b'0' } else { b'a' - 10 };
        }
        HeaderValue::from_bytes(&digits).unwrap_or_else(|_| HeaderValue::from_static("-"))
    }
}

/// Steele, Lea and Flood's mix of `SplitMix64`: two numbers never become the same.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_requests_have_one_name() {
        let workers = [7, 8, u64::MAX / 2].map(RequestIds::new);
        let names: HashSet<_> = workers
            .iter()
            .flat_map(|ids| (0..1000).map(|_| ids.make()))
            .collect();
        assert_eq!(names.len(), 3000);
        assert!(names.iter().all(|name| name.len() == 16));
    }

    #[test]
    fn a_name_that_could_do_harm_is_not_passed_on() {
        for (text, taken) in [
            ("01890a5d-ac96-774b-bcce-b302099a8057", true),
            ("a:b.c_d", true),
            ("", false),
            ("a b", false),
            ("\"", false),
            ("<script>", false),
            (&"x".repeat(65), false),
        ] {
            let headers = [(HEADER, text.parse().unwrap())].into_iter().collect();
            assert_eq!(given(&headers).is_some(), taken, "{text}");
        }
    }

    #[test]
    fn the_request_of_the_moment_is_known_while_its_handler_runs() {
        assert_eq!(current_request(), None);
        let (outer, inner) = (HeaderValue::from_static("a"), HeaderValue::from_static("b"));
        during(&outer, || {
            let _ = std::panic::catch_unwind(|| during(&inner, || panic!("on purpose")));
            assert_eq!(current_request().as_deref(), Some("a"));
        });
        assert_eq!(current_request(), None);
        let work = during(&outer, || carried(current_request));
        let elsewhere = std::thread::spawn(work).join().unwrap();
        assert_eq!(elsewhere.as_deref(), Some("a"));
    }
}
