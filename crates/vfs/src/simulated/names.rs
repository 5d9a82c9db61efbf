//! The names of a simulated disk: what is seen, what is durable, and the changes between the two.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use super::{content::Content, random::Random};

pub(super) type Inode = Arc<Mutex<Content>>;

#[derive(Default)]
pub(super) struct Names {
    seen: BTreeMap<PathBuf, Inode>,
    durable: BTreeMap<PathBuf, Inode>,
    /// In order, each until its directory is synced.
    changes: Vec<Change>,
}

/// A creation, removal or rename, which happens as a whole or not at all.
#[derive(Clone)]
struct Change {
    directory: PathBuf,
    removed: Option<PathBuf>,
    added: Option<(PathBuf, Inode)>,
}

impl Names {
    pub(super) fn get(&self, path: &Path) -> Option<&Inode> {
        self.seen.get(path)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&PathBuf, &Inode)> {
        self.seen.iter()
    }

    pub(super) fn add(&mut self, path: &Path, inode: Inode) {
        self.change(path, None, Some((path.to_path_buf(), inode)));
    }

    pub(super) fn remove(&mut self, path: &Path) {
        self.change(path, Some(path.to_path_buf()), None);
    }

    /// Both paths must be in one directory.
    pub(super) fn rename(&mut self, from: &Path, to: &Path, inode: Inode) {
        self.change(
            from,
            Some(from.to_path_buf()),
            Some((to.to_path_buf(), inode)),
        );
    }

    fn change(&mut self, path: &Path, removed: Option<PathBuf>, added: Option<(PathBuf, Inode)>) {
        let change = Change {
            directory: parent(path),
            removed,
            added,
        };
        change.apply(&mut self.seen);
        self.changes.push(change);
    }

    pub(super) fn sync(&mut self, directory: &Path) {
        let durable = &mut self.durable;
        self.changes.retain(|change| {
            let synced = change.directory == directory;
            if synced {
                change.apply(durable);
            }
            !synced
        });
    }

    /// Returns what a crash leaves: durable names, and any subset of the unsynced changes (often
    /// none, all, or the first so many, as file systems with a journal have it).
    pub(super) fn after_crash(&self, random: &mut Random) -> Self {
        let percent = random.survival_percent();
        let first = random.up_to(self.changes.len() as u64) as usize;
        let in_order = random.chance(50);
        let mut names = self.durable.clone();
        for (index, change) in self.changes.iter().enumerate() {
            let survives = if in_order {
                index < first
            } else {
                random.chance(percent)
            };
            if survives {
                change.apply(&mut names);
            }
        }
        // Two names may have come to mean one file: they still do.
        let mut copies: BTreeMap<*const Mutex<Content>, Inode> = BTreeMap::new();
        for inode in names.values_mut() {
            let copy = copies.entry(Arc::as_ptr(inode)).or_insert_with(|| {
                Arc::new(Mutex::new(super::disk::content(inode).after_crash(random)))
            });
            *inode = Arc::clone(copy);
        }
        Self {
            seen: names.clone(),
            durable: names,
            changes: Vec::new(),
        }
    }

    /// Returns a copy that shares nothing with this one, unsynced changes included.
    pub(super) fn deep_copy(&self) -> Self {
        let mut copies: BTreeMap<*const Mutex<Content>, Inode> = BTreeMap::new();
        let mut copy_of = |inode: &Inode| {
            let copy = copies
                .entry(Arc::as_ptr(inode))
                .or_insert_with(|| Arc::new(Mutex::new(super::disk::content(inode).copy())));
            Arc::clone(copy)
        };
        let mut copy_all = |names: &BTreeMap<PathBuf, Inode>| {
            let pairs = names.iter();
            pairs
                .map(|(path, inode)| (path.clone(), copy_of(inode)))
                .collect()
        };
        let (seen, durable) = (copy_all(&self.seen), copy_all(&self.durable));
        let changes = self.changes.iter().map(|change| Change {
            directory: change.directory.clone(),
            removed: change.removed.clone(),
            added: change
                .added
                .as_ref()
                .map(|(path, inode)| (path.clone(), copy_of(inode))),
        });
        let changes = changes.collect();
        Self {
            seen,
            durable,
            changes,
        }
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<PathBuf, Inode>) {
        if let Some(path) = &self.removed {
            names.remove(path);
        }
        if let Some((path, inode)) = &self.added {
            names.insert(path.clone(), Arc::clone(inode));
        }
    }
}

pub(super) fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("/")).to_path_buf()
}
