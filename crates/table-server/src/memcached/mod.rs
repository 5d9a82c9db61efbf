//! memcached's text protocol, its meta commands included, and the modes of `ms` that rotate.

mod classic;
mod example;
mod leases;
mod meta;
mod reading;
mod reply;
mod request;
mod session;
mod statistics;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use example::example;
pub(crate) use leases::Leases;
pub(crate) use session::Session;
