//! `export html` and `view` as a user runs them. The pages themselves are tried in a browser, by
//! `./test real`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use crate::env::Env;

const NESTED: &str = "c5b9db19-a9fa-42b7-9f6b-0b8b73532119";
const TOKEN: &str = "ghp_a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2";

fn made(env: &Env, args: &[&str]) -> String {
    let output = env.command(&[&["export", "html"], args].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A session whose every text has markup and a secret in it.
fn hostile(env: &Env) -> String {
    let text = format!("<b onclick='x'>&\\\"zq {TOKEN}</b>");
    let mut lines = Vec::new();
    for number in 0..4 {
        let parent = if number == 0 { "null".to_owned() } else { format!("\"r{}\"", number - 1) };
        lines.push(format!(
            "{{\"type\":\"user\",\"uuid\":\"u{number}\",\"parentUuid\":{parent},\"cwd\":\"/w/{text}\",\"gitBranch\":\"{text}\",\
             \"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{number} {text}\"}}}}"
        ));
        lines.push(format!(
            "{{\"type\":\"assistant\",\"uuid\":\"a{number}\",\"parentUuid\":\"u{number}\",\"timestamp\":\"2026-01-01T00:00:01.000Z\",\
             \"message\":{{\"id\":\"m{number}\",\"role\":\"assistant\",\"model\":\"{text}\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}},\
             {{\"type\":\"tool_use\",\"id\":\"t{number}\",\"name\":\"{text}\",\"input\":{{\"{text}\":\"{text}\"}}}}]}}}}"
        ));
        lines.push(format!(
            "{{\"type\":\"user\",\"uuid\":\"r{number}\",\"parentUuid\":\"a{number}\",\"timestamp\":\"2026-01-01T00:00:02.000Z\",\
             \"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"t{number}\",\"content\":\"{text}\"}}]}}}}"
        ));
    }
    let id = "7e000000-1111-4222-8333-444444444444";
    env.put(&format!(".claude/projects/-w/{id}.jsonl"), &(lines.join("\n") + "\n"));
    id.to_owned()
}

#[test]
fn a_file_has_no_markup_of_the_session_and_no_secret() {
    let env = Env::with_sessions();
    let id = hostile(&env);
    let html = made(&env, &[&id]);
    assert!(html.contains("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-"));
    assert!(html.ends_with("</body></html>\n"));
    assert!(!html.contains(TOKEN) && html.contains("[redacted github-token]"));
    assert!(html.contains("zq") && !html.contains("<b onclick") && !html.contains("'x'"));
    // Whatever stands before the mark is escaped.
    for (at, _) in html.match_indices("zq") {
        assert!(html[..at].ends_with("&quot;"), "{}", &html[at.saturating_sub(40)..at + 2]);
    }
    // One script, one style sheet, nothing that is loaded.
    assert_eq!((html.matches("<script").count(), html.matches("<style").count()), (1, 1));
    for word in [" src=\"http", "<link", "<iframe", " onclick=\"", " style=\""] {
        assert!(!html.contains(word), "{word}");
    }
    assert!(made(&env, &[&id, "--no-redact"]).contains(TOKEN));
}

#[test]
fn turns_thinking_and_tools_can_be_left_out() {
    let env = Env::with_sessions();
    let id = hostile(&env);
    let all = made(&env, &[&id]);
    let few = made(&env, &[&id, "--turns", "1", "--no-tools", "--no-thinking"]);
    assert!(all.matches("class=\"turn\"").count() > few.matches("class=\"turn\"").count());
    assert!(all.contains("class=\"item call\"") && !few.contains("class=\"item call\""));
    assert!(env.run(&["export", "html", &id, "--turns", "99"]).starts_with("exit 3"));
}

#[test]
fn files_are_not_overwritten_and_not_put_among_transcripts() {
    let env = Env::with_sessions();
    let path = env.path("out.html");
    let path = path.to_str().unwrap();
    assert!(env.run(&["export", "html", NESTED, "-o", path]).starts_with("exit 0"));
    assert!(!env.run(&["export", "html", NESTED, "-o", path]).starts_with("exit 0"));
    assert!(env.run(&["export", "html", NESTED, "-o", path, "--force"]).starts_with("exit 0"));
    let inside = env.path(".claude/projects/-home-dev-demo/out.html");
    let refused = env.run(&["export", "html", NESTED, "-o", inside.to_str().unwrap()]);
    assert!(refused.starts_with("exit 2") && !inside.exists(), "{refused}");
}

#[test]
fn the_session_inside_a_file_can_be_unpacked() {
    let env = Env::with_sessions();
    let path = env.path("both.html");
    let path = path.to_str().unwrap();
    assert!(
        env.run(&["export", "html", NESTED, "--with-session", "-o", path]).starts_with("exit 0")
    );
    let html = fs::read(path).unwrap();
    assert!(html.starts_with(b"<!DOCTYPE html>"));
    let listed = env.run(&["unpack", path, "--list"]);
    assert!(listed.starts_with("exit 0") && listed.contains(&NESTED[..8]), "{listed}");
}

/// A server that ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_server_answers_who_has_the_address() {
    let env = Env::with_sessions();
    let mut command = env.command(&["view", "--no-open", NESTED]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _server = Server(child);
    let (host, path) = line.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
    let port = host.rsplit_once(':').unwrap().1;
    assert!(host.contains(".localhost:"), "{host}");
    let ask = |path: &str, host: &str, more: &str| {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n")
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let path = format!("/{path}");
    assert!(ask("/", host, "").starts_with("HTTP/1.1 403"));
    assert!(ask(&path, &format!("127.0.0.1:{port}"), "").starts_with("HTTP/1.1 421"));
    let welcome = ask(&path, host, "");
    assert!(welcome.starts_with("HTTP/1.1 303"), "{welcome}");
    assert!(ask(&path, host, "").starts_with("HTTP/1.1 403"), "the token works twice");
    let header = |name: &str| {
        let line = welcome.lines().find(|line| line.to_lowercase().starts_with(name)).unwrap();
        line.split_once(": ").unwrap().1.to_owned()
    };
    let cookie = format!("Cookie: {}\r\n", header("set-cookie").split(';').next().unwrap());
    let page = ask(&header("location"), host, &cookie);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("id=\"windows\""), "{page}");
    assert!(ask(&header("location"), host, "").starts_with("HTTP/1.1 403"));
    let foreign = format!("{cookie}Origin: http://evil.test\r\n");
    assert!(ask(&header("location"), host, &foreign).starts_with("HTTP/1.1 403"));
}
