//! What the log's thread does, one turn after the other. Synchronous, so that tests can drive it by
//! hand; [`super::UpdateLog`] gives it a thread.

use std::sync::{Arc, atomic::Ordering};

use super::{
    batch::batch_len,
    buffer::BatchBuffer,
    queue::Taken,
    update_log::Shared,
    writer::{LogWriter, Stop},
};

/// Carries what waits in the queue to the disk.
pub(super) struct Pump {
    shared: Arc<Shared>,
    writer: LogWriter,
    /// The buffer that the queue gets next.
    spare: BatchBuffer,
}

impl Pump {
    pub(super) fn new(shared: Arc<Shared>, writer: LogWriter) -> Self {
        Self {
            shared,
            writer,
            spare: BatchBuffer::default(),
        }
    }

    /// Reserves room for the first updates.
    pub(super) fn prepare(&mut self) -> Result<(), Stop> {
        self.reserve(0)
    }

    /// Works until the log ends.
    pub(super) fn run(mut self) {
        while self.shared.queue.wait_for_work(self.shared.options.linger) {
            if !self.turn() {
                return;
            }
        }
        self.turn();
    }

    /// Writes and syncs all that waits, and tells who waits for it. False if the log has stopped.
    pub(super) fn turn(&mut self) -> bool {
        let spare = std::mem::take(&mut self.spare);
        let taken = self.shared.queue.take(spare, self.writer.active.end);
        let result = self.carry_out(taken);
        if let Err(why) = result {
            let why = Arc::from(why);
            self.shared.queue.end_with(&why);
            self.shared.progress.end_with(&why);
            return false;
        }
        true
    }

    fn carry_out(&mut self, mut taken: Taken) -> Result<(), Stop> {
        if taken.entries > 0 {
            let is_read_soon = self.shared.is_followed();
            self.writer.write(&mut taken, is_read_soon)?;
            let active = &self.writer.active;
            self.shared.segments.extend(active.end, active.end_position);
            self.shared
                .highest_us
                .store(active.highest_us, Ordering::Relaxed);
            let written = taken.bytes.len() as u64;
            self.shared.progress.publish(active.end_position, written);
        }
        // What is in it stays, so that it need not be cleared: the next batch overwrites it.
        let kept = 2 * self.shared.options.queue_bytes_max;
        taken.bytes.keep(kept);
        self.spare = taken.bytes;
        if self.writer.is_full() {
            let header = self.writer.next_header();
            // What waits by now counts on the room that the file before still has.
            let reserved = self.writer.reserve(0, 0)?.max(self.full_queue());
            if self.writer.begin_next(header, reserved)? {
                self.shared.segments.push(self.writer.active.segment());
                // What could not be removed is tried again with the next file.
                let _ = self.shared.retire();
            }
        }
        self.reserve(taken.wanted)
    }

    fn reserve(&mut self, wanted: usize) -> Result<(), Stop> {
        let reserved = self.writer.reserve(self.full_queue(), wanted)?;
        self.shared.queue.set_reserved(reserved, reserved < wanted);
        Ok(())
    }

    /// The room that a full queue needs.
    fn full_queue(&self) -> usize {
        batch_len(self.shared.options.queue_bytes_max)
    }
}

impl Drop for Pump {
    /// Also after a panic: nobody shall wait for what will never come.
    fn drop(&mut self) {
        let why = Arc::from("it was closed");
        self.shared.queue.end_with(&why);
        self.shared.progress.end_with(&why);
    }
}
