//! Batches of signatures, through the public interface.

mod batches;
mod vectors;
