//! Load, scoring, comparisons: the measuring commands.
fn main() {}
