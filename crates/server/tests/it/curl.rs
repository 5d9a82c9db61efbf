//! HTTP/1.1 as curl speaks it: parts, versions, compression, uploads, one connection for many requests.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, SystemTime},
};

use hikyaku_server::{EntityTag, Problem, Request, Server, Versioned, get, post, put};
use hikyaku_store::testing::NaiveStore;

use crate::relay::{Relay, config};

const TEXT: &str = "0123456789";

async fn echo((): &(), request: Request) -> Result<String, Problem> {
    let expected = request.headers().contains_key("expect");
    let body = request.bytes().await?;
    Ok(format!("{} {expected}", body.len()))
}

fn site() -> Relay {
    let server = Server::new(config(), Arc::new(NaiveStore::new()))
        .plugin(async |_| Ok(()))
        .route(get("/file"), async |(): &(), _: Request| {
            let at = SystemTime::UNIX_EPOCH + Duration::from_hours(24);
            Versioned::tagged(TEXT, EntityTag::new("v1")).and_modified(at)
        })
        .route(get("/long"), async |(): &(), _: Request| {
            "a line\n".repeat(20_000)
        })
        .route(put("/echo"), echo)
        .route(post("/echo"), echo);
    Relay::serve(server)
}

/// Runs curl with these arguments and this input; `None` if there is none here.
fn curl(arguments: &[&str], input: &[u8]) -> Option<String> {
    let child = Command::new("curl")
        .args(["--silent", "--show-error", "--http1.1", "--max-time", "20"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("not tested: there is no curl here");
        return None;
    };
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn curl_reads_whole_and_in_part_and_not_again_what_it_has() {
    let relay = site();
    let url = |path: &str| format!("http://{}{path}", relay.address);
    let (file, long) = (url("/file"), url("/long"));
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let status = "%{http_code}";
    for (arguments, expected) in [
        (vec![&*file], TEXT),
        (vec!["--range", "2-4", &*file], "234"),
        (vec!["--range", "-3", &*file], "789"),
        (
            vec!["--head", "-o", "/dev/null", "-w", status, &*file],
            "200",
        ),
        (
            vec!["-z", "Thu, 08 Jan 1970 00:00:00 GMT", "-w", status, &*file],
            "304",
        ),
        (vec!["-z", "Thu, 01 Jan 1970 00:00:00 GMT", &*file], TEXT),
    ] {
        let Some(said) = curl(&arguments, b"") else {
            return;
        };
        assert_eq!(said, expected, "{arguments:?}");
    }
    // A download that broke off goes on.
    let half = place("half");
    std::fs::write(&half, "01234").unwrap();
    curl(&["-C", "-", "-o", &half, &file], b"").unwrap();
    assert_eq!(std::fs::read_to_string(&half).unwrap(), TEXT);
    // What it has by its tag it is not sent again.
    let tag = place("tag");
    curl(&["--etag-save", &tag, &file], b"").unwrap();
    let again = ["--etag-compare", &*tag, "-w", status, &*file];
    assert_eq!(curl(&again, b"").unwrap(), "304");
    let packed = ["--compressed", "-w", " %{size_download}", &*long];
    let packed = curl(&packed, b"").unwrap();
    let (text, size) = packed.rsplit_once(' ').unwrap();
    assert_eq!(text.len(), 140_000);
    assert!(size.parse::<usize>().unwrap() < 14_000, "{size}");
}

#[test]
fn curl_sends_bodies_of_known_and_unknown_length_on_one_connection() {
    let relay = site();
    let url = format!("http://{}/echo", relay.address);
    let body = vec![b'x'; 300_000];
    let expecting = ["-H", "Expect: 100-continue", "--data-binary", "@-", &*url];
    let Some(said) = curl(&expecting, &body) else {
        return;
    };
    assert_eq!(said, "300000 true");
    // From a pipe: in chunks.
    assert!(
        curl(&["-T", "-", &url], &body)
            .unwrap()
            .starts_with("300000 ")
    );
    let connects = ["-w", " %{num_connects};", "-d", "abc", &*url, &*url, &*url];
    let said = curl(&connects, b"").unwrap();
    assert_eq!(said, "3 false 1;3 false 0;3 false 0;");
    // Too much is refused, and told.
    let large = vec![b'x'; 2 * 1024 * 1024];
    let refused = [
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "--data-binary",
        "@-",
        &*url,
    ];
    assert_eq!(curl(&refused, &large).unwrap(), "413");
}
