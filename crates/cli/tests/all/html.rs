//! `export html` and `view` as a user runs them. The pages themselves are tried in a browser, by
//! `./test real`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

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
    let text = format!("<b onclick='x'>&\\\"zq.zq {TOKEN}</b>");
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
    assert!(!html.contains(TOKEN) && html.contains("[redacted:github-token:1]"));
    assert!(html.contains("zq.zq") && !html.contains("<b onclick") && !html.contains("'x'"));
    // Whatever stands before the mark, which no hash in the page can have, is escaped.
    for (at, _) in html.match_indices("zq.zq") {
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

/// A session with records of many kinds; every text in it that no rule depends on has a secret.
fn secret_everywhere(env: &Env) -> String {
    let id = "7f000000-1111-4222-8333-444444444444";
    let usage = json!({"input_tokens": 1, "output_tokens": 2});
    let call = |number: usize, name: &str, input: &Value| json!({"type": "tool_use", "id": format!("t{number}"), "name": name, "input": input});
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "x", "data": "eA=="}});
    let todos = json!([{"content": "c", "status": "pending", "activeForm": "a"}]);
    let calls = [
        call(0, "Bash", &json!({"command": "git commit", "description": "d"})),
        call(1, "Edit", &json!({"file_path": "p", "old_string": "o", "new_string": "n"})),
        call(2, "TodoWrite", &json!({"todos": todos})),
        call(3, "TaskCreate", &json!({"subject": "s", "description": "d"})),
        call(4, "WebSearch", &json!({"query": "q"})),
        call(5, "Task", &json!({"description": "d", "prompt": "p", "subagent_type": "s"})),
        call(
            6,
            "AskUserQuestion",
            &json!({"questions": [{"question": "q", "options": [{"label": "l"}]}]}),
        ),
        call(7, "other", &json!({"x": ["y", {"z": "w"}]})),
    ];
    let structured = [
        json!({"stdout": "s", "stderr": "e"}),
        json!({"filePath": "p", "structuredPatch": [{"oldStart": 1, "oldLines": 1, "newStart": 1,
            "newLines": 1, "lines": ["-o", "+n"]}]}),
        json!({"oldTodos": todos}),
        json!({"task": {"id": "1", "subject": "s"}}),
        json!({"results": [{"content": [{"title": "t", "url": "u"}]}, "w"]}),
        json!({"agentId": "a", "status": "completed"}),
        json!({"answers": {"q": "a"}}),
        json!({"x": "y"}),
    ];
    let mut records = vec![
        json!({"type": "summary", "summary": "s", "leafUuid": "u"}),
        json!({"type": "user", "message": {"role": "user", "content": "a prompt"}}),
        json!({"type": "assistant", "message": {"id": "m0", "role": "assistant", "model": "m",
            "usage": usage, "content": [{"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "text", "text": "an answer"}, {"type": "unheard-of", "x": "y"}]}}),
    ];
    for (number, (call, result)) in calls.iter().zip(&structured).enumerate() {
        let message = format!("m{}", number + 1);
        records.push(json!({"type": "assistant", "message": {"id": message,
            "role": "assistant", "model": "m", "usage": usage, "content": [call]}}));
        let printed = if number == 0 { "[main 1a2b3c4] s" } else { "r" };
        let content = json!([{"type": "text", "text": printed}, image]);
        records.push(json!({"type": "user", "toolUseResult": result, "message": {"role": "user",
            "content": [{"type": "tool_result", "tool_use_id": format!("t{number}"),
            "content": content, "is_error": number == 7}]}}));
    }
    records
        .push(json!({"type": "system", "subtype": "informational", "content": "c", "level": "w"}));
    records.push(json!({"type": "attachment", "attachment": {"type": "hook", "content": "c"}}));
    records.push(json!({"type": "system", "subtype": "compact_boundary", "content": "c",
        "compactMetadata": {"trigger": "manual", "preTokens": 5}}));
    records.push(json!({"type": "user", "isCompactSummary": true,
        "message": {"role": "user", "content": "a summary"}}));
    records.push(json!({"type": "ai-title", "aiTitle": "t", "sessionId": id}));
    let keep = [
        "type",
        "role",
        "id",
        "tool_use_id",
        "name",
        "timestamp",
        "uuid",
        "parentUuid",
        "subtype",
        "status",
        "leafUuid",
        "agentId",
        "sessionId",
        "data",
        "trigger",
    ];
    let mut lines = String::new();
    for (number, record) in records.iter_mut().enumerate() {
        plant(record, &keep);
        let all = record.as_object_mut().unwrap();
        all.insert("uuid".to_owned(), json!(format!("u{number}")));
        let parent = number.checked_sub(1).map(|before| format!("u{before}"));
        all.insert("parentUuid".to_owned(), json!(parent));
        let time = format!("2026-01-01T00:00:{number:02}.000Z");
        all.insert("timestamp".to_owned(), json!(time));
        for name in ["cwd", "gitBranch", "version"] {
            all.insert(name.to_owned(), json!(format!("/{name} {TOKEN}")));
        }
        lines.push_str(&record.to_string());
        lines.push('\n');
    }
    env.put(&format!(".claude/projects/-w-{TOKEN}/{id}.jsonl"), &lines);
    id.to_owned()
}

/// Adds a secret to every text, except below those names.
fn plant(value: &mut Value, keep: &[&str]) {
    match value {
        Value::String(text) => *text = format!("{text} {TOKEN}"),
        Value::Array(all) => all.iter_mut().for_each(|one| plant(one, keep)),
        Value::Object(all) => {
            all.iter_mut()
                .filter(|(name, _)| !keep.contains(&name.as_str()))
                .for_each(|(_, one)| plant(one, keep));
        }
        _ => {}
    }
}

#[test]
fn a_secret_is_redacted_wherever_it_stands() {
    let env = Env::bare();
    let id = secret_everywhere(&env);
    let shown = made(&env, &[&id, "--no-redact"]);
    assert!(shown.matches(TOKEN).count() > 40, "{}", shown.matches(TOKEN).count());
    let html = made(&env, &[&id]);
    let at = html.find(TOKEN);
    assert!(at.is_none(), "{}", &html[at.unwrap().saturating_sub(200)..at.unwrap() + 80]);
}

#[test]
fn pages_are_redacted_if_that_is_wanted() {
    let env = Env::bare();
    let id = secret_everywhere(&env);
    let names = |server: &Server| {
        let session = server.first.trim_end_matches('/').to_owned();
        let mut all: Vec<String> = ["", "rows", "plot", "compare?a=7f00&b=7f00"]
            .iter()
            .map(|page| (*page).to_owned())
            .collect();
        for by in ["day", "model", "project", "tool", "agent", "session"] {
            all.push(format!("usage?by={by}"));
        }
        all.extend(
            ["turns", "branches", "agents", "commits", "context", "check", "timeline"]
                .map(|panel| format!("{session}/panel/{panel}")),
        );
        for number in 0..40 {
            all.extend(
                ["raw/m", "text/m", "part/m", "markdown/m", "window/m"]
                    .map(|kind| format!("{session}/{kind}/{number}")),
            );
        }
        all.extend([
            session.clone(),
            format!("{session}/find?q=ghp"),
            format!("{session}/receipt/1"),
        ]);
        all
    };
    let open = Server::start(&env, &[&id]);
    let count = |server: &Server, page: &str| server.get(page).matches(TOKEN).count();
    // Without it, pages show what the file holds; a copy never does.
    for page in ["", "usage?by=project"] {
        assert!(count(&open, page) > 0, "{page}");
    }
    for page in names(&open).iter().filter(|page| page.contains("/markdown/")) {
        assert_eq!(count(&open, page), 0, "{page}");
    }
    drop(open);
    let server = Server::start(&env, &["--redact", &id]);
    let mut found = 0;
    for page in names(&server) {
        let shown = server.get(&page);
        found += usize::from(shown.starts_with("HTTP/1.1 200"));
        let at = shown.find(TOKEN);
        assert!(at.is_none(), "{page}: {}", &shown[at.unwrap().saturating_sub(200)..at.unwrap()]);
    }
    assert!(found > 50, "{found}");
}

/// A password that one record names as such, and another does not.
#[test]
fn a_secret_of_one_record_is_hidden_in_all_of_them() {
    let env = Env::bare();
    let (word, id) = ("Xq7mVt2pLw9zR4", "7e110000-1111-4222-8333-444444444444");
    let mut lines = Vec::new();
    let texts = [format!("export DB_PASSWORD={word}"), format!("tried {word} there")];
    for (number, text) in texts.iter().enumerate() {
        let parent = if number == 0 { Value::Null } else { json!("a0") };
        let time = format!("2026-01-01T00:00:0{number}.000Z");
        let prompt = json!({ "type": "user", "uuid": format!("u{number}"), "parentUuid": parent,
            "timestamp": time, "message": { "role": "user", "content": text } });
        let answer = json!({ "type": "assistant", "uuid": format!("a{number}"),
            "parentUuid": format!("u{number}"), "timestamp": time, "message": {
                "id": format!("m{number}"), "role": "assistant", "stop_reason": "end_turn",
                "content": [{ "type": "text", "text": "done" }] } });
        lines.extend([prompt.to_string(), answer.to_string()]);
    }
    env.put(&format!(".claude/projects/-w/{id}.jsonl"), &(lines.join("\n") + "\n"));
    let server = Server::start(&env, &[id]);
    let get = |server: &Server, part: &str| server.get(&format!("{}/{part}", server.first));
    assert!(get(&server, "window/m/0").contains(word));
    let copy = get(&server, "markdown/m/2");
    assert!(copy.contains("tried [redacted:") && !copy.contains(word), "{copy}");
    drop(server);
    let server = Server::start(&env, &["--redact", id]);
    for part in ["window/m/0", "markdown/m/2", "raw/m/3", "text/m/3", "panel/turns", "find?q=tried"]
    {
        let shown = get(&server, part);
        assert!(shown.starts_with("HTTP/1.1 200") && shown.contains("tried"), "{part}: {shown}");
        assert!(!shown.contains(word), "{part}: {shown}");
    }
}

#[test]
fn what_cannot_be_read_or_written_is_said() {
    let env = Env::with_sessions();
    let refused = env.run(&["view", "--no-open", "no-such-session"]);
    assert!(refused.starts_with("exit 3"), "{refused}");
    let folder = env.path("folder");
    fs::create_dir(&folder).unwrap();
    let inside = folder.join("missing").join("x.html");
    let refused = env.run(&["export", "html", NESTED, "-o", inside.to_str().unwrap()]);
    assert!(refused.starts_with("exit 1") && refused.contains("x.html"), "{refused}");
    if std::path::Path::new("/dev/full").exists() {
        let refused = env.run(&["export", "html", NESTED, "-o", "/dev/full", "--force"]);
        assert!(refused.starts_with("exit 1") && refused.contains("/dev/full"), "{refused}");
    }
}

/// A server that ends with this, and what one needs to ask it.
pub(crate) struct Server {
    child: Child,
    host: String,
    port: String,
    cookie: String,
    /// Where the pages are, and the first one below that.
    root: String,
    pub(crate) first: String,
    start: String,
}

impl Server {
    pub(crate) fn start(env: &Env, args: &[&str]) -> Server {
        let mut command = env.command(&[&["view", "--no-open"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (host, start) = line.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
        let (host, start) = (host.to_owned(), format!("/{start}"));
        let port = host.rsplit_once(':').unwrap().1.to_owned();
        let none = String::new;
        let (cookie, root, first) = (none(), none(), none());
        let mut server = Server { child, host, port, cookie, root, first, start };
        let welcome = server.ask(&server.start, &server.host, "");
        assert!(welcome.starts_with("HTTP/1.1 303"), "{welcome}");
        let header = |name: &str| {
            let line = welcome.lines().find(|line| line.to_lowercase().starts_with(name)).unwrap();
            line.split_once(": ").unwrap().1.to_owned()
        };
        let cookie = header("set-cookie").split(';').next().unwrap().to_owned();
        server.cookie = format!("Cookie: {cookie}\r\n");
        let place = header("location");
        let (key, first) = place.trim_start_matches('/').split_once('/').unwrap();
        (server.root, server.first) = (format!("/{key}/"), first.to_owned());
        server
    }

    fn ask(&self, path: &str, host: &str, more: &str) -> String {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", self.port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n")
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A part of a page, by its address below the root.
    pub(crate) fn get(&self, page: &str) -> String {
        let more = format!("{}X-Quipu: part\r\n", self.cookie);
        self.ask(&format!("{}{page}", self.root), &self.host, &more)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_server_answers_who_has_the_address() {
    let env = Env::with_sessions();
    let server = Server::start(&env, &[NESTED]);
    let (host, page) = (server.host.as_str(), format!("{}{}", server.root, server.first));
    assert!(host.contains(".localhost:"), "{host}");
    assert!(server.ask("/", host, "").starts_with("HTTP/1.1 403"));
    let other = format!("127.0.0.1:{}", server.port);
    assert!(server.ask(&page, &other, &server.cookie).starts_with("HTTP/1.1 421"));
    assert!(server.ask(&server.start, host, "").starts_with("HTTP/1.1 403"), "it works twice");
    let shown = server.ask(&page, host, &server.cookie);
    assert!(shown.starts_with("HTTP/1.1 200") && shown.contains("id=\"windows\""), "{shown}");
    assert!(server.ask(&page, host, "").starts_with("HTTP/1.1 403"));
    let foreign = format!("{}Origin: http://evil.test\r\n", server.cookie);
    assert!(server.ask(&page, host, &foreign).starts_with("HTTP/1.1 403"));
}

/// The parts that the script asks for, on a session with sub-agents of sub-agents.
#[test]
fn parts_of_pages() {
    let env = Env::with_sessions();
    let server = Server::start(&env, &[NESTED]);
    let part = |name: &str| server.get(&format!("{}/{name}", server.first));
    let found = part("find?q=the");
    assert!(found.contains("sub-agent 1, ") && found.contains("#a0-L"), "{found}");
    let raw = part("raw/m/1");
    assert!(raw.contains("Line 2") && !raw.contains("Line 0"), "{raw}");
    assert!(part("raw/m/0").starts_with("HTTP/1.1 404"));
    assert!(part("raw/m/99999").starts_with("HTTP/1.1 404"));
    assert!(
        part("where?flow=m&turn=1").ends_with("\r\n\r\nm 0"),
        "{}",
        part("where?flow=m&turn=1")
    );
    let head = part("head?flow=m");
    assert!(head.contains("data-turns=\"") && head.contains("data-agents="), "{head}");
    let turns = part("panel/turns?flow=m&from=0");
    assert!(turns.contains("<ol") && !turns.contains("Earlier"), "{turns}");
    assert!(part("receipt/1").contains("is not known"));
    // A turn says itself how it is copied and forked: also one of a sub-agent, and beside another.
    let address = |name: &str| format!("data-copy=\"{}{}/{name}\"", server.root, server.first);
    let fork = format!("data-fork=\"quipu fork {NESTED} --at 1\"");
    for window in ["window/m/0", "turn/m/0"] {
        let shown = part(window);
        assert!(shown.contains(&address("markdown/m/1")) && shown.contains(&fork), "{shown}");
    }
    let inside = part("window/a0/0");
    assert!(
        inside.contains(&address("markdown/a0/1")) && !inside.contains("data-fork"),
        "{inside}"
    );
    assert!(part("panel/commits").starts_with("HTTP/1.1 200"));
}

#[test]
fn a_session_beside_what_it_was_before_a_change() {
    let env = Env::with_sessions();
    let id = hostile(&env);
    let dropped = env.run(&["drop", &id, "2", "--in-place", "--force"]);
    assert!(dropped.starts_with("exit 0"), "{dropped}");
    let server = Server::start(&env, &[&id]);
    let panel = server.get(&format!("{}/panel/branches", server.first));
    let link =
        panel.split("href=\"").find(|part| part.contains('~') && part.contains("compare?b="));
    let link = link.unwrap_or_else(|| panic!("{panel}")).split('"').next().unwrap();
    let page = server.ask(&link.replace("&amp;", "&"), &server.host, &server.cookie);
    assert!(page.contains("they part at turn 2") && page.contains("1 only in A"), "{page}");
    let unknown = link.replace('~', "~x");
    assert!(server.ask(&unknown, &server.host, &server.cookie).starts_with("HTTP/1.1 404"));
}

/// What is in the list beside the files that are there: from the catalog, which is brought up to
/// date by itself.
#[test]
fn the_list_has_what_only_the_catalog_knows() {
    let env = Env::with_samples();
    assert!(env.run(&["index"]).starts_with("exit 0"));
    for file in testkit::files_under(&[env.path(".claude/projects")]) {
        if file.path.to_string_lossy().contains("d51c8060") {
            fs::remove_file(&file.path).unwrap();
        }
    }
    let server = Server::start(&env, &[]);
    let listed = |query: &str| {
        let begin = Instant::now();
        loop {
            let rows = server.get(&format!("rows?{query}"));
            if !rows.contains("data-reading") {
                return rows;
            }
            assert!(begin.elapsed() < Duration::from_secs(120), "the catalog is never read");
            thread::sleep(Duration::from_millis(50));
        }
    };
    let all = listed("");
    assert!(all.contains("10 sessions") && all.matches("session-row").count() == 10, "{all}");
    let gone = listed("only=deleted");
    let is_shown = |rows: &str| rows.contains("boots") && rows.contains("deleted by the client");
    assert!(gone.contains("1 session<") && is_shown(&gone), "{gone}");
    assert!(gone.contains("class=\"gone\"") && !gone.contains("<a "), "{gone}");
    // It is found by its title; the others also by their texts.
    assert!(is_shown(&listed("q=boots")), "{}", listed("q=boots"));
    let found = listed("q=tidepool");
    assert!(found.contains("class=\"snippet\"") && found.contains("tidepool"), "{found}");
    assert!(listed("q=no-such-word-anywhere").contains("0 sessions"));
    let usage = server.get("usage?by=day");
    assert!(usage.contains("of sessions whose files are gone, as the catalog has them"), "{usage}");
}

/// A turn beside another one is not cut without a word.
#[test]
fn of_a_long_turn_the_beginning_is_beside_another_one() {
    let env = Env::bare();
    let ids = ["7c000000-1111-4222-8333-444444444444", "7d000000-1111-4222-8333-444444444444"];
    for (id, answers) in ids.iter().zip([8, 60]) {
        let mut lines = vec![json!({ "type": "user", "uuid": "u", "parentUuid": null,
            "timestamp": "2026-01-01T00:00:00.000Z",
            "message": { "role": "user", "content": "tell me" } })];
        for number in 0..answers {
            let parent = if number == 0 { "u".to_owned() } else { format!("a{}", number - 1) };
            lines.push(json!({ "type": "assistant", "uuid": format!("a{number}"), "parentUuid": parent,
                "timestamp": "2026-01-01T00:00:01.000Z", "message": { "id": format!("m{number}"),
                "role": "assistant", "content": [
                    { "type": "text", "text": format!("answer{number}x {}", "words ".repeat(1_500)) }] } }));
        }
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        env.put(&format!(".claude/projects/-w/{id}.jsonl"), lines.join("\n") + "\n");
    }
    for (id, is_cut) in ids.iter().zip([false, true]) {
        let server = Server::start(&env, &[id]);
        let shown = server.get(&format!("{}/turn/m/0", server.first));
        assert!(shown.contains("answer7x"), "{shown}");
        let link = format!("href=\"{}{}?flow=m&amp;turn=1\"", server.root, server.first);
        assert_eq!((shown.contains(&link), shown.contains("answer59x")), (is_cut, false), "{id}");
    }
}
