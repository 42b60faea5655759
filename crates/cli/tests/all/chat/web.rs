//! Attacks through `WebFetch`, against the built program: each is first shown to succeed without
//! rules and sandbox, then tried in every mode.
//!
//! Nothing here needs the network: what is far answers through a proxy of the test, and a name that
//! changes its address is looked up by a library of the test.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::{Lab, call, text};

const SECRET: &str = "QUIPU-SECRET-91c4";
const MODES: [&str; 6] = ["default", "acceptEdits", "dontAsk", "auto", "plan", "bypassPermissions"];

/// A service that trusts whoever reaches it, and a proxy; and how often it was asked.
struct Service {
    port: u16,
    asked: Arc<AtomicUsize>,
}

impl Service {
    fn start() -> Service {
        let v4 = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = v4.local_addr().unwrap().port();
        let v6 = TcpListener::bind(("::1", port)).ok();
        let asked = Arc::new(AtomicUsize::new(0));
        for listener in std::iter::once(v4).chain(v6) {
            let asked = asked.clone();
            thread::spawn(move || {
                listener.incoming().flatten().for_each(|stream| serve(stream, &asked));
            });
        }
        Service { port, asked }
    }
}

fn serve(mut stream: TcpStream, asked: &AtomicUsize) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let Some(Ok(first)) = lines.next() else { return };
    lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).for_each(drop);
    let head = match first.split(' ').nth(1).unwrap_or_default() {
        "http://public.example/page" => {
            "200 OK\r\ncontent-type: text/plain\r\ncontent-length: 6\r\n\r\npublic"
        }
        "http://public.example/moved" => {
            "302 Found\r\nlocation: http://169.254.169.254/latest/\r\ncontent-length: 0\r\n\r\n"
        }
        _ => {
            asked.fetch_add(1, Ordering::SeqCst);
            "200 OK\r\ncontent-type: text/plain\r\ncontent-length: 17\r\n\r\nQUIPU-SECRET-91c4"
        }
    };
    let head = head.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    let _ = stream.write_all(format!("HTTP/1.1 {head}").as_bytes());
}

/// What the model was told of each address, in their order, one after the other.
fn fetched(urls: &[String], flags: &[&str], variables: &[(&str, String)]) -> Vec<String> {
    let mut replies: Vec<Vec<Value>> = urls
        .iter()
        .map(|url| vec![call("w", "WebFetch", &json!({"url": url, "prompt": "What?"}))])
        .collect();
    for (number, reply) in replies.iter_mut().enumerate() {
        reply[0]["id"] = format!("w{number}").into();
    }
    replies.push(vec![text("done")]);
    let mut lab = Lab::says(&[]);
    lab.server = testkit::api::Server::start(replies).unwrap();
    let args = [&["Go.", "--allowedTools", "WebFetch"], flags].concat();
    let mut command = lab.command(&args);
    for (name, value) in variables {
        command.env(name, value);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let requests = lab.server.requests();
    let messages = requests.last().unwrap()["messages"].as_array().unwrap().clone();
    let blocks = messages.iter().flat_map(|message| message["content"].as_array().unwrap().clone());
    blocks
        .filter(|block| block["type"] == "tool_result")
        .map(|block| block["content"].to_string())
        .collect()
}

const FREE: [&str; 4] = ["--permission-mode", "bypassPermissions", "--sandbox", "off"];

/// Tries addresses without rules and sandbox, where each must answer, then in every mode.
fn tried(service: &Service, urls: &[String], variables: &[(&str, String)]) {
    let open = fetched(urls, &FREE, variables);
    for (url, found) in urls.iter().zip(&open) {
        assert!(found.contains(SECRET), "{url} does nothing without rules and sandbox: {found}");
    }
    let before = service.asked.load(Ordering::SeqCst);
    for mode in MODES {
        let held = fetched(urls, &["--permission-mode", mode], variables);
        assert_eq!(held.len(), urls.len());
        for (url, found) in urls.iter().zip(&held) {
            assert!(!found.contains(SECRET), "{mode}: {url}: {found}");
            assert!(found.contains("not on the public internet") || found.contains("user name"));
        }
    }
    assert_eq!(service.asked.load(Ordering::SeqCst), before, "it was reached");
}

#[test]
fn this_machine_is_not_reached_by_any_name_or_number() {
    let service = Service::start();
    let mut hosts = vec![
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "127.1",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "127.0.0.1.",
        "0.0.0.0",
        "0",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "user@127.0.0.1",
    ];
    if TcpStream::connect(("::1", service.port)).is_ok() {
        hosts.extend(["[::1]", "[0:0:0:0:0:0:0:1]"]);
    }
    let urls: Vec<String> =
        hosts.iter().map(|host| format!("http://{host}:{}/", service.port)).collect();
    tried(&service, &urls, &[]);
}

/// Behind a proxy, everything answers: also what gives a machine in a cloud its secrets.
#[test]
fn clouds_and_local_networks_are_not_reached_through_a_proxy() {
    let service = Service::start();
    let proxy = format!("http://127.0.0.1:{}", service.port);
    let variables = [("http_proxy", proxy), ("no_proxy", "127.0.0.1,localhost".to_owned())];
    let hosts = [
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::a9fe:a9fe]",
        "[fd00:ec2::254]",
        "metadata.google.internal",
        "METADATA.google.internal.",
        "metadata",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "[fe80::1]",
        "router.lan",
    ];
    let urls: Vec<String> = hosts.iter().map(|host| format!("http://{host}/latest/")).collect();
    tried(&service, &urls, &variables);
    // Pages of others are fetched; one that leads to such an address is not followed there, and
    // fetching that address is another call.
    let urls = ["page", "moved"].map(|name| format!("http://public.example/{name}"));
    let urls = [&urls[..], &["http://169.254.169.254/latest/".to_owned()]].concat();
    let open = fetched(&urls, &FREE, &variables);
    assert!(open[0].contains("public") && open[2].contains(SECRET), "{open:?}");
    for mode in MODES {
        let held = fetched(&urls, &["--permission-mode", mode], &variables);
        assert!(held[0].contains("public"), "{held:?}");
        assert!(held[1].contains("moved to another host"), "{held:?}");
        assert!(!held.concat().contains(SECRET), "{mode}: {held:?}");
    }
}

/// A library that looks one name up with another result each time: a public address first.
const LOOKUP: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
static int times;
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
    if (name && !strncmp(name, "rebind.example", 14)) name = __sync_fetch_and_add(&times, 1) % 2 ? "127.0.0.1" : "2606:4700::1111";
    return real(name, service, hints, found);
}
"#;

#[test]
fn a_name_that_changes_its_address_leads_nowhere() {
    let place = tempfile::tempdir().unwrap();
    let library = place.path().join("lookup.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-x", "c", "-o"]).arg(&library).args(["-", "-ldl"]);
    let built = compiler.stdin(Stdio::piped()).spawn().and_then(|mut child| {
        child.stdin.take().unwrap().write_all(LOOKUP.as_bytes())?;
        child.wait()
    });
    if !built.is_ok_and(|status| status.success()) {
        let _ = writeln!(std::io::stderr(), "not run: there is no compiler for C");
        return;
    }
    let service = Service::start();
    let url = format!("http://rebind.example:{}/", service.port);
    let variables = [("LD_PRELOAD", library.display().to_string())];
    // Looked up twice in two calls: the second one reaches this machine. With a dot, it is the
    // same name.
    let dotted = url.replace("example", "example.");
    let urls = [url.clone(), url, dotted.clone(), dotted];
    let open = fetched(&urls, &FREE, &variables);
    let is_reached = open.iter().map(|found| found.contains(SECRET)).collect::<Vec<_>>();
    assert_eq!(is_reached, [false, true, false, true], "{open:?}");
    let before = service.asked.load(Ordering::SeqCst);
    for mode in MODES {
        let held = fetched(&urls, &["--permission-mode", mode], &variables);
        // What was checked is what is connected to, and there is nothing.
        for pair in held.chunks(2) {
            assert!(pair[0].contains("cannot be fetched"), "{mode}: {held:?}");
            assert!(pair[1].contains("not on the public internet"), "{mode}: {held:?}");
        }
    }
    assert_eq!(service.asked.load(Ordering::SeqCst), before, "it was reached");
}
