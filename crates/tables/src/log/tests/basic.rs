//! What is told is there, in order, and can be followed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use hikyaku_vfs::SimulatedDisk;

use super::fixture::{SERVER, all, at, dir, numbers, open, open_with, put, tables, tiny};
use crate::{
    Attributes, Effect, LogOptions, LogPosition, Stamp, TableError, UpdateLog,
    log::{Known, Recoverable, entry::Applied},
};

#[test]
fn every_kind_of_effect_comes_back_as_it_was_told() {
    let disk = SimulatedDisk::new(1);
    let roomy = LogOptions {
        queue_bytes_max: 64 << 10,
        ..tiny()
    };
    let mut running = open_with(&disk, roomy, Known::default()).unwrap();
    let attributes = Attributes {
        flags: u32::MAX,
        expires_at: u64::MAX,
    };
    let long = vec![b'x'; 3000];
    let effects = [
        put(b"", b""),
        put(b"key", b"value"),
        Effect::Put {
            key: b"with attributes",
            value: &long,
            attributes,
        },
        Effect::Remove { key: b"key" },
        Effect::Vanish,
    ];
    let theirs = Stamp {
        at_us: u64::MAX,
        origin: 3,
    };
    let other = running.log.sink(1);
    for effect in effects {
        running.sink.updated(effect, at(5)).unwrap();
        other.updated(effect, theirs).unwrap();
        assert!(running.pump.turn());
    }
    let mut follower = running.log.follow(LogPosition(0)).unwrap();
    for effect in effects {
        let ours = follower.next_update().unwrap().unwrap();
        assert_eq!((ours.table, ours.effect), ("a", effect));
        let stamp = Stamp {
            at_us: 5,
            origin: SERVER,
        };
        assert_eq!(ours.stamp, stamp);
        let other = follower.next_update().unwrap().unwrap();
        assert_eq!((other.table, other.effect), ("b", effect));
        assert_eq!(other.stamp, theirs);
    }
    assert_eq!(follower.next_update().unwrap(), None);
    assert_eq!(follower.position(), running.log.position());
    assert_eq!(running.log.position(), LogPosition(10));
    assert_eq!(running.log.newest_us(), u64::MAX);
}

#[test]
fn a_follower_sees_only_what_is_durable_and_goes_on_over_files_and_restarts() {
    let disk = SimulatedDisk::new(1);
    let mut running = open(&disk);
    let mut follower = running.log.follow(LogPosition(0)).unwrap();
    running.tell(0).unwrap();
    assert_eq!(numbers(&mut follower), [0; 0]);
    assert!(running.pump.turn());
    assert_eq!(numbers(&mut follower), [0]);
    for number in 1..60 {
        running.log_each(number..number + 1);
        assert_eq!(numbers(&mut follower), [number]);
    }
    assert!(running.log.file() > 3, "no file was filled");
    let position = follower.position();
    drop((follower, running));

    let mut running = open(&disk);
    assert_eq!(running.log.position(), position);
    assert_eq!(running.log.newest_us(), 590);
    let mut follower = running.log.follow(position).unwrap();
    running.log_each(60..70);
    assert_eq!(numbers(&mut follower), (60..70).collect::<Vec<_>>());
    assert_eq!(all(&running.log), (0..70).collect::<Vec<_>>());
    for from in 0..=70 {
        let mut follower = running.log.follow(LogPosition(from)).unwrap();
        assert_eq!(numbers(&mut follower), (from..70).collect::<Vec<_>>());
    }
}

#[test]
fn a_follower_from_a_time_misses_nothing_of_it_whatever_the_order_of_the_stamps() {
    let disk = SimulatedDisk::new(1);
    let mut running = open(&disk);
    // Another server's clock, and updates that came late.
    let mut dice = 12_345_u64;
    let mut numbers_told = Vec::new();
    for _ in 0..80 {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        numbers_told.push(dice >> 54);
        running.log_each(dice >> 54..(dice >> 54) + 1);
    }
    for from in [0, 1, 300, 777, 1000, 1023, 2000] {
        let mut follower = running.log.follow_since(from * 10).unwrap();
        let expected: Vec<_> = numbers_told
            .iter()
            .copied()
            .filter(|it| *it >= from)
            .collect();
        assert_eq!(numbers(&mut follower), expected);
    }
}

#[test]
fn what_a_server_made_is_not_shipped_back_to_it() {
    let disk = SimulatedDisk::new(1);
    let mut running = open(&disk);
    for origin in [0, 2, 3, 2, SERVER] {
        let stamp = Stamp { at_us: 1, origin };
        running.sink.updated(put(b"k", b"v"), stamp).unwrap();
    }
    assert!(running.pump.turn());
    for (except, expected) in [
        (2, vec![SERVER, 3, SERVER]),
        (SERVER, vec![2, 3, 2]),
        (9, vec![SERVER, 2, 3, 2, SERVER]),
    ] {
        let mut follower = running.log.follow(LogPosition(0)).unwrap().except(except);
        let mut origins = Vec::new();
        while let Some(logged) = follower.next_update().unwrap() {
            origins.push(logged.stamp.origin);
        }
        assert_eq!(origins, expected);
        assert_eq!(follower.position(), LogPosition(5));
    }
}

#[test]
fn how_far_others_were_applied_is_for_recoveries_only() {
    let disk = SimulatedDisk::new(1);
    let mut running = open(&disk);
    let applied = Applied {
        source: 3,
        position: 99,
        at_us: 1234,
    };
    running.tell(0).unwrap();
    running.log.note_applied(&applied).unwrap();
    running.tell(1).unwrap();
    assert!(running.pump.turn());
    assert_eq!(all(&running.log), [0, 1]);
    let mut found = Vec::new();
    let mut entries = running.log.recover_from(LogPosition(0)).unwrap();
    while let Some(entry) = entries.next_to_recover().unwrap() {
        if let Recoverable::Applied(applied) = entry {
            found.push(applied);
        }
    }
    assert_eq!(found, [applied]);
}

#[test]
fn other_tables_or_another_number_begin_a_file() {
    let disk = SimulatedDisk::new(1);
    let mut running = open(&disk);
    running.log_each(0..3);
    let file = running.log.file();
    drop(running);
    let names = ["b".to_owned(), "a".to_owned()];
    let log = UpdateLog::open(&disk.disk(), dir(), tiny(), &names, Known::default()).unwrap();
    assert_eq!(log.file(), file + 1);
    assert_eq!(numbers(&mut log.follow(LogPosition(0)).unwrap()), [0, 1, 2]);
    drop(log);
    let other = LogOptions {
        server: 8,
        ..tiny()
    };
    let log = UpdateLog::open(&disk.disk(), dir(), other, &names, Known::default()).unwrap();
    assert_eq!(log.file(), file + 2);
    let log_again = UpdateLog::open(&disk.disk(), dir(), tiny(), &tables(), Known::default());
    assert_eq!(log_again.unwrap().file(), file + 3);
}

#[test]
fn updates_without_the_log_make_a_gap_that_followers_notice() {
    let disk = SimulatedDisk::new(1);
    let mut running = open(&disk);
    running.log_each(0..3);
    let before = running.log.position();
    let file = running.log.file();
    drop(running);
    let known = Known {
        position: before,
        file,
        unlogged: true,
    };
    for _ in 0..2 {
        // Also when the first opening got no further than this.
        drop(open_with(&disk, tiny(), known).unwrap());
    }
    let mut running = open_with(&disk, tiny(), known).unwrap();
    assert_eq!(running.log.position(), LogPosition(before.0 + 1));
    running.log_each(3..5);
    let mut follower = running.log.follow(LogPosition(before.0 + 1)).unwrap();
    assert_eq!(numbers(&mut follower), [3, 4]);
    let mut behind = running.log.follow(before).unwrap();
    let error = behind.next_update().unwrap_err();
    assert!(matches!(error, TableError::NotInLog { wanted: 3, .. }));
}

/// Counts how often it is woken.
#[derive(Default)]
struct Alarm(AtomicU32);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn futures_are_woken_when_what_they_wait_for_is_durable_and_when_it_never_will_be() {
    let disk = SimulatedDisk::new(1);
    let mut running = open(&disk);
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    let cx = &mut Context::from_waker(&waker);
    let woken = || alarm.0.load(Ordering::SeqCst);

    running.tell(0).unwrap();
    let mut first = Box::pin(running.log.when_durable(LogPosition(1)));
    let mut second = Box::pin(running.log.when_durable(LogPosition(2)));
    let dropped = {
        let mut dropped = Box::pin(running.log.when_durable(LogPosition(1)));
        assert!(dropped.as_mut().poll(cx).is_pending());
        dropped
    };
    drop(dropped);
    for _ in 0..2 {
        assert!(first.as_mut().poll(cx).is_pending());
        assert!(second.as_mut().poll(cx).is_pending());
    }
    assert!(running.pump.turn());
    assert_eq!(woken(), 1);
    assert!(matches!(first.as_mut().poll(cx), Poll::Ready(Ok(()))));
    assert!(second.as_mut().poll(cx).is_pending());

    let mut follower = running.log.follow(LogPosition(0)).unwrap();
    assert!(follower.wait(Duration::ZERO).unwrap());
    assert_eq!(numbers(&mut follower), [0]);
    assert!(!follower.wait(Duration::ZERO).unwrap());
    let mut more = Box::pin(follower.more());
    assert!(more.as_mut().poll(cx).is_pending());
    running.log_each(1..2);
    assert_eq!(woken(), 3);
    assert!(matches!(more.as_mut().poll(cx), Poll::Ready(Ok(()))));
    assert_eq!(numbers(&mut follower), [1]);

    let mut never = Box::pin(follower.more());
    assert!(never.as_mut().poll(cx).is_pending());
    drop(running.pump);
    assert_eq!(woken(), 4);
    let Poll::Ready(Err(TableError::Stopped(_))) = never.as_mut().poll(cx) else {
        panic!("a log that was closed has nothing more");
    };
    let refused = running.sink.updated(put(b"k", b"v"), at(1));
    assert!(matches!(refused, Err(TableError::Stopped(_))));
}
