//! The relay at the address that its clients know.

use std::{
    io::{Read, Write},
    net::{TcpStream, ToSocketAddrs},
    process::Command,
    time::Duration,
};

use serde_json::Value;

use super::finding::{Finding, Findings};
use crate::configuration::Settings;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// No information document is longer.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

const CHECK: &str = "public address";

/// Asks for the information document (NIP-11) under the configured name, as a client does.
pub(super) fn examine(settings: &Settings, findings: &mut Findings) {
    let Some(url) = &settings.server.public_url else {
        return findings.push(Finding::warn(
            CHECK,
            "public_url is not set",
            "set it to the address that clients use (wss://...): without it AUTH and requests to vanish \
             work for the listening address alone",
        ));
    };
    let document = match url.split_once("://") {
        Some(("ws", rest)) => ask(rest),
        Some(("wss", rest)) => ask_by_curl(&format!("https://{rest}")),
        _ => Err("it is no ws:// or wss:// address".to_owned()),
    };
    let advice = "see that the name leads here (DNS), that the proxy passes requests on, and that its \
                  certificate is valid";
    let document = match document {
        Ok(document) => document,
        Err(error) => {
            return findings.push(Finding::bad(CHECK, format!("{url}: {error}"), advice));
        }
    };
    let Ok(Value::Object(information)) = serde_json::from_str::<Value>(&document) else {
        return findings.push(Finding::bad(
            CHECK,
            format!("{url} answers, but not with the relay's information (NIP-11)"),
            "have the proxy pass the Accept header on, and all of the path /",
        ));
    };
    let name = |key: &str| information.get(key).and_then(Value::as_str);
    let software = name("software").unwrap_or("an unnamed program");
    if !software.contains("hikyaku") && settings.server.information.software != software {
        return findings.push(Finding::bad(
            CHECK,
            format!("{url} is served by {software}"),
            "the name leads to another relay: correct public_url, the DNS entry or the proxy",
        ));
    }
    findings.push(Finding::ok(
        CHECK,
        format!("{url} leads to a relay of this kind"),
    ));
}

/// Asks over plain HTTP.
fn ask(rest: &str) -> Result<String, String> {
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let with_port = match host.rsplit_once(':') {
        Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host.to_owned(),
        _ => format!("{host}:80"),
    };
    let text = |error: std::io::Error| error.to_string();
    let address = with_port.to_socket_addrs().map_err(text)?.next();
    let address = address.ok_or_else(|| format!("{host} has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(text)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    write!(
        stream,
        "GET /{path} HTTP/1.0\r\nhost: {host}\r\naccept: application/nostr+json\r\n\r\n"
    )
    .map_err(text)?;
    let mut answer = Vec::new();
    stream
        .take(ANSWER_BYTES_MAX)
        .read_to_end(&mut answer)
        .map_err(text)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or("it does not speak HTTP")?;
    let status = head.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(format!("it answers {status}")),
    }
}

/// Asks over TLS by the system's curl, which has the system's certificates.
fn ask_by_curl(url: &str) -> Result<String, String> {
    let output = Command::new("curl")
        .args(["-sS", "-f", "-m", &PATIENCE.as_secs().to_string()])
        .args(["-H", "accept: application/nostr+json", "--", url])
        .output()
        .map_err(|error| format!("not asked: this needs curl ({error})"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
