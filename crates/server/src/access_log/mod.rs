//! The access log: a line for each HTTP request, and for each WebSocket's opening and end.

mod line;
mod writer;

pub use line::AccessLogFormat;
pub(crate) use line::{Line, shortened};
pub use writer::AccessLog;
