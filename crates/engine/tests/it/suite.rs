//! The suite that every store must pass: with everything in memory, and with so little memory that
//! nearly everything is in segment files, merged all the time.

use std::sync::Arc;

use hikyaku_engine::{Engine, Options};
use hikyaku_store::EventStore;
use hikyaku_vfs::SimulatedDisk;

/// Options under which a handful of events fill the memory and the log file.
pub(crate) fn tiny() -> Options {
    Options {
        log_file_bytes_max: 4096,
        log_allocation_bytes: 1024,
        memory_events_max: 4,
        ..Options::default()
    }
}

fn make(options: Options) -> Box<dyn EventStore> {
    let disk = SimulatedDisk::new(1);
    let engine = Engine::open(disk.disk(), "store".into(), options);
    Box::new(engine.unwrap())
}

mod in_memory {
    hikyaku_store::store_suite!(|| crate::suite::make(hikyaku_engine::Options::default()));
}

mod in_segments {
    hikyaku_store::store_suite!(|| crate::suite::make(crate::suite::tiny()));
}

#[test]
fn a_second_engine_on_one_folder_is_refused() {
    let disk = SimulatedDisk::new(1);
    let first = Engine::open(disk.disk(), "store".into(), Options::default()).unwrap();
    let second = Engine::open(disk.disk(), "store".into(), Options::default());
    assert!(
        second
            .unwrap_err()
            .to_string()
            .contains("another process has this store open")
    );
    drop(first);
    drop(Arc::new(
        Engine::open(disk.disk(), "store".into(), Options::default()).unwrap(),
    ));
}
