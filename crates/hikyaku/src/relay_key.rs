//! The relay's own key: brought by the operator, or made at the first start and kept in the data
//! folder.

use std::{io, path::Path};

use hikyaku_event::PublicKey;
use hikyaku_policies::RelayKey;
use hikyaku_vfs::Vfs;
use secp256k1::Keypair;

use crate::{
    configuration::{SecretKey, Settings},
    failure::Failure,
};

const FILE_NAME: &str = "relay.key";
/// 64 hex digits and a line's end.
const FILE_BYTES: usize = 65;

/// Reads a secret key in lower-case hex; `None` if it is none.
pub(crate) fn parse(text: &str) -> Option<SecretKey> {
    // The same notation as a public key's, and as many bytes.
    let bytes = *PublicKey::from_hex(text.as_bytes()).ok()?.as_bytes();
    Keypair::from_secret_bytes(bytes).ok()?;
    Some(SecretKey(bytes))
}

/// Returns the relay's key: the configured one, or the kept one, which is made if there is none.
pub(crate) fn of(settings: &Settings, disk: &dyn Vfs) -> Result<RelayKey, Failure> {
    let secret = match &settings.relay_key {
        Some(secret) => secret.clone(),
        None => kept(disk, &settings.data.join(FILE_NAME))?,
    };
    RelayKey::new(secret.0).ok_or_else(|| Failure::Failed("the relay's key is unusable".to_owned()))
}

fn kept(disk: &dyn Vfs, path: &Path) -> Result<SecretKey, Failure> {
    let file = match disk.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return make(disk, path)
                .map_err(|error| Failure::io(&format!("can't make {}", path.display()), &error));
        }
        Err(error) => {
            return Err(Failure::io(
                &format!("can't open {}", path.display()),
                &error,
            ));
        }
    };
    let mut text = [0; FILE_BYTES];
    file.read_exact_at(&mut text, 0)
        .ok()
        .and_then(|()| std::str::from_utf8(&text).ok())
        .and_then(|text| parse(text.trim_end()))
        .ok_or_else(|| {
            Failure::Damaged(format!(
                "{}: expected a secret key of 64 lower-case hex digits and a line's end; \
                 put the old one back, or remove the file to get a new one",
                path.display()
            ))
        })
}

/// Makes a key and keeps it. It has its name only when it is whole: a crash leaves none or a good
/// one.
fn make(disk: &dyn Vfs, path: &Path) -> io::Result<SecretKey> {
    let secret = random()?;
    let text = PublicKey::new(secret.0).to_hex() + "\n";
    let unfinished = path.with_extension("key.tmp");
    if disk.exists(&unfinished)? {
        disk.remove(&unfinished)?;
    }
    let mut file = disk.create_new(&unfinished)?;
    file.write_all_at(text.as_bytes(), 0)?;
    file.sync_data()?;
    disk.rename(&unfinished, path)?;
    if let Some(folder) = path.parent() {
        disk.sync_dir(folder)?;
    }
    Ok(secret)
}

/// Draws bytes until they are a key: the first ones but for one time in 2^128.
fn random() -> io::Result<SecretKey> {
    loop {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        if Keypair::from_secret_bytes(bytes).is_ok() {
            return Ok(SecretKey(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use hikyaku_vfs::SimulatedDisk;

    use super::*;

    #[test]
    fn a_key_is_made_once() {
        let disk = SimulatedDisk::new(1);
        let settings = Settings {
            data: "/data".into(),
            ..Settings::default()
        };
        disk.create_dir_all(&settings.data).unwrap();
        let first = of(&settings, &disk).unwrap().public();
        assert_eq!(of(&settings, &disk).unwrap().public(), first);
    }

    #[test]
    fn a_damaged_key_is_named() {
        let disk = SimulatedDisk::new(1);
        let settings = Settings {
            data: "/data".into(),
            ..Settings::default()
        };
        disk.create_dir_all(&settings.data).unwrap();
        let mut file = disk.create_new(&settings.data.join(FILE_NAME)).unwrap();
        file.write_all_at(b"not a key\n", 0).unwrap();
        let failure = of(&settings, &disk).unwrap_err();
        assert!(
            matches!(&failure, Failure::Damaged(text) if text.contains("relay.key")),
            "{failure}"
        );
    }

    #[test]
    fn zero_is_no_key() {
        assert_eq!(parse(&"0".repeat(64)), None);
        assert!(parse(&format!("{:064}", 1)).is_some());
    }
}
