use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::json;

use super::super::write::test_site::TestSite;
use super::*;

/// A server that answers according to the requested path, until there are no more requests. Returns
/// its port.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || serve(stream, port));
        }
    });
    port
}

fn serve(mut stream: TcpStream, port: u16) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).for_each(drop);
    let path = first.split(' ').nth(1).unwrap();
    let ok = |kind: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
        [head.as_bytes(), body].concat()
    };
    let moved = |to: &str| {
        format!(
            "HTTP/1.1 302 Found\r\nlocation: {to}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        )
        .into_bytes()
    };
    let answer = match path {
        "/page" => ok("text/html; charset=utf-8", b"<h1>One</h1><p>Some <b>bold</b> text</p>"),
        "/plain" => ok("text/plain", b"<h1>as it is</h1>\n"),
        "/long" => ok("text/plain", &b"0123456789".repeat(20_000)),
        "/picture" => ok("image/png", b"\x89PNG\r\n"),
        "/drawing" => ok("image/svg+xml", b"<svg/>"),
        "/bytes" => ok("application/octet-stream", b"a\0b"),
        "/deep" => ok("text/html", "<div>".repeat(100_000).as_bytes()),
        "/near" => moved("/page"),
        "/far" => moved(&format!("http://localhost:{port}/page")),
        "/loop" => moved("/loop"),
        "/port" => moved("http://127.0.0.1:1/page"),
        "/silent" => return thread::sleep(Duration::from_secs(60)),
        "/slow" => {
            let _ = stream.write_all(&ok("text/plain", b""));
            while stream.write_all(b".").is_ok() {
                thread::sleep(Duration::from_millis(100));
            }
            return;
        }
        "/latin" => ok("text/plain; charset=ISO-8859-1", b"caf\xe9"),
        _ => {
            b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 4\r\n\r\ngone".to_vec()
        }
    };
    let _ = stream.write_all(&answer);
}

/// A site from which this machine may be reached.
fn near() -> TestSite {
    let mut bench = TestSite::new();
    bench.site.near_hosts = vec!["127.0.0.1".to_owned()];
    bench
}

/// The input of a call. Only the model that makes the call uses the prompt.
fn input(port: u16, path: &str) -> serde_json::Value {
    json!({"url": format!("http://127.0.0.1:{port}{path}"), "prompt": "what is it about?"})
}

#[test]
fn pages_and_texts() {
    let (bench, port) = (near(), server());
    let (output, detail) = bench.run(run, &input(port, "/page"));
    assert_eq!(output, "# One\n\nSome **bold** text");
    let detail: serde_json::Value = serde_json::from_str(&detail).unwrap();
    assert_eq!((&detail["code"], &detail["codeText"]), (&json!(200), &json!("OK")));
    assert_eq!((&detail["bytes"], &detail["result"]), (&json!(40), &json!(output)));
    assert_eq!(bench.run(run, &input(port, "/plain")).0, "<h1>as it is</h1>\n");
    assert_eq!(bench.run(run, &input(port, "/drawing")).0, "<svg/>");
    assert_eq!(bench.run(run, &input(port, "/latin")).0, "café");
    assert_eq!(bench.run(run, &input(port, "/deep")).0, "");
    let (output, detail) = bench.run(run, &input(port, "/long"));
    let left = "\n\n[the rest of the page is left out]";
    assert_eq!((output.len(), output.ends_with(left)), (TOLD + left.len(), true));
    assert!(detail.starts_with(r#"{"bytes":200000,"#));
    assert!(bench.site.spent.lock().unwrap().is_empty());
}

#[test]
fn pages_that_have_moved() {
    let (bench, port) = (near(), server());
    assert_eq!(bench.run(run, &input(port, "/near")).0, "# One\n\nSome **bold** text");
    let expected =
        format!("The page has moved to another host: fetch http://localhost:{port}/page instead.");
    assert_eq!(bench.refusal(run, &input(port, "/far")), (false, expected));
    let expected =
        "The page has moved to another port or scheme: fetch http://127.0.0.1:1/page instead.";
    assert_eq!(bench.refusal(run, &input(port, "/port")), (false, expected.to_owned()));
    let expected = "The page leads from one address to the next without an end.".to_owned();
    assert_eq!(bench.refusal(run, &input(port, "/loop")), (false, expected));
}

#[test]
fn what_is_no_page() {
    let (bench, port) = (near(), server());
    let refusal = |path: &str| bench.refusal(run, &input(port, path)).1;
    assert_eq!(refusal("/gone"), "The page cannot be fetched: 404 Not Found");
    assert_eq!(refusal("/picture"), "It is no text, but image/png.");
    assert_eq!(refusal("/bytes"), "It is no text, but application/octet-stream.");
    let expected = "Only http and https addresses can be fetched.".to_owned();
    let input = json!({"url": "file:///etc/passwd", "prompt": ""});
    assert_eq!(bench.refusal(run, &input), (true, expected));
    let (is_tagged, message) = bench.refusal(run, &json!({"url": "nothing", "prompt": ""}));
    assert!(is_tagged && message.starts_with("`nothing` is no address: "), "{message}");
    // No server listens there any more.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert!(refusal_of(&bench, port).starts_with("The page cannot be fetched: error sending"));
}

fn refusal_of(bench: &TestSite, port: u16) -> String {
    bench.refusal(run, &input(port, "/")).1
}

#[test]
fn nobody_waits_without_an_end() {
    let (mut bench, port) = (near(), server());
    let start = Instant::now();
    let (_, message) = bench.refusal(run, &input(port, "/silent"));
    assert!(message.starts_with("The page cannot be fetched: error sending"), "{message}");
    let (_, message) = bench.refusal(run, &input(port, "/slow"));
    assert_eq!(message, "The page cannot be fetched: it takes too long");
    assert!(start.elapsed() < SILENT + LONGEST + Duration::from_secs(5));
    let start = Instant::now();
    let message = bench.cancelled(run, &input(port, "/silent"));
    assert_eq!(message, "The page cannot be fetched: the fetch was cancelled");
    assert!(start.elapsed() < SILENT);
    bench.site.is_offline = true;
    let (_, message) = bench.refusal(run, &input(port, "/page"));
    assert_eq!(message, "This session is offline: nothing comes from the web.");
}

#[test]
fn tables_keep_their_cells() {
    let html = "<p>a</p><table><thead><tr><th>A</th><th>B</th></tr></thead> <tbody><tr><th>Row</th><td>one\ntwo</td></tr><tr><td>x <b>y</b></td><td></td></tr></tbody></table><p>b</p>";
    assert_eq!(page::markdown(html), "a\n\n| A | B |\n| Row | one two |\n| x **y** |  |\n\nb");
}

#[test]
fn nobody_near_is_asked() {
    let (bench, port) = (TestSite::new(), server());
    let refusal = |url: &str| bench.refusal(run, &json!({"url": url, "prompt": ""})).1;
    for host in [
        "127.0.0.1",
        "localhost",
        "0.0.0.0",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.1.1",
        "172.16.0.1",
        "100.100.100.200",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "168.63.129.16",
        "224.0.0.1",
        "255.255.255.255",
        "metadata.google.internal",
        "metadata",
        "printer.local",
        "a.b.localhost",
    ] {
        let message = refusal(&format!("http://{host}:{port}/page"));
        assert!(message.contains("is not on the public internet"), "{host}: {message}");
    }
    for url in ["https://me:pass@example.com/", "http://me@example.com/"] {
        assert!(refusal(url).contains("user name or a password"), "{url}");
    }
    for public in ["1.1.1.1", "8.8.8.8", "100.63.0.1", "2606:4700::1111", "::ffff:8.8.8.8"] {
        assert!(reach::is_public(public.parse().unwrap()), "{public}");
    }
}

#[test]
fn a_page_stays_where_it_was_asked_for() {
    let is_same = |from: &str, to: &str| {
        let [from, to] = [from, to].map(|url| url.parse::<reqwest::Url>().unwrap());
        reach::is_same_place(&from, &to)
    };
    assert!(
        is_same("https://a.b/x", "https://a.b:443/y") && is_same("http://a.b/x", "https://a.b/x")
    );
    assert!(
        !is_same("https://a.b/x", "http://a.b/x") && !is_same("https://a.b/x", "https://c.b/x")
    );
    assert!(
        !is_same("http://a.b:8080/x", "https://a.b/x") && !is_same("http://a.b/", "http://a.b:81/")
    );
}

/// A page that redirects from http to https is requested at the other port of the same host.
#[test]
fn an_address_has_the_port_of_its_scheme() {
    let url = reqwest::Url::parse("http://localhost/").unwrap();
    let found = reach::look_up(&url, Hosts::Public, &["localhost".to_owned()], false);
    let Ok(found) = found else { panic!("localhost is not known") };
    assert!(!found.addresses.is_empty());
    assert!(found.addresses.iter().all(|address| address.port() == 0), "{:?}", found.addresses);
}
