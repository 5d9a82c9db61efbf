//! The certificate that clients are shown: read from its files at the start, and again when they change.

use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use hikyaku_server::Tls;

use crate::failure::{Failure, chain};

/// How often it is looked whether the files have changed: two small files.
const LOOK: Duration = Duration::from_mins(1);
/// Bytes of one of the files: a chain of a hundred certificates.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Where a certificate and its key are.
#[derive(Debug, Clone, Default)]
pub(crate) struct CertificateFiles {
    /// The certificate, followed by those that vouch for it.
    pub(crate) certificate: Option<PathBuf>,
    /// Its key.
    pub(crate) key: Option<PathBuf>,
}

/// A certificate in force, and what its files held.
pub(crate) struct KeptCertificate {
    /// What the server shows.
    pub(crate) tls: Tls,
    paths: (PathBuf, PathBuf),
    read: (Vec<u8>, Vec<u8>),
}

impl KeptCertificate {
    /// Reads the files, if there are to be any.
    pub(crate) fn open(files: &CertificateFiles) -> Result<Option<Self>, Failure> {
        let paths = match (&files.certificate, &files.key) {
            (None, None) => return Ok(None),
            (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
            (Some(_), None) => return Err(usage("`tls.certificate` needs `tls.key`")),
            (None, Some(_)) => return Err(usage("`tls.key` needs `tls.certificate`")),
        };
        let read = read_both(&paths).map_err(Failure::Usage)?;
        let tls = Tls::new(&read.0, &read.1).map_err(|error| {
            let (certificate, key) = (paths.0.display(), paths.1.display());
            Failure::Usage(format!("{certificate} with {key}: {}", chain(&error)))
        })?;
        Ok(Some(Self { tls, paths, read }))
    }

    /// Looks after the files, from time to time and when somebody says so, until nobody can any more.
    pub(crate) fn follow(mut self, told: Receiver<()>) -> io::Result<()> {
        let follow = move || {
            loop {
                let told = match told.recv_timeout(LOOK) {
                    Ok(()) => true,
                    Err(RecvTimeoutError::Timeout) => false,
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                self.look(told);
            }
        };
        thread::Builder::new()
            .name("certificate".into())
            .spawn(follow)?;
        Ok(())
    }

    /// Puts the certificate in force that the files hold now; what can't be used leaves the old one.
    fn look(&mut self, told: bool) {
        let read = match read_both(&self.paths) {
            Ok(read) => read,
            Err(problem) => {
                tracing::error!("the certificate stays the old one: {problem}");
                return;
            }
        };
        if read == self.read {
            if told {
                tracing::info!("the certificate's files have not changed");
            }
            return;
        }
        match self.tls.replace(&read.0, &read.1) {
            Ok(()) => tracing::info!("a new certificate is in force"),
            Err(error) => {
                let error = chain(&error);
                tracing::error!("the certificate stays the old one: {error}");
            }
        }
        // What is wrong is said once, and not every time it is looked at.
        self.read = read;
    }
}

fn usage(text: &str) -> Failure {
    Failure::Usage(text.to_owned())
}

fn read_both(paths: &(PathBuf, PathBuf)) -> Result<(Vec<u8>, Vec<u8>), String> {
    let read = |path: &Path| {
        let read = hikyaku_vfs::read_file(path, FILE_BYTES_MAX);
        read.map_err(|error| format!("{}: {error}", path.display()))
    };
    Ok((read(&paths.0)?, read(&paths.1)?))
}
