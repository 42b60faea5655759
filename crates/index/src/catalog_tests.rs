use std::collections::BTreeSet;
use std::fs;
use std::fs::OpenOptions;
use std::io::Write;

use rusqlite::types::ValueRef;
use transcript::conversation::place::Home;
use transcript::conversation::usage::{Ledger, LedgerEntry, MessageUsage, Usage};
use transcript::format::secret::{Custom, Redactor};
use transcript::format::time::Time;

use super::*;

struct World {
    folder: tempfile::TempDir,
    redactor: Redactor,
}

impl World {
    fn new() -> World {
        World { folder: tempfile::tempdir().unwrap(), redactor: Redactor::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("home/projects").join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), bytes).unwrap();
    }

    fn append(&self, name: &str, bytes: &[u8]) {
        OpenOptions::new().append(true).open(self.path(name)).unwrap().write_all(bytes).unwrap();
    }

    fn homes(&self) -> Vec<Home> {
        vec![Home { root: self.folder.path().join("home") }]
    }

    fn open(&self, name: &str) -> Catalog {
        Catalog::open(&self.folder.path().join(name)).unwrap()
    }

    fn refresh(&self, catalog: &mut Catalog) -> Refreshed {
        let homes = self.homes();
        let work = Work { homes: &homes, redactor: &self.redactor, threads: 2 };
        catalog.refresh(&work, |_, _| {}).unwrap()
    }

    fn ledger(&self, catalog: &Catalog) -> Vec<String> {
        let ledger = catalog.ledger(&[self.folder.path().join("home")]).unwrap();
        entries(&ledger)
    }
}

fn entries(ledger: &Ledger) -> Vec<String> {
    let one = |entry| format!("{entry:?} {}", ledger.source(entry).session);
    ledger.entries.iter().map(one).collect()
}

/// All that is in a catalog, except the numbers of files, which depend on the order of reading.
fn contents(catalog: &Catalog) -> BTreeSet<String> {
    let db = &catalog.connection;
    db.execute_batch(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.word USING fts5vocab(main, text, instance)",
    )
    .unwrap();
    let mut all = BTreeSet::new();
    for query in [
        "SELECT path, session, is_agent, size, read_to, lines, hex(tail), is_deleted, cwd, title, prompt, \
         branch, version, started, ended, records, prompts FROM file",
        "SELECT path, count, hex(list) FROM messages JOIN file ON number = file",
        "SELECT f.path, t.path, tool, calls FROM touched t JOIN file f ON number = file",
        "SELECT path, term, col, doc % 1048576, offset FROM temp.word JOIN file ON number = doc / 1048576",
    ] {
        let mut statement = db.prepare(query).unwrap();
        let columns: Vec<usize> = (0..statement.column_count()).collect();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let cells = columns.iter().map(|at| match row.get_ref(*at).unwrap() {
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                other => format!("{other:?}"),
            });
            all.insert(cells.collect::<Vec<_>>().join("|"));
        }
    }
    all
}

fn assert_same(one: &Catalog, other: &Catalog) {
    let (one, other) = (contents(one), contents(other));
    assert!(!one.is_empty());
    let more: Vec<_> = one.difference(&other).take(4).collect();
    let less: Vec<_> = other.difference(&one).take(4).collect();
    assert!(more.is_empty() && less.is_empty(), "only one has {more:#?}\nthe other has {less:#?}");
}

fn say(uuid: &str, text: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"uuid\":\"{uuid}\",\"timestamp\":\"2026-03-01T10:00:00.000Z\",\
         \"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

#[test]
fn only_what_is_new_is_read() {
    let world = World::new();
    let first = say("a", "apple");
    world.put("p/one.jsonl", first.as_bytes());
    world.put("p/two.jsonl", say("b", "banana").as_bytes());
    let mut catalog = world.open("c.sqlite");
    let done = world.refresh(&mut catalog);
    assert_eq!((done.read, done.same, done.gone), (2, 0, 0));
    let done = world.refresh(&mut catalog);
    assert_eq!((done.read, done.bytes, done.same), (0, 0, 2));
    let more = say("c", "cherry");
    world.append("p/one.jsonl", more.as_bytes());
    let done = world.refresh(&mut catalog);
    assert_eq!((done.read, done.bytes), (1, more.len() as u64));
    // Half of a line, and then the rest: the file is read again.
    let (half, rest) = more.split_at(20);
    world.append("p/one.jsonl", half.as_bytes());
    world.refresh(&mut catalog);
    world.append("p/one.jsonl", rest.as_bytes());
    world.refresh(&mut catalog);
    // Another file of the same name, and a shorter one.
    world.put("p/two.jsonl", say("d", "date with more words than before").as_bytes());
    world.refresh(&mut catalog);
    world.put("p/one.jsonl", say("e", "elderberry").as_bytes());
    world.refresh(&mut catalog);
    let mut fresh = world.open("fresh.sqlite");
    world.refresh(&mut fresh);
    assert_same(&catalog, &fresh);
}

/// The same file with another start and a new end did not only grow.
#[test]
fn a_file_that_is_changed_and_grows_is_read_again() {
    let world = World::new();
    let rest: String = (0..20).map(|at| say(&format!("r{at}"), "a long rest of words")).collect();
    world.put("p/one.jsonl", (say("a", "apple") + &rest).as_bytes());
    let mut catalog = world.open("c.sqlite");
    world.refresh(&mut catalog);
    let inode = || list::Stamp::of(&fs::metadata(world.path("p/one.jsonl")).unwrap()).inode;
    let before = inode();
    world.put("p/one.jsonl", (say("a", "peach") + &rest + &say("c", "cherry")).as_bytes());
    assert_eq!(inode(), before);
    world.refresh(&mut catalog);
    let mut fresh = world.open("fresh.sqlite");
    world.refresh(&mut fresh);
    assert_same(&catalog, &fresh);
}

/// Clients may write an answer again and again while it grows: a call in it is still one call, also
/// if the catalog reads between the copies.
#[test]
fn growing_copies_have_the_calls_once() {
    let world = World::new();
    let call = |id: &str| {
        serde_json::json!({"type": "tool_use", "id": id, "name": "Edit",
            "input": {"file_path": "/w/a.rs"}})
    };
    let answer = |uuid: &str, calls: &[serde_json::Value]| {
        let record = serde_json::json!({"type": "assistant", "uuid": uuid,
            "message": {"id": "m1", "role": "assistant", "content": calls}});
        format!("{record}\n")
    };
    let mut catalog = world.open("c.sqlite");
    let copies = [answer("a", &[call("t1")]), answer("b", &[call("t1")])];
    world.put("p/one.jsonl", copies.concat().as_bytes());
    world.refresh(&mut catalog);
    world.append("p/one.jsonl", answer("c", &[call("t1"), call("t2")]).as_bytes());
    world.refresh(&mut catalog);
    let touched = |catalog: &Catalog| -> (String, String, i64) {
        let query = "SELECT path, tool, calls FROM touched";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        catalog.connection.query_row(query, [], row).unwrap()
    };
    let wanted = ("/w/a.rs".to_owned(), "Edit".to_owned(), 2);
    assert_eq!(touched(&catalog), wanted);
    let mut fresh = world.open("fresh.sqlite");
    world.refresh(&mut fresh);
    assert_eq!(touched(&fresh), wanted);
}

#[test]
fn in_any_pieces_the_result_is_that_of_the_whole() {
    let world = World::new();
    let files: Vec<Vec<u8>> = testkit::own_files()
        .iter()
        .map(|file| fs::read(&file.path).unwrap())
        .filter(|bytes| bytes.len() < 400_000 && bytes.ends_with(b"\n"))
        .collect();
    assert!(files.len() > 30);
    let mut growing = world.open("growing.sqlite");
    for part in 1..=3 {
        for (at, bytes) in files.iter().enumerate() {
            // Sometimes at the end of a line, sometimes within one.
            let mut end = bytes.len() * part / 3;
            if at % 2 == 0 {
                end = bytes[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            }
            let end = if part == 3 { bytes.len() } else { end };
            let name = format!("p/{at}.jsonl");
            let known = fs::read(world.path(&name)).map_or(0, |bytes| bytes.len());
            if part == 1 {
                world.put(&name, &bytes[..end]);
            } else {
                world.append(&name, &bytes[known..end]);
            }
        }
        world.refresh(&mut growing);
    }
    let mut fresh = world.open("fresh.sqlite");
    world.refresh(&mut fresh);
    assert_same(&growing, &fresh);
    // Usage is the same as without a catalog.
    assert_eq!(world.ledger(&fresh), entries(&Ledger::of_homes(&world.homes(), 2)));
}

#[test]
fn a_deleted_session_is_known_by_its_title_and_prompt() {
    let world = World::new();
    world.put("p/one.jsonl", (say("a", "apple pie") + &say("b", "secret sauce")).as_bytes());
    let mut catalog = world.open("c.sqlite");
    world.refresh(&mut catalog);
    fs::remove_file(world.path("p/one.jsonl")).unwrap();
    assert_eq!(world.refresh(&mut catalog).gone, 1);
    assert_eq!(world.refresh(&mut catalog).gone, 0);
    let words = contents(&catalog);
    assert!(words.iter().any(|row| row.contains("|apple|")));
    assert!(!words.iter().any(|row| row.contains("sauce")));
    assert_eq!(catalog.status().unwrap().deleted, 1);
    // It is there again.
    world.put("p/one.jsonl", say("a", "apple pie").as_bytes());
    world.refresh(&mut catalog);
    let mut fresh = world.open("fresh.sqlite");
    world.refresh(&mut fresh);
    assert_same(&catalog, &fresh);
}

/// A folder that was moved, and a file of which something is missing at its new place.
#[test]
fn what_was_moved_is_known_only_where_it_is() {
    let world = World::new();
    for name in ["p/one.jsonl", "p/one/subagents/agent-1.jsonl", "p/two.jsonl"] {
        world.put(name, (say(name, "apple") + &answer(name, 5) + &answer("more", 5)).as_bytes());
    }
    let mut catalog = world.open("c.sqlite");
    world.refresh(&mut catalog);
    fs::rename(world.path("p"), world.path("q")).unwrap();
    assert_eq!(world.refresh(&mut catalog).gone, 3);
    let mut fresh = world.open("fresh.sqlite");
    world.refresh(&mut fresh);
    assert_same(&catalog, &fresh);
    fs::rename(world.path("q"), world.path("r")).unwrap();
    world.put("r/two.jsonl", answer("more", 5).as_bytes());
    // Before it is brought up to date, usage belongs to the new place, too.
    let ledger = catalog.current_ledger(&world.homes(), 1).unwrap();
    let places = ledger.entries.iter().filter(|entry| entry.message.id != "p/two.jsonl");
    let folders = places.map(|entry| ledger.source(entry).project.file_name().unwrap().to_owned());
    assert!(folders.eq(["r", "r", "r"].map(std::ffi::OsString::from)));
    world.refresh(&mut catalog);
    let known = catalog.sessions(&[world.folder.path().join("home")]).unwrap();
    let gone: Vec<&str> =
        known.iter().filter(|one| one.is_deleted).map(|one| one.id.as_str()).collect();
    assert_eq!((gone, known.len()), (vec!["two"], 3));
}

/// Where a disk is mounted at other times, there is an empty folder that nobody has changed.
#[test]
fn an_empty_folder_may_wait_for_a_disk() {
    let world = World::new();
    world.put("p/one.jsonl", say("a", "apple").as_bytes());
    world.put("q/two.jsonl", say("b", "banana").as_bytes());
    let mut catalog = world.open("c.sqlite");
    world.refresh(&mut catalog);
    fs::rename(world.path("p"), world.folder.path().join("disk")).unwrap();
    fs::create_dir(world.path("p")).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::open(world.path("p")).unwrap().set_modified(old).unwrap();
    fs::remove_file(world.path("q/two.jsonl")).unwrap();
    assert_eq!(world.refresh(&mut catalog).gone, 1);
    assert_eq!(catalog.status().unwrap().files, 1);
}

/// A reader that has begun before still sees what was removed, so that it cannot be overwritten.
#[test]
fn what_a_reader_still_sees_is_overwritten_later() {
    let world = World::new();
    world.put("p/one.jsonl", say("a", "pomegranate").as_bytes());
    world.put("p/two.jsonl", say("b", "banana").as_bytes());
    let mut catalog = world.open("c.sqlite");
    world.refresh(&mut catalog);
    let reader = Connection::open(world.folder.path().join("c.sqlite")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM file").unwrap();
    catalog.set_patience(Duration::ZERO).unwrap();
    let path = world.path("p/one.jsonl");
    catalog.forget_paths(&world.homes(), &[path.as_path()]).unwrap();
    fs::remove_file(path).unwrap();
    let has = |catalog: &Catalog| {
        let wal = fs::read(world.folder.path().join("c.sqlite-wal")).unwrap_or_default();
        let file = fs::read(catalog.path()).unwrap();
        [file, wal].iter().any(|bytes| String::from_utf8_lossy(bytes).contains("pomegranate"))
    };
    assert!(has(&catalog));
    reader.execute_batch("COMMIT").unwrap();
    world.refresh(&mut catalog);
    assert!(!has(&catalog));
}

#[test]
fn an_older_catalog_is_not_changed_by_looking() {
    let world = World::new();
    let path = world.folder.path().join("c.sqlite");
    assert!(Catalog::open_if_there(&path).unwrap().is_none());
    drop(Catalog::open(&path).unwrap());
    assert!(Catalog::open_if_there(&path).unwrap().is_some());
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 3").unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(Catalog::open_if_there(&path), Err(CatalogError::Older(_))));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn sessions_are_listed_without_their_files() {
    let world = World::new();
    world.put("p/one.jsonl", say("a", "hello").as_bytes());
    world.put("p/two.jsonl", [say("b", "bye"), say("c", "again")].concat().as_bytes());
    world.put("p/agent-x.jsonl", say("d", "a helper").as_bytes());
    let mut catalog = world.open("catalog");
    world.refresh(&mut catalog);
    let modified = fs::metadata(world.path("p/two.jsonl")).unwrap().modified().unwrap();
    fs::remove_file(world.path("p/one.jsonl")).unwrap();
    world.refresh(&mut catalog);
    let mut known = catalog.sessions(&[world.folder.path().join("home")]).unwrap();
    known.sort_by_key(|one| one.id.clone());
    let short = |one: &KnownSession| {
        let prompt = one.seen.prompt.clone().unwrap_or_default();
        format!("{} {} {} {prompt}", one.id, one.is_deleted, one.prompts)
    };
    let all: Vec<String> = known.iter().map(short).collect();
    assert_eq!(all, ["one true 1 hello", "two false 2 bye"]);
    assert_eq!((&known[1].path, known[1].modified), (&world.path("p/two.jsonl"), modified));
    assert_eq!(catalog.sessions(&["/elsewhere".into()]).unwrap().len(), 0);
}

#[cfg(unix)]
#[test]
fn what_cannot_be_reached_now_is_not_deleted() {
    let world = World::new();
    let elsewhere = world.folder.path().join("disk/p");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(elsewhere.join("one.jsonl"), say("a", "apple")).unwrap();
    world.put("q/two.jsonl", say("b", "banana").as_bytes());
    std::os::unix::fs::symlink(&elsewhere, world.path("p")).unwrap();
    let mut catalog = world.open("c.sqlite");
    assert_eq!(world.refresh(&mut catalog).read, 2);
    // The disk is not mounted.
    fs::rename(world.folder.path().join("disk"), world.folder.path().join("away")).unwrap();
    assert_eq!(world.refresh(&mut catalog).gone, 0);
    // The home is not there.
    fs::rename(world.folder.path().join("home"), world.folder.path().join("home2")).unwrap();
    assert_eq!(world.refresh(&mut catalog).gone, 0);
    assert_eq!(catalog.status().unwrap().files, 2);
}

/// A folder of sub-agents that cannot be read, and one that is a link to what is not there now.
#[cfg(unix)]
#[test]
fn what_a_folder_hides_is_not_deleted() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let world = World::new();
    for name in ["p/one.jsonl", "p/one/subagents/agent-1.jsonl", "p/two/subagents/agent-2.jsonl"] {
        world.put(name, say(name, "apple").as_bytes());
    }
    let mut catalog = world.open("c.sqlite");
    assert_eq!(world.refresh(&mut catalog).read, 3);
    fs::rename(world.path("p/two"), world.folder.path().join("away")).unwrap();
    symlink("/nowhere/two", world.path("p/two")).unwrap();
    let folder = world.path("p/one/subagents");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o0)).unwrap();
    let done = world.refresh(&mut catalog);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(done.gone, 0);
    // Really gone.
    fs::remove_file(world.path("p/two")).unwrap();
    fs::remove_dir_all(world.path("p/one")).unwrap();
    assert_eq!(world.refresh(&mut catalog).gone, 2);
}

/// Hides the word `sesame`.
#[derive(Debug)]
struct Sesame;

impl Custom for Sesame {
    fn name(&self) -> &'static str {
        "word"
    }

    fn find(&self, text: &str) -> Vec<std::ops::Range<usize>> {
        text.match_indices("sesame").map(|(at, found)| at..at + found.len()).collect()
    }
}

#[test]
fn a_new_rule_removes_what_it_hides() {
    let mut world = World::new();
    for name in ["p/kept.jsonl", "p/gone.jsonl"] {
        let call = "{\"type\":\"assistant\",\"uuid\":\"b\",\"message\":{\"role\":\"assistant\",\
                    \"content\":[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"Read\",\"input\":\
                    {\"file_path\":\"/w/sesame.txt\"}}]}}\n";
        world.put(name, (say(name, "open sesame please") + call).as_bytes());
    }
    let mut catalog = world.open("c.sqlite");
    world.refresh(&mut catalog);
    fs::remove_file(world.path("p/gone.jsonl")).unwrap();
    world.refresh(&mut catalog);
    let has = |catalog: &Catalog| contents(catalog).iter().any(|row| row.contains("sesame"));
    assert!(has(&catalog));
    world.redactor = Redactor::new(vec![Box::new(Sesame)], Vec::new());
    assert_eq!(world.refresh(&mut catalog).read, 1);
    assert!(!has(&catalog) && contents(&catalog).iter().any(|row| row.contains("please")));
    assert_eq!(world.refresh(&mut catalog).read, 0);
    drop(catalog);
    for end in ["", "-wal"] {
        let bytes = fs::read(world.folder.path().join(format!("c.sqlite{end}")));
        assert!(!String::from_utf8_lossy(&bytes.unwrap_or_default()).contains("sesame"));
    }
}

#[test]
fn no_secret_is_in_the_catalog() {
    let world = World::new();
    let key = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    // Also where a prompt is cut, in a member that has a name, and in the name of a file.
    let long = format!("my token is {}{key} keep it", "x ".repeat(485));
    let input = format!("{{\"password\":\"Tr0ub4dor3xyz99\",\"file_path\":\"/w/{key}\"}}");
    let call = format!(
        "{{\"type\":\"assistant\",\"uuid\":\"b\",\"message\":{{\"role\":\"assistant\",\"content\":[\
         {{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"Write\",\"input\":{input}}}]}}}}\n"
    );
    world.put("p/one.jsonl", (say("a", &long) + &call).as_bytes());
    let mut catalog = world.open("c.sqlite");
    world.refresh(&mut catalog);
    assert!(contents(&catalog).iter().any(|row| row.contains("token")));
    drop(catalog);
    for end in ["", "-wal"] {
        let bytes =
            fs::read(world.folder.path().join(format!("c.sqlite{end}"))).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        assert!(!text.contains(&key[4..12].to_lowercase()));
        assert!(!text.contains("tr0ub4dor3xyz99"));
    }
}

#[test]
fn files_that_are_no_catalog_are_refused() {
    let world = World::new();
    let path = world.folder.path().join("c.sqlite");
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE theirs (x); PRAGMA user_version = 1;").unwrap();
    drop(other);
    assert!(matches!(Catalog::open(&path), Err(CatalogError::Foreign(_))));
    fs::write(&path, b"not a database at all, but long enough to be taken for one").unwrap();
    // It is somebody's file, and stays.
    assert!(!Catalog::open(&path).unwrap_err().is_damage());
    assert_eq!(Catalog::replace(&path).unwrap(), Replaced::default());
    assert!(fs::read(&path).unwrap().starts_with(b"not a database"));
    fs::remove_file(&path).unwrap();
    let catalog = Catalog::open(&path).unwrap();
    catalog.connection.execute_batch("PRAGMA user_version = 99;").unwrap();
    drop(catalog);
    assert!(matches!(Catalog::open(&path), Err(CatalogError::Newer(_))));
    assert!(matches!(Catalog::open(world.folder.path()), Err(CatalogError::Io { .. })));
}

#[cfg(unix)]
#[test]
fn only_the_user_can_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.put("p/one.jsonl", say("a", "apple").as_bytes());
    let path = world.folder.path().join("cache/quipu/c.sqlite");
    let mut catalog = Catalog::open(&path).unwrap();
    world.refresh(&mut catalog);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for entry in fs::read_dir(path.parent().unwrap()).unwrap().flatten() {
        assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
    }
    // A copy that others can read.
    drop(catalog);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    drop(Catalog::open_if_there(&path).unwrap());
    assert_eq!(mode(&path), 0o644, "looking changes nothing");
    drop(Catalog::open(&path).unwrap());
    assert_eq!(mode(&path), 0o600);
}

/// A process that closes a file loses its locks on it, also those of an open database: then another
/// process removes the log that is still written to.
#[cfg(target_os = "linux")]
#[test]
fn a_second_look_leaves_the_locks_of_the_first() {
    use std::os::unix::fs::MetadataExt;
    let world = World::new();
    world.put("p/one.jsonl", say("a", "apple").as_bytes());
    let mut first = world.open("c.sqlite");
    world.refresh(&mut first);
    // What its file begins with is in the log until now.
    first.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let path = world.folder.path().join("c.sqlite");
    let inode = format!(":{} ", fs::metadata(&path).unwrap().ino());
    let locks = || {
        let all = fs::read_to_string("/proc/locks").unwrap();
        let process = format!(" {} ", std::process::id());
        all.lines().filter(|line| line.contains(&inode) && line.contains(&process)).count()
    };
    assert_eq!(locks(), 1);
    let second = world.open("c.sqlite");
    assert_eq!(second.status().unwrap().files, 1);
    drop(second);
    drop(Catalog::open_if_there(&path).unwrap());
    assert!(schema::is_ours(&path) && !schema::is_older(&path));
    assert_eq!(locks(), 1);
}

/// A catalog with a session that is gone, closed.
fn with_a_gone_session(world: &World) -> PathBuf {
    world.put("p/one.jsonl", say("a", "apple").as_bytes());
    world.put("p/gone.jsonl", (say("b", "banana split") + &answer("m1", 5)).as_bytes());
    let path = world.folder.path().join("c.sqlite");
    let mut catalog = Catalog::open(&path).unwrap();
    world.refresh(&mut catalog);
    fs::remove_file(world.path("p/gone.jsonl")).unwrap();
    world.refresh(&mut catalog);
    let homes = [world.folder.path().join("home")];
    catalog.saw_limit(&homes[0], Time(9), 1.0, Time(8)).unwrap();
    catalog.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    path
}

/// What only the old catalog knew.
fn assert_known(world: &World, catalog: &Catalog) {
    let homes = [world.folder.path().join("home")];
    let sessions = catalog.sessions(&homes).unwrap();
    let gone = sessions.iter().find(|one| one.id == "gone").unwrap();
    assert_eq!((gone.is_deleted, gone.seen.prompt.as_deref()), (true, Some("banana split")));
    assert_eq!(world.ledger(catalog).len(), 1);
    assert_eq!(catalog.limits_seen(&homes).unwrap(), [Time(9)]);
    assert!(contents(catalog).iter().any(|row| row.contains("|banana|")));
}

#[test]
fn a_damaged_catalog_is_replaced() {
    let world = World::new();
    let path = with_a_gone_session(&world);
    let mut bytes = fs::read(&path).unwrap();
    bytes[100..4_096].fill(7);
    fs::write(&path, bytes).unwrap();
    let damage = |error: CatalogError| error.is_damage();
    assert!(Catalog::open(&path).and_then(|catalog| catalog.status()).is_err_and(damage));
    // Nothing of this one can be read: it stays.
    let old = world.folder.path().join("c.sqlite.damaged");
    let done = Catalog::replace(&path).unwrap();
    assert_eq!(done, Replaced { kept: 0, old: Some(old.clone()) });
    let mut catalog = Catalog::open(&path).unwrap();
    assert_eq!(world.refresh(&mut catalog).read, 1);
    // One that is fit stays.
    Catalog::replace(&path).unwrap();
    assert_eq!(Catalog::open(&path).unwrap().status().unwrap().files, 1);
    // What is forgotten is not in old catalogs, either.
    let homes = [world.folder.path().join("home")];
    let one = catalog.sessions(&homes).unwrap().remove(0);
    catalog.forget(&homes, &one).unwrap();
    assert!(!old.exists());
}

#[test]
fn what_only_an_old_catalog_knows_is_kept() {
    let world = World::new();
    let path = with_a_gone_session(&world);
    let old = world.folder.path().join("c.sqlite.damaged");
    let db = Connection::open(&path).unwrap();
    db.execute_batch("INSERT INTO messages VALUES (999, 1, x'00'); PRAGMA user_version = 99")
        .unwrap();
    drop(db);
    assert!(matches!(Catalog::open(&path), Err(CatalogError::Newer(_))));
    assert_eq!(Catalog::replace(&path).unwrap(), Replaced { kept: 1, old: None });
    assert!(!world.folder.path().join("c.sqlite.newer").exists());
    let mut catalog = Catalog::open(&path).unwrap();
    assert_known(&world, &catalog);
    assert_eq!(world.refresh(&mut catalog).read, 1);
    assert_known(&world, &catalog);
    // A list of messages that cannot be read is damage, though the database is sound.
    let change =
        "UPDATE messages SET list = x'05' WHERE file IN (SELECT number FROM file WHERE is_deleted)";
    catalog.connection.execute_batch(change).unwrap();
    drop(catalog);
    assert_eq!(Catalog::replace(&path).unwrap(), Replaced { kept: 0, old: Some(old) });
}

/// Long files are read in pieces.
#[test]
fn long_files() {
    let world = World::new();
    let words = |at: usize| -> String {
        let words: Vec<String> =
            (0..400).map(|word| format!("w{}x{}", at, word * 7 + at)).collect();
        words.join(" ")
    };
    let lines: String = (0..2_500).map(|at| say(&format!("u{at}"), &words(at))).collect();
    assert!(lines.len() > 9 << 20);
    world.put("p/long.jsonl", lines.as_bytes());
    let mut catalog = world.open("c.sqlite");
    assert_eq!(world.refresh(&mut catalog).bytes, lines.len() as u64);
    let found: Vec<i64> = catalog
        .connection
        .prepare("SELECT records FROM file UNION ALL SELECT read_to FROM file UNION ALL SELECT lines FROM file")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(found, [2_500, i64::try_from(lines.len()).unwrap(), 2_500]);
    for at in [0, 1_249, 2_499] {
        let rows: Vec<i64> = catalog
            .connection
            .prepare("SELECT rowid % 1048576 FROM text WHERE text MATCH ?")
            .unwrap()
            .query_map([format!("w{at}x{at}")], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows, [at]);
    }
}

#[test]
fn a_slash_at_the_end_of_a_home_changes_nothing() {
    let world = World::new();
    world.put("p/one.jsonl", say("a", "apple").as_bytes());
    let mut catalog = world.open("c.sqlite");
    assert_eq!(world.refresh(&mut catalog).read, 1);
    let homes = [Home { root: world.folder.path().join("home/") }];
    let work = Work { homes: &homes, redactor: &world.redactor, threads: 1 };
    assert_eq!(catalog.refresh(&work, |_, _| {}).unwrap().same, 1);
    assert_eq!(root_of(&homes[0]), world.folder.path().join("home"));
}

#[test]
fn a_catalog_of_an_older_version_is_completed_and_keeps_deleted_sessions() {
    let world = World::new();
    world.put("p/one.jsonl", say("a", "apple").as_bytes());
    let path = world.folder.path().join("c.sqlite");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(schema::TABLES).unwrap();
    let home = world.folder.path().join("home");
    old.execute(
        "INSERT INTO file (home, project, path, session, is_agent, size, modified, inode, read_to, \
         lines, tail, is_deleted, title) VALUES (?, 'p', 'gone', 'gone', 0, 9, 9, 9, 9, 1, x'', 1, 'old')",
        [home.to_string_lossy()],
    )
    .unwrap();
    old.execute_batch(
        "INSERT INTO message VALUES (1, 'm1', 'opus', 1, 2, 3, 4, 5, 6, 7, 1, 'standard', NULL, \
         'Bash', 2, 9, 3, 'gone', 1)",
    )
    .unwrap();
    let marks = format!("PRAGMA application_id = {}; PRAGMA user_version = 1", schema::APPLICATION);
    old.execute_batch(&marks).unwrap();
    drop(old);
    let mut catalog = Catalog::open(&path).unwrap();
    assert_eq!(world.refresh(&mut catalog).read, 1);
    assert_eq!(catalog.status().unwrap().deleted, 1);
    // Read all again: the deleted one still stays.
    catalog.forget_contents().unwrap();
    assert_eq!(world.refresh(&mut catalog).read, 1);
    let ledger = catalog.ledger(std::slice::from_ref(&home)).unwrap();
    let kept: Vec<&MessageUsage> = ledger.entries.iter().map(|entry| &entry.message).collect();
    let wanted = MessageUsage {
        id: "m1".to_owned(),
        model: Some("opus".into()),
        usage: Usage {
            input: 1,
            output: 2,
            cache_5m: 3,
            cache_1h: 4,
            cache_read: 5,
            searches: 6,
            fetches: 7,
            at_least: false,
        },
        tier: Some("standard".into()),
        speed: None,
        tool: Some("Bash".into()),
        records: 2,
        time: Some(Time(9)),
        line: 3,
        session: Some("gone".into()),
        is_sidechain: true,
    };
    assert_eq!(kept, [&wanted]);
    let found = "SELECT rowid / 1048576 FROM text WHERE text MATCH 'old'";
    assert_eq!(catalog.connection.query_row(found, [], |row| row.get(0)), Ok(1_i64));
    let sessions = catalog.sessions(&[home]).unwrap();
    let gone = sessions.iter().find(|session| session.id == "gone").unwrap();
    assert_eq!((gone.seen.title.as_deref(), gone.is_deleted), (Some("old"), true));
    let mut fresh = world.open("fresh.sqlite");
    world.refresh(&mut fresh);
    catalog.connection.execute_batch("DELETE FROM file WHERE is_deleted").unwrap();
    assert_same(&catalog, &fresh);
}

/// The database does not notice a flipped bit in a value; figures have a hash, those of version 8
/// get one.
#[test]
fn figures_have_a_hash() {
    let world = World::new();
    world.put("p/one.jsonl", (say("a", "apple") + &answer("m1", 5)).as_bytes());
    world.put("p/two.jsonl", (say("b", "banana") + &answer("m2", 7)).as_bytes());
    let mut catalog = world.open("c.sqlite");
    world.refresh(&mut catalog);
    fs::remove_file(world.path("p/one.jsonl")).unwrap();
    world.refresh(&mut catalog);
    let wanted = world.ledger(&catalog);
    assert_eq!(wanted.len(), 2);
    let without = "UPDATE messages SET list = substr(list, 1, length(list) - 8);";
    catalog.connection.execute_batch(without).unwrap();
    catalog.connection.execute_batch("PRAGMA user_version = 8").unwrap();
    drop(catalog);
    let catalog = world.open("c.sqlite");
    assert_eq!(world.ledger(&catalog), wanted);
    let flipped = "UPDATE messages SET list = CAST(substr(list, 1, 9) || x'01' || \
                   substr(list, 11) AS BLOB)";
    catalog.connection.execute_batch(flipped).unwrap();
    assert!(catalog.ledger(&[world.folder.path().join("home")]).unwrap_err().is_damage());
}

#[test]
fn a_wrong_catalog_is_noticed() {
    let world = World::new();
    world.put("p/one.jsonl", (say("a", "apple") + &answer("m1", 5)).as_bytes());
    world.put("p/two.jsonl", say("b", "banana").as_bytes());
    let mut catalog = world.open("c.sqlite");
    world.refresh(&mut catalog);
    let homes = world.homes();
    let verify = |catalog: &mut Catalog| {
        let work = Work { homes: &homes, redactor: &world.redactor, threads: 2 };
        let wrong = catalog.verify(&work, |_, _| {}).unwrap();
        let name = |line: &String| line.rsplit('/').next().unwrap().to_owned();
        wrong.iter().map(name).collect::<Vec<_>>()
    };
    // Of a process that was ended meanwhile.
    fs::write(world.folder.path().join("c.sqlite.verify-4000000000-wal"), "words").unwrap();
    assert!(verify(&mut catalog).is_empty());
    for (change, wanted) in [
        ("UPDATE messages SET list = x'00'", "one.jsonl: messages of the API"),
        (
            "UPDATE file SET title = 'x' WHERE session = 'two'",
            "two.jsonl: what is known of the file",
        ),
        (
            "INSERT INTO touched SELECT number, 'a', 'b', 1 FROM file WHERE session = 'two'",
            "two.jsonl: files that were touched",
        ),
        ("DELETE FROM text WHERE text MATCH 'banana'", "two.jsonl: words"),
        (
            "INSERT INTO text (rowid, words) SELECT number * 1048576 + 9, 'cherry' FROM file \
          WHERE session = 'one'",
            "one.jsonl: words",
        ),
    ] {
        catalog.connection.execute_batch(change).unwrap();
        assert_eq!(verify(&mut catalog), [wanted], "{change}");
        catalog.forget_contents().unwrap();
        world.refresh(&mut catalog);
    }
    assert!(verify(&mut catalog).is_empty());
    let left: Vec<_> = fs::read_dir(world.folder.path()).unwrap().flatten().collect();
    assert!(!left.iter().any(|file| file.file_name().to_string_lossy().contains("verify")));
}

fn answer(id: &str, output: u32) -> String {
    format!(
        "{{\"type\":\"assistant\",\"uuid\":\"{id}\",\"timestamp\":\"2026-03-01T10:00:01.000Z\",\
         \"message\":{{\"id\":\"{id}\",\"role\":\"assistant\",\"model\":\"claude-opus-4-5\",\
         \"content\":[],\"usage\":{{\"input_tokens\":1,\"output_tokens\":{output}}}}}}}\n"
    )
}

#[test]
fn a_forgotten_session_leaves_nothing() {
    let world = World::new();
    world.put("p/one.jsonl", (say("a", "pomegranate") + &answer("m1", 5)).as_bytes());
    world.put("p/one/subagents/agent-1.jsonl", say("c", "clementine").as_bytes());
    world.put("p/two.jsonl", say("b", "banana").as_bytes());
    let mut catalog = world.open("c.sqlite");
    world.refresh(&mut catalog);
    let homes = [world.folder.path().join("home")];
    fs::remove_file(world.path("p/one.jsonl")).unwrap();
    fs::remove_dir_all(world.path("p/one")).unwrap();
    world.refresh(&mut catalog);
    let found = catalog.sessions(&homes).unwrap();
    let one = found.iter().find(|session| session.id == "one").unwrap();
    assert!(one.is_deleted);
    catalog.forget(&homes, one).unwrap();
    assert_eq!(catalog.sessions(&homes).unwrap().len(), 1);
    assert!(world.ledger(&catalog).is_empty());
    drop(catalog);
    for end in ["", "-wal"] {
        let bytes = fs::read(world.folder.path().join(format!("c.sqlite{end}")));
        let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        for word in ["pomegranate", "clementine", "agent-1", "m1"] {
            assert!(!text.contains(word), "{word} is still in c.sqlite{end}");
        }
    }
}

#[test]
fn usage_is_that_of_the_files_as_they_are_now() {
    let world = World::new();
    let files: Vec<PathBuf> = testkit::own_files().into_iter().map(|file| file.path).collect();
    for (at, path) in files.iter().enumerate().filter(|(at, _)| at % 3 == 0) {
        world.put(&format!("p/{at}.jsonl"), &fs::read(path).unwrap());
    }
    let mut catalog = world.open("c.sqlite");
    world.refresh(&mut catalog);
    let now = |catalog: &Catalog| entries(&catalog.current_ledger(&world.homes(), 2).unwrap());
    let plain = || entries(&Ledger::of_homes(&world.homes(), 2));
    assert_eq!(now(&catalog), plain());
    assert!(plain().len() > 50);
    // New, grown and replaced files are read; the catalog stays as it is.
    world.put("p/new.jsonl", answer("new", 5).as_bytes());
    world.append("p/0.jsonl", answer("more", 6).as_bytes());
    world.put("p/3.jsonl", answer("other", 7).as_bytes());
    let before = contents(&catalog);
    assert_eq!(now(&catalog), plain());
    assert_eq!(contents(&catalog), before);
    // What is gone still counts.
    fs::remove_file(world.path("p/6.jsonl")).unwrap();
    fs::remove_file(world.path("p/9.jsonl")).unwrap();
    let count = now(&catalog).len();
    world.refresh(&mut catalog);
    assert_eq!(now(&catalog).len(), count);
    // Of one session and what is recent: only the session's new lines are read.
    let homes = [world.folder.path().join("home")];
    world.append("p/0.jsonl", answer("last", 8).as_bytes());
    let since = |after, most| {
        let path = world.path("p/0.jsonl");
        catalog.recent_ledger(&homes, &path, Time(after), most).unwrap()
    };
    let recent = |most| since(i64::MAX, most);
    // A file that was copied today, with what was said in March, is not of today.
    let has_new = |after| {
        let ledger = since(after, 1 << 20).unwrap();
        ledger.entries.iter().any(|entry| entry.message.id == "new")
    };
    let march = "2026-03-01T10:00:01Z".parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert!(has_new(march) && !has_new(march + 1));
    let of_session: Vec<String> = {
        let ledger = Ledger::of_homes(&world.homes(), 2);
        let is_ours = |entry: &&LedgerEntry| {
            let path = world.path("p/0.jsonl");
            ledger.source(entry).path == path
                || entry.copies.iter().any(|at| ledger.sources[*at].path == path)
        };
        ledger.entries.iter().filter(is_ours).map(|entry| entry.message.id.clone()).collect()
    };
    let found = recent(answer("last", 8).len() as u64).unwrap();
    let mut ids: Vec<String> = found.entries.iter().map(|entry| entry.message.id.clone()).collect();
    let mut wanted = of_session;
    ids.sort();
    wanted.sort();
    assert_eq!(ids, wanted);
    assert!(recent(20).is_none());
}
