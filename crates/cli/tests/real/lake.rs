//! The lake as engines read it: `DuckDB` from files and through an S3 server (`moto`); with `./test
//! real --full` also `ClickHouse` (`chdb`) and Spark, and Delta, Iceberg and `ClickHouse` tables
//! over the same files.
//!
//! The totals are held against `quipu usage`, the answers of the engines against each other, and
//! those that `docs/lake.md` shows against `DuckDB`'s (`QUIPU_UPDATE=1` writes them).

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use reqwest::blocking::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::lab::write;

/// So long it may take until `moto` listens.
const PATIENCE: Duration = Duration::from_secs(120);

/// A session of the samples, and the name that a copy of it gets.
const SESSION: &str = "43ba080a-0442-4d99-87ca-a26536b12d23";
const COPY: &str = "43ba080a-0442-4d99-87ca-000000000000";

/// The files of earlier versions of the tables: how many rows of `tools` each has, how many of
/// these name a server, and how many rows of `calls`.
const OLD: [(u64, [u64; 3]); 2] = [(1, [2, 0, 3]), (2, [2, 1, 3])];

fn is_full() -> bool {
    std::env::var_os("QUIPU_FULL").is_some()
}

/// An S3 server, which ends with this.
struct Moto {
    process: Child,
    url: String,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Moto {
    fn start(folder: &Path) -> Moto {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = File::create(folder.join("moto.log")).unwrap();
        let process = Command::new(python("lake-s3"))
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", folder)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("`./test real` installs moto");
        let moto = Moto { process, url: format!("http://127.0.0.1:{port}") };
        let client = Client::builder().no_proxy().build().unwrap();
        let begin = Instant::now();
        // The first request that it answers makes the bucket.
        while client.put(format!("{}/fleet", moto.url)).send().is_err() {
            assert!(begin.elapsed() < PATIENCE, "moto does not start");
            sleep(Duration::from_millis(100));
        }
        moto
    }

    /// From now on, the bucket keeps old versions.
    fn keep_versions(&self) {
        let rule = "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                    <Status>Enabled</Status></VersioningConfiguration>";
        let client = Client::builder().no_proxy().build().unwrap();
        let request = client.put(format!("{}/fleet?versioning", self.url));
        let request = request.header("Content-Type", "application/xml").body(rule);
        assert!(request.send().unwrap().status().is_success());
    }
}

fn python(venv: &str) -> PathBuf {
    testkit::root().join("target/real").join(venv).join("bin/python")
}

/// Somebody with the sample sessions, a copy of one of them, and a lake.
struct Scene {
    folder: TempDir,
    url: String,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let scene = Scene { folder, url: String::new() };
        let projects = scene.path(".claude/projects");
        testkit::copy_folder(&testkit::root().join("samples/home/projects"), &projects).unwrap();
        let from = projects.join(format!("-home-dev-tidepool/{SESSION}.jsonl"));
        let text = fs::read_to_string(from).unwrap().replace(SESSION, COPY);
        fs::create_dir_all(projects.join("-home-dev-copy")).unwrap();
        write(&projects.join(format!("-home-dev-copy/{COPY}.jsonl")), text);
        scene.configure("m1");
        scene
    }

    fn configure(&self, machine: &str) {
        fs::create_dir_all(self.path(".config/quipu")).unwrap();
        let config = format!("[lake]\nmachine = \"{machine}\"\nuser = \"ada\"\nteam = \"knots\"\n");
        write(&self.path(".config/quipu/config.toml"), config);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.path())
            .env("TZ", "UTC")
            .env("AWS_ENDPOINT_URL", &self.url)
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_REGION", "us-east-1");
        command
    }

    fn quipu(&self, args: &[&str]) -> Value {
        let output = self.command(env!("CARGO_BIN_EXE_quipu")).args(args).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {error}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn script(&self, venv: &str, args: &[&str]) -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/lake.py");
        let begin = Instant::now();
        let output = self.command(python(venv)).arg(script).args(args).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {error}");
        println!("lake: {} after {} s", args[..2].join(" "), begin.elapsed().as_secs());
        let text = String::from_utf8(output.stdout).unwrap();
        // Spark talks before it answers.
        serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap()
    }

    fn ask(&self, venv: &str, engine: &str, target: &str) -> Value {
        let page = testkit::root().join("docs/lake.md");
        self.script(venv, &[engine, target, page.to_str().unwrap(), SESSION])
    }

    /// What every engine says of a target, as `DuckDB` from files has to say it.
    fn ask_all(&self, folder: &str, bucket: &str) -> Value {
        let mut wanted = self.ask("lake-duckdb", "duckdb", folder);
        let shown = wanted.clone();
        let asked = [("lake-s3", "duckdb", folder), ("lake-s3", "duckdb", bucket)];
        let more = [
            ("lake-full", "chdb", folder),
            ("lake-full", "chdb", bucket),
            ("lake-full", "spark", folder),
        ];
        let more = more.into_iter().filter(|_| is_full());
        for (venv, engine, target) in asked.into_iter().chain(more) {
            let mut answer = self.ask(venv, engine, target);
            for one in [&mut answer, &mut wanted] {
                one.as_object_mut().unwrap().remove("columns");
            }
            assert_eq!(answer, wanted, "{engine} on {target}");
        }
        shown
    }
}

/// The sums that an engine has to find.
fn sums(usage: &Value) -> Vec<String> {
    let total = &usage["total"];
    let names = ["messages", "input", "output", "cache_write_5m", "cache_write_1h", "cache_read"];
    let mut sums: Vec<String> = names.map(|name| total[name].to_string()).into();
    sums.push(format!("{:.6}", total["cost_usd"].as_f64().unwrap()));
    sums
}

/// The sums that an engine found, with as many digits: `total`, or `once` by the view of the page.
fn found(answer: &Value, of: &str) -> Vec<String> {
    let mut sums: Vec<String> =
        answer[of].as_array().unwrap().iter().map(Value::to_string).collect();
    let dollars: f64 = sums.pop().unwrap().trim_matches('"').parse().unwrap();
    sums.push(format!("{dollars:.6}"));
    sums
}

#[test]
fn engines_read_what_was_pushed() {
    let mut scene = Scene::new();
    let moto = Moto::start(scene.folder.path());
    scene.url.clone_from(&moto.url);
    let folder = scene.path("lake").to_str().unwrap().to_owned();
    let bucket = "s3://fleet/lake";
    let usage = scene.quipu(&["usage", "--by", "day", "--json"]);
    for target in [&*folder, bucket] {
        let pushed = scene.quipu(&["lake", "push", "--all", "--to", target, "--json"]);
        assert_eq!((&pushed["sessions"], &pushed["objects"]), (&json!(11), &json!(77)));
    }
    let first = scene.ask_all(&folder, bucket);
    for of in ["total", "once"] {
        assert_eq!(found(&first, of), sums(&usage), "{of}");
    }
    assert!(first["rows"]["calls"].as_u64() > first["total"][0].as_u64(), "no copies: {first}");
    document(&first);
    two_machines(&scene, &usage);
    compacted(&scene, &folder);
    // Once more, with all objects written again.
    for target in [&*folder, bucket] {
        let pushed = scene.quipu(&["lake", "push", "--all", "--again", "--to", target, "--json"]);
        assert_eq!(pushed["objects"], json!(77));
    }
    assert_eq!(scene.ask_all(&folder, bucket), first);
    if is_full() {
        formats(&scene, &folder, &first);
    }
    // With files of earlier versions beside them.
    for (version, _) in OLD {
        let old = testkit::root().join(format!("crates/lake/tests/fixtures/version-{version}"));
        testkit::copy_folder(&old, Path::new(&folder)).unwrap();
        put_old(&old, &moto.url);
    }
    let both = scene.ask_all(&folder, bucket);
    let [tools, calls] = ["tools", "calls"].map(|table| first["rows"][table].as_u64().unwrap());
    let [[tools_1, servers_1, calls_1], [tools_2, servers_2, calls_2]] = OLD.map(|(_, rows)| rows);
    let versions = json!([
        [[1, tools_1, servers_1], [2, tools_2, servers_2], [3, tools, 0]],
        [[1, calls_1, 0], [2, calls_2, 0], [3, calls, calls]],
    ]);
    assert_eq!(both["versions"], versions);
    // Erased: nothing of the session is left, and everything else is.
    for target in [&*folder, bucket] {
        let erased = scene.quipu(&["lake", "erase", SESSION, "--to", target, "--json"]);
        assert_eq!((&erased["left"], &erased["old_versions"]), (&json!([]), &json!(false)));
        assert_eq!(erased["erased"].as_array().unwrap().len(), 7);
    }
    let last = scene.ask_all(&folder, bucket);
    for (table, rows) in both["rows"].as_object().unwrap() {
        let of_session = both["session"][table].as_u64().unwrap();
        assert_eq!(last["session"][table], json!(0), "{table}");
        assert_eq!(last["rows"][table], json!(rows.as_u64().unwrap() - of_session), "{table}");
    }
    assert!(both["session"]["calls"].as_u64() > Some(0), "{both}");
    // A bucket that keeps old versions says so, also of what is older than that rule.
    moto.keep_versions();
    let erased = scene.quipu(&["lake", "erase", COPY, "--to", bucket, "--json"]);
    assert_eq!((&erased["left"], &erased["old_versions"]), (&json!([]), &json!(true)));
}

/// Two machines that push the same sessions: by the view of the page, each message counts once.
fn two_machines(scene: &Scene, usage: &Value) {
    let folder = scene.path("both").to_str().unwrap().to_owned();
    for machine in ["m2", "m1"] {
        scene.configure(machine);
        scene.quipu(&["lake", "push", "--all", "--again", "--to", &folder, "--json"]);
    }
    let full = [("lake-full", "chdb"), ("lake-full", "spark")];
    let full = full.into_iter().filter(|_| is_full());
    for (venv, engine) in [("lake-duckdb", "duckdb")].into_iter().chain(full) {
        let answer = scene.ask(venv, engine, &folder);
        assert_eq!(found(&answer, "once"), sums(usage), "{engine}");
        assert_ne!(found(&answer, "total"), sums(usage), "{engine}");
    }
}

/// The compaction that the page shows: a day in one file, which the same view reads.
fn compacted(scene: &Scene, folder: &str) {
    let (page, scratch) = (testkit::root().join("docs/lake.md"), scene.path("compact"));
    let [page, scratch] = [&page, &scratch].map(|path| path.to_str().unwrap());
    let made = scene.script("lake-duckdb", &["compact", folder, scratch, page]);
    assert_eq!((&made["same"], &made["files"]), (&json!(true), &json!(1)), "{made}");
    assert!(made["rows"].as_u64() > Some(0), "{made}");
}

/// Stores the files of the previous version in the bucket.
fn put_old(folder: &Path, url: &str) {
    let client = Client::builder().no_proxy().build().unwrap();
    let mut folders = vec![folder.to_owned()];
    while let Some(one) = folders.pop() {
        for path in fs::read_dir(one).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let key = path.strip_prefix(folder).unwrap().to_str().unwrap();
            let request = client.put(format!("{url}/fleet/lake/{key}"));
            let answer = request.body(fs::read(&path).unwrap()).send().unwrap();
            assert!(answer.status().is_success(), "{key}: {}", answer.status());
        }
    }
}

/// Tables of other formats over the same files have the same rows.
fn formats(scene: &Scene, folder: &str, answer: &Value) {
    let scratch = scene.path("formats");
    fs::create_dir_all(&scratch).unwrap();
    let made = scene.script("lake-full", &["formats", folder, scratch.to_str().unwrap()]);
    let rows = answer["rows"]["calls"].as_u64().unwrap();
    assert_eq!(made["loaded"], json!(2 * rows), "{made}");
    for format in ["delta", "iceberg", "clickhouse"] {
        assert_eq!(made[format][0], json!(rows), "{made}");
        assert_eq!(made[format][1], made["delta"][1], "{made}");
    }
}

/// The page shows the answers as they are.
fn document(answer: &Value) {
    let path = testkit::root().join("docs/lake.md");
    let page = fs::read_to_string(&path).unwrap();
    let mut made = String::new();
    let mut rest = page.as_str();
    for number in 1..=12 {
        let (begin, end) = (format!("<!-- answer {number} -->\n"), "<!-- /answer -->\n");
        let (before, after) = rest.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
        let (_, after) = after.split_once(end).unwrap();
        let key = number.to_string();
        let rows = table(&answer["columns"][&key], &answer["questions"][&key]);
        let _ = write!(made, "{before}{begin}{rows}{end}");
        rest = after;
    }
    made.push_str(rest);
    if std::env::var_os("QUIPU_UPDATE").is_some() {
        write(&path, made);
        return;
    }
    assert!(made == page, "docs/lake.md shows other answers: run it with QUIPU_UPDATE=1\n{made}");
}

fn table(columns: &Value, rows: &Value) -> String {
    let cell = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let line = |cells: &Value| {
        let cells: Vec<String> = cells.as_array().unwrap().iter().map(cell).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = "|---".repeat(columns.as_array().unwrap().len());
    let mut text = format!("\n{}{rule}|\n", line(columns));
    for row in rows.as_array().unwrap() {
        text.push_str(&line(row));
    }
    text.push('\n');
    text
}
