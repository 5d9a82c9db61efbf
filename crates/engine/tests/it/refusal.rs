//! A disk that refuses for a while: the store says so, rests, and goes on by itself.

use std::{io, sync::Arc};

use hikyaku_engine::Engine;
use hikyaku_store::{
    EventStore, Hider, StoreError, Write,
    testing::{Blocking, block_on, draft},
};
use hikyaku_vfs::{Call, Fault, SimulatedDisk};

use crate::suite::tiny;

#[test]
fn a_disk_that_refuses_the_background_work_is_not_asked_without_end() {
    let disk = SimulatedDisk::new(1);
    let engine = Engine::open(disk.disk(), "store".into(), tiny()).unwrap();
    // The first creation is the next log file, the second its predecessor's segment.
    disk.inject(Fault {
        call: Some(Call::Create),
        nth: 2,
        error: io::ErrorKind::Other,
        lasting: true,
    });
    let events: Vec<Arc<_>> = (0..4).map(|number| draft(1, 1, number).build()).collect();
    Blocking(&engine).put_all(&events, 1_000);
    let refused = block_on(engine.compact());
    assert!(matches!(refused, Err(StoreError::Unavailable(_))));
    let calls = disk.calls(None);
    for _ in 0..100 {
        block_on(engine.statistics());
    }
    assert_eq!(disk.calls(None), calls);

    disk.clear_faults();
    Blocking(&engine).put(&draft(1, 1, 9).build(), 1_000);
    block_on(engine.compact()).unwrap();
    let figures = block_on(engine.statistics());
    assert_eq!((figures.segments, figures.waiting_flushes), (1, 0));
    let ids: Vec<_> = events.iter().map(|event| event.id()).collect();
    assert_eq!(block_on(engine.reader().contains(&ids)).unwrap(), [true; 4]);
}

#[test]
fn a_compaction_of_a_stopped_store_is_refused_rather_than_left_waiting() {
    let disk = SimulatedDisk::new(1);
    let engine = Engine::open(disk.disk(), "store".into(), tiny()).unwrap();
    let events: Vec<Arc<_>> = (0..4).map(|number| draft(1, 1, number).build()).collect();
    Blocking(&engine).put_all(&events, 1_000);
    block_on(engine.compact()).unwrap();
    Blocking(&engine).remove(events[0].id(), 1_000);
    disk.inject(Fault {
        call: Some(Call::Sync),
        nth: 1,
        error: io::ErrorKind::Other,
        lasting: false,
    });
    let now = 1_000;
    let id = events[1].id();
    let by = Hider(1);
    let failed = block_on(engine.write(vec![Write::Hide { id, by }], now));
    assert!(matches!(failed, Err(StoreError::Stopped(_))));
    let refused = block_on(engine.compact());
    assert!(matches!(refused, Err(StoreError::Stopped(_))));
}
