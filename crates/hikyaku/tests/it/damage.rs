//! Damage: named, told by the exit code, repaired.

use std::{fs, path::PathBuf};

use crate::program::{Place, ids, notes};

/// Returns the files of the store with this ending that hold something.
fn files(place: &Place, ending: &str) -> Vec<PathBuf> {
    let mut folders = vec![place.data().join("events")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().unwrap().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found
}

/// A store whose events are in a segment.
fn store_with_segments() -> Place {
    let place = Place::new();
    place.import(&notes(200));
    // Closes the log file, so that its events get a segment.
    place.run(&["verify"]).ok();
    assert_eq!(
        files(&place, ".segment").len(),
        1,
        "{:?}",
        files(&place, "")
    );
    place
}

#[test]
fn a_damaged_index_is_found_and_rebuilt() {
    let place = store_with_segments();
    let path = files(&place, ".segment").remove(0);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let ended = place.run(&["verify"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    let name = path.file_name().unwrap().to_str().unwrap();
    let said = ended.out + &ended.err;
    assert!(
        said.contains(name) && said.contains("hikyaku repair"),
        "{said}"
    );
    place.run(&["repair"]).ok();
    let report = place.run(&["verify", "--json"]).json();
    assert_eq!(report["sound"], true, "{report}");
    assert_eq!(ids(&place.run(&["export"]).ok()).len(), 200);
}

#[test]
fn a_damaged_manifest_is_named_and_rebuilt() {
    let place = store_with_segments();
    let path = place.data().join("events/MANIFEST");
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len() - 2;
    bytes[end] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = place.run(&["stats"]).failed(4);
    assert!(
        error.contains("MANIFEST") && error.contains("hikyaku repair"),
        "{error}"
    );
    place.run(&["repair"]).ok();
    assert_eq!(place.run(&["count", "{}"]).ok(), "200\n");
}

#[test]
fn a_lost_manifest_is_told_from_a_folder_without_a_store_and_rebuilt() {
    let place = store_with_segments();
    fs::remove_file(files(&place, "MANIFEST").remove(0)).unwrap();
    let ended = place.run(&["count", "{}"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.err.contains("hikyaku repair"), "{ended:?}");
    place.run(&["repair"]).ok();
    assert_eq!(ids(&place.run(&["export"]).ok()).len(), 200);
}
