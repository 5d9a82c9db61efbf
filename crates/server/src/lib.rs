//! Workers, WebSocket and HTTP, metrics.
