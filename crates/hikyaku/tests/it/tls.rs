//! TLS by configuration, with curl as the client.

use std::process::{Command, Output};

use rustix::process::Signal;

use crate::program::{Place, Relay};

/// Writes a certificate of its own making and its key.
fn write_pair(place: &Place, name: &str) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    place.write(&format!("{name}.pem"), made.cert.pem());
    place.write(&format!("{name}.key"), made.signing_key.serialize_pem());
}

fn copy(place: &Place, from: &str, to: &str) {
    std::fs::copy(place.path().join(from), place.path().join(to)).unwrap();
}

fn serve(place: &Place) -> Relay {
    place.write(
        "hikyaku.toml",
        "[tls]\ncertificate = \"used.pem\"\nkey = \"used.key\"\n",
    );
    Relay::spawn(place.command(&["serve", "--listen", "127.0.0.1:0"]))
}

/// Asks for the information document as somebody who trusts this certificate alone. `None` without
/// curl.
fn curl(place: &Place, relay: &Relay, trusted: &str, more: &[&str]) -> Option<Output> {
    let port = relay.address.rsplit(':').next().unwrap();
    let run = Command::new("curl")
        .current_dir(place.path())
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "20",
            "--cacert",
            trusted,
        ])
        .args(["--header", "Accept: application/nostr+json"])
        .args(more)
        .arg(format!("https://localhost:{port}/"))
        .output();
    match run {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("not tested: there is no curl here");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn curl_reads_the_information_document_over_http_2_and_1() {
    let place = Place::new();
    write_pair(&place, "used");
    let relay = serve(&place);
    for (flag, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let more = [flag, "--write-out", "\n%{http_version}"];
        let Some(output) = curl(&place, &relay, "used.pem", &more) else {
            return;
        };
        let text = String::from_utf8(output.stdout).unwrap();
        let (document, spoken) = text.rsplit_once('\n').unwrap();
        assert!(document.contains("\"supported_nips\""), "{document}");
        assert_eq!(spoken, version);
    }
    relay.stop();
}

#[test]
fn a_new_certificate_comes_by_sighup_and_a_bad_one_does_not() {
    let place = Place::new();
    for name in ["used", "next"] {
        write_pair(&place, name);
    }
    copy(&place, "used.pem", "first.pem");
    let relay = serve(&place);
    if curl(&place, &relay, "first.pem", &[]).is_none() {
        return;
    }
    // Of two files only one is there yet.
    copy(&place, "next.pem", "used.pem");
    relay.signal(Signal::HUP);
    let read = |trusted| curl(&place, &relay, trusted, &[]).unwrap().status.success();
    assert!(read("first.pem"));
    // The second signal may come before the first one's look: the old certificate stays either way.
    copy(&place, "next.key", "used.key");
    relay.signal(Signal::HUP);
    assert!((0..600).any(|_| read("next.pem")));
    assert!(!read("first.pem"));
    relay.signal(Signal::TERM);
    let (status, log) = relay.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("a new certificate is in force"), "{log}");
}

#[test]
fn what_is_wrong_with_the_files_is_said_at_the_start() {
    let place = Place::new();
    write_pair(&place, "used");
    write_pair(&place, "other");
    let serve = |certificate: &str, key: &str| {
        let args = ["--tls-certificate", certificate, "--tls-key", key];
        place.run(&[&["serve", "--listen", "127.0.0.1:0"], &args[..]].concat())
    };
    for (certificate, key, expected) in [
        ("missing.pem", "used.key", "missing.pem: No such file"),
        ("used.key", "used.key", "there is no certificate in it"),
        ("used.pem", "used.pem", "the key is no PEM of a private key"),
        ("used.pem", "other.key", "can't be used together"),
        ("used.pem", "", "`tls.certificate` needs `tls.key`"),
    ] {
        let said = serve(certificate, key).failed(2);
        assert!(said.contains(expected), "{said}");
    }
}
