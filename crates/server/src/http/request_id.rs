//! Names for requests, by which a client, its proxies and the log can speak of the same one.

use std::cell::{Cell, RefCell};

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries it.
pub(super) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Characters of one that somebody else has given.
const LENGTH_MAX: usize = 64;

/// A request's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RequestName {
    /// Hex digits.
    Made([u8; 16]),
    Given(HeaderValue),
}

impl RequestName {
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Made(digits) => digits,
            Self::Given(value) => value.as_bytes(),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    pub(super) fn into_value(self) -> HeaderValue {
        match self {
            Self::Made(digits) => {
                HeaderValue::from_bytes(&digits).unwrap_or_else(|_| HeaderValue::from_static("-"))
            }
            Self::Given(value) => value,
        }
    }
}

/// Whose request runs on a thread.
#[derive(Debug, Clone, Copy)]
enum Current {
    Nobody,
    Made([u8; 16]),
    /// What it is called is kept beside.
    Given,
}

thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new(Current::Nobody) };
    static GIVEN: RefCell<Option<HeaderValue>> = const { RefCell::new(None) };
}

fn current() -> Option<RequestName> {
    match CURRENT.get() {
        Current::Nobody => None,
        Current::Made(digits) => Some(RequestName::Made(digits)),
        Current::Given => GIVEN.with_borrow(Clone::clone).map(RequestName::Given),
    }
}

/// Returns the name of the request whose handler runs on this thread just now, if one does: for lines
/// of a log.
pub fn current_request() -> Option<String> {
    current().map(|name| name.as_str().to_owned())
}

/// Has work that is done on another thread be a part of the request of the moment.
pub(crate) fn carried<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let id = current();
    move || match id {
        Some(id) => during(&id, work),
        None => work(),
    }
}

/// Runs a part of what answers a request.
pub(super) fn during<T>(id: &RequestName, part: impl FnOnce() -> T) -> T {
    struct Restore(Current, Option<HeaderValue>);
    impl Drop for Restore {
        fn drop(&mut self) {
            if let Current::Given = CURRENT.replace(self.0) {
                GIVEN.set(self.1.take());
            }
        }
    }
    let _restore = match id {
        RequestName::Made(digits) => Restore(CURRENT.replace(Current::Made(*digits)), None),
        RequestName::Given(name) => Restore(
            CURRENT.replace(Current::Given),
            GIVEN.replace(Some(name.clone())),
        ),
    };
    part()
}

/// Returns the name that a proxy has given a request, if it is one that can be passed on.
pub(super) fn given(headers: &HeaderMap) -> Option<RequestName> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    headers
        .get(HEADER)
        .filter(|value| !value.is_empty() && value.len() <= LENGTH_MAX)
        .filter(|value| value.as_bytes().iter().all(plain))
        .cloned()
        .map(RequestName::Given)
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

    pub(super) fn make(&self) -> RequestName {
        let number = self.next.get();
        self.next.set(number.wrapping_add(0x9e37_79b9_7f4a_7c15));
        let digits = hex_digits(mix(number));
        RequestName::Made(digits)
    }
}

/// Returns a number's hex digits, all of them at once.
fn hex_digits(number: u64) -> [u8; 16] {
    // Each nibble gets a byte of its own, in the order of the digits.
    let mut spread = u128::from(number);
    spread = (spread | spread << 32) & 0x0000_0000_ffff_ffff_0000_0000_ffff_ffff;
    spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff_0000_ffff_0000_ffff;
    spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff_00ff_00ff_00ff_00ff;
    spread = (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f;
    let ones = 0x0101_0101_0101_0101_0101_0101_0101_0101;
    // Those above nine are letters.
    let letters = ((spread + 6 * ones) >> 4) & ones;
    let digits = spread + u128::from(b'0') * ones + letters * u128::from(b'a' - b'0' - 10);
    digits.to_be_bytes()
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
        assert!(names.iter().all(|name| name.as_str().len() == 16));
    }

    #[test]
    fn digits_are_those_of_the_number() {
        for number in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX, mix(7)] {
            assert_eq!(&hex_digits(number), format!("{number:016x}").as_bytes());
        }
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
        let [outer, inner] =
            ["a", "b"].map(|name| RequestName::Given(HeaderValue::from_static(name)));
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
