//! Files are filled, kept, and go.

use hikyaku_vfs::{Call, Fault, SimulatedDisk};

use super::fixture::{all, dir, numbers, open_with, tiny};
use crate::{LogOptions, LogPosition, TableError, log::Known};

fn names(disk: &SimulatedDisk) -> Vec<String> {
    let mut names = disk.disk().list(dir()).unwrap();
    names.retain(|name| name.extension().is_some_and(|it| it == "updates"));
    names
        .iter()
        .map(|name| name.display().to_string())
        .collect()
}

#[test]
fn files_have_about_the_length_they_may_have() {
    let disk = SimulatedDisk::new(1);
    let mut running = open_with(&disk, tiny(), Known::default()).unwrap();
    running.log_each(0..100);
    drop(running);
    let mut files = disk.files();
    files.retain(|(path, _)| path.extension().is_some_and(|it| it == "updates"));
    assert!(files.len() > 5);
    for (path, len) in &files[..files.len() - 1] {
        assert!((600..750).contains(len), "{} has {len}", path.display());
    }
}

#[test]
fn the_oldest_files_go_but_none_that_a_recovery_needs() {
    let disk = SimulatedDisk::new(1);
    let options = LogOptions {
        retain_bytes: 2000,
        ..tiny()
    };
    let mut running = open_with(&disk, options.clone(), Known::default()).unwrap();
    let mut slow = running.log.follow(LogPosition(0)).unwrap();
    assert_eq!(slow.next_update().unwrap().map(|_| ()), None);
    running.log_each(0..100);
    assert_eq!(running.log.first_position(), LogPosition(0));
    running.log.checkpointed(LogPosition(50)).unwrap();
    let first = running.log.first_position();
    assert!((30..=50).contains(&first.0), "{first:?}");
    running.log.checkpointed(LogPosition(100)).unwrap();
    let first = running.log.first_position();
    assert!(first.0 > 50 && running.log.bytes() <= 2000, "{first:?}");
    assert_eq!(all(&running.log), (first.0..100).collect::<Vec<_>>());

    let behind = running.log.follow(LogPosition(first.0 - 1)).unwrap_err();
    let TableError::NotInLog {
        wanted,
        first: states,
        end,
    } = behind
    else {
        panic!("{behind:?}");
    };
    assert_eq!((wanted, states, end), (first.0 - 1, first.0, 100));
    let ahead = running.log.follow(LogPosition(101)).unwrap_err();
    assert!(matches!(ahead, TableError::NotInLog { .. }), "{ahead:?}");
    let overtaken = slow.next_update().unwrap_err();
    assert!(matches!(overtaken, TableError::NotInLog { wanted: 0, .. }));

    drop((running, slow));
    let known = super::fixture::known(LogPosition(100), 1);
    let running = open_with(&disk, options, known).unwrap();
    assert_eq!(all(&running.log), (first.0..100).collect::<Vec<_>>());
}

#[test]
fn a_follower_that_has_read_a_file_to_its_end_does_not_miss_it() {
    let disk = SimulatedDisk::new(1);
    let options = LogOptions {
        retain_bytes: 0,
        ..tiny()
    };
    let mut running = open_with(&disk, options, Known::default()).unwrap();
    let mut follower = running.log.follow(LogPosition(0)).unwrap();
    for number in 0..100 {
        running.log_each(number..number + 1);
        assert_eq!(numbers(&mut follower), [number]);
        running.log.checkpointed(LogPosition(number + 1)).unwrap();
    }
    assert_eq!(names(&disk).len(), 1);
}

#[test]
fn files_of_a_certain_age_go() {
    let disk = SimulatedDisk::new(1);
    let options = LogOptions {
        retain_us: Some(200),
        ..tiny()
    };
    let mut running = open_with(&disk, options, Known::default()).unwrap();
    running.log_each(0..100);
    running.log.checkpointed(LogPosition(100)).unwrap();
    // The newest is of 990: what is of 790 and later stays, and the file it is in.
    let first = running.log.first_position();
    assert!((60..=79).contains(&first.0), "{first:?}");
}

#[test]
fn a_file_that_can_not_be_removed_is_kept_and_tried_again() {
    let disk = SimulatedDisk::new(1);
    let options = LogOptions {
        retain_bytes: 0,
        ..tiny()
    };
    let mut running = open_with(&disk, options, Known::default()).unwrap();
    running.log_each(0..40);
    disk.inject(Fault {
        call: Some(Call::Remove),
        nth: 2,
        error: std::io::ErrorKind::Other,
        lasting: false,
    });
    let result = running.log.checkpointed(LogPosition(40));
    assert!(matches!(result, Err(TableError::Io(_))), "{result:?}");
    assert!(names(&disk).len() > 1);
    running.log_each(40..41);
    running.log.checkpointed(LogPosition(41)).unwrap();
    assert_eq!(names(&disk).len(), 1);
}
