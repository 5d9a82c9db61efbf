//! The login page in a real browser (Chromium, over its `DevTools` protocol): a session begins there, and
//! no other site has a use of it.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use futures_util::{SinkExt as _, StreamExt as _};
use hikyaku_event::testing::{Author, EventBuilder};
use hikyaku_server::{Html, Problem, Request, Server, SessionOptions, Sessions, get, post};
use hikyaku_store::testing::NaiveStore;
use hikyaku_tables::{MemoryOptions, MemoryTable};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};

use crate::{
    client::patiently,
    relay::{Relay, config},
};

/// A browser with one page, ended when this is dropped.
struct Browser {
    process: Child,
    socket: WebSocketStream<TcpStream>,
    page: Value,
    commands: u64,
    /// What the page wants signed, as it has said so.
    to_sign: Option<String>,
    _folder: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Browser {
    /// Starts one; `None` if there is none here.
    async fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let process = Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .arg("--remote-debugging-port=0")
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut process) = process else {
            eprintln!("not tested: there is no chromium here");
            return None;
        };
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let url = lines.find_map(|line| {
            let line = line.unwrap();
            Some(line.strip_prefix("DevTools listening on ")?.to_owned())
        });
        // Who does not listen would hold the browser up.
        std::thread::spawn(move || lines.for_each(drop));
        let url = url.expect("the browser says where it listens");
        let address = url.trim_start_matches("ws://").split('/').next().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let (socket, _) = patiently(client_async(&url, stream)).await.unwrap();
        let mut browser = Self {
            process,
            socket,
            page: Value::Null,
            commands: 0,
            to_sign: None,
            _folder: folder,
        };
        let made = browser
            .command("Target.createTarget", json!({"url": "about:blank"}))
            .await;
        let attach = json!({"targetId": made["targetId"], "flatten": true});
        browser.page = browser.command("Target.attachToTarget", attach).await["sessionId"].take();
        for domain in ["Page.enable", "Runtime.enable", "Network.enable"] {
            browser.command(domain, json!({})).await;
        }
        Some(browser)
    }

    async fn command(&mut self, method: &str, parameters: Value) -> Value {
        self.commands += 1;
        let id = self.commands;
        let mut command = json!({"id": id, "method": method, "params": parameters});
        if !self.page.is_null() {
            command["sessionId"] = self.page.clone();
        }
        let command = Message::text(command.to_string());
        self.socket.send(command).await.unwrap();
        loop {
            let message = patiently(self.socket.next()).await.unwrap().unwrap();
            let Message::Text(text) = message else {
                continue;
            };
            let mut message: Value = serde_json::from_str(&text).unwrap();
            if message["method"] == "Runtime.bindingCalled" {
                self.to_sign = message["params"]["payload"].as_str().map(str::to_owned);
            }
            if message["id"] == id {
                // Nothing, while the page is being left for another.
                return message["result"].take();
            }
        }
    }

    /// Runs a script on the page; returns what it comes to, once it does.
    async fn run(&mut self, script: &str) -> Value {
        let parameters = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let mut result = self.command("Runtime.evaluate", parameters).await;
        assert!(result["exceptionDetails"].is_null(), "{script}: {result}");
        result["result"]["value"].take()
    }

    /// Runs a script until it comes to something true.
    async fn until(&mut self, script: &str) {
        patiently(async {
            while self.run(script).await != true {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    async fn visit(&mut self, url: &str) {
        self.command("Page.navigate", json!({"url": url})).await;
        let there = json!(url);
        self.until(&format!(
            "location.href === {there} && document.readyState === 'complete'"
        ))
        .await;
    }
}

fn site(changes: &Arc<AtomicUsize>) -> Relay {
    let table = Arc::new(MemoryTable::new(MemoryOptions::default(), None));
    let mut config = config();
    config.sessions = Some(Sessions::in_table(table, SessionOptions::default()).unwrap());
    let changes = Arc::clone(changes);
    let server = Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(async |_| Ok(()))
        .route(get("/page"), async |(): &(), _: Request| {
            Html("<p>a page</p>")
        })
        .route(post("/change"), async move |(): &(), request: Request| {
            let session = request.session()?;
            changes.fetch_add(1, SeqCst);
            Ok::<_, Problem>(session.key().to_hex())
        });
    Relay::serve(server)
}

#[tokio::test]
async fn a_browser_logs_in_and_no_other_site_can_use_that() {
    let Some(mut browser) = Browser::start().await else {
        return;
    };
    let changes = Arc::new(AtomicUsize::new(0));
    let (ours, other) = (site(&changes), site(&Arc::default()));
    let author = Author::new(1);
    let key = author.pubkey().to_hex();
    // What an extension (NIP-07) gives every page.
    browser
        .command("Runtime.addBinding", json!({"name": "askToSign"}))
        .await;
    let extension = "window.nostr = { signEvent: (event) => new Promise((signed) => { \
        window.signed = signed; askToSign(JSON.stringify(event)); }) };";
    let extension = json!({"source": extension});
    browser
        .command("Page.addScriptToEvaluateOnNewDocument", extension)
        .await;

    let login = format!("http://{}/session", ours.address);
    browser.visit(&login).await;
    let said = "document.getElementById('said').textContent";
    browser
        .until(&format!("{said} === 'You are not logged in.'"))
        .await;
    browser.run("document.getElementById('in').click()").await;
    browser.until("Boolean(window.signed)").await;
    let asked: Value = serde_json::from_str(&browser.to_sign.take().unwrap()).unwrap();
    let mut event = EventBuilder::new(27235).created_at(asked["created_at"].as_u64().unwrap());
    for tag in asked["tags"].as_array().unwrap() {
        event = event.tag([tag[0].as_str().unwrap(), tag[1].as_str().unwrap()]);
    }
    let event = String::from_utf8(event.sign(&author).json().to_vec()).unwrap();
    browser.run(&format!("window.signed({event})")).await;
    browser
        .until(&format!("{said} === 'You are logged in as {key}.'"))
        .await;
    // Scripts never see it.
    assert_eq!(browser.run("document.cookie").await, "");

    let change = format!("http://{}/change", ours.address);
    browser
        .visit(&format!("http://{}/page", ours.address))
        .await;
    let fetch = format!("fetch('{change}', {{method: 'POST'}}).then((answer) => answer.text())");
    assert_eq!(browser.run(&fetch).await, key);
    assert_eq!(changes.load(SeqCst), 1);

    // A page of another origin on the same host: the browser sends the cookie, and says where from.
    browser
        .visit(&format!("http://{}/page", other.address))
        .await;
    let with = "method: 'POST', mode: 'no-cors', credentials: 'include'";
    browser
        .run(&format!("fetch('{change}', {{{with}}}).then(() => true)"))
        .await;
    assert_eq!(changes.load(SeqCst), 1);
}
