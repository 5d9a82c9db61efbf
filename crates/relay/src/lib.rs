//! One client's session and the live-subscription index; no sockets, no clock.
