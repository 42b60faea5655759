//! Packs that are whole, and packs that are not: what was packed comes out again, and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use testkit::Rng;
use transcript::client::history::Rules;
use transcript::conversation::place::Session;
use transcript::format::secret::Redactor;

use super::manifest::{PackedFile, place};
use super::{Became, Pack, PackPage, Packing, Unpacked, Unpacking, pack};
use crate::store::Bounds;
use crate::{Error, Mode, Workshop};

const ID: &str = "c5b9db19-a9fa-42b7-9f6b-0b8b73532119";
const NEW: &str = "0e000000-1111-4222-8333-444444444444";
const CWD: &str = "/home/dev/demo";

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let memory = Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Scene { folder: folder.unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::File::create(&path).unwrap().write_all(bytes.as_ref()).unwrap();
        path
    }

    /// A home with a session that has everything.
    fn with_session() -> Scene {
        let scene = Scene::new();
        let project = "a/projects/-home-dev-demo";
        let line = |uuid: &str, parent: &str, kind: &str, text: &str| {
            format!(
                concat!(
                    r#"{{"type":"{2}","uuid":"{0}","parentUuid":{1},"sessionId":"{4}","cwd":"{5}","#,
                    r#""timestamp":"2026-01-02T03:04:05.000Z","version":"2.1.45","isSidechain":false,"userType":"external","#,
                    r#""message":{{"role":"{2}","content":"{3}"}}}}"#,
                ),
                uuid, parent, kind, text, ID, CWD
            ) + "\n"
        };
        let session = line(
            "a0000000-0000-4000-8000-000000000001",
            "null",
            "user",
            "look at /home/dev/demo/x",
        ) + &line(
            "a0000000-0000-4000-8000-000000000002",
            "\"a0000000-0000-4000-8000-000000000001\"",
            "assistant",
            "done, with ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2",
        );
        scene.put(&format!("{project}/{ID}.jsonl"), &session);
        let agent = line("b0000000-0000-4000-8000-000000000001", "null", "user", "help")
            .replace("false", "true");
        scene.put(&format!("{project}/{ID}/subagents/agent-a1234567.jsonl"), agent);
        scene.put(
            &format!("{project}/{ID}/subagents/agent-a1234567.meta.json"),
            "{\"agentType\":\"x\"}",
        );
        scene.put(&format!("{project}/{ID}/tool-results/toolu_1.txt"), "long\n");
        scene.put(&format!("{project}/{ID}/tool-results/image.png"), [0x89, 0xff, 0, 1, 2]);
        scene.put(&format!("{project}/{ID}/archived.json"), "{\"archived\":false}");
        scene.put(&format!("a/file-history/{ID}/0123456789abcdef@v1"), "old text");
        scene.put(&format!("a/todos/{ID}-agent-{ID}.json"), "[]");
        // These are not carried.
        scene.put(&format!("{project}/{ID}/settings.json"), "{\"hooks\":{}}");
        scene.put(&format!("{project}/{ID}/run.sh"), "echo");
        scene.put(&format!("a/session-env/{ID}/hook.sh"), "export A=1");
        scene
    }

    fn pack(&self, redactor: Option<&Arc<Redactor>>) -> (PathBuf, super::Packed) {
        let session =
            Session::at(&self.path(&format!("a/projects/-home-dev-demo/{ID}.jsonl"))).unwrap();
        let packing =
            Packing { sessions: &[session], redactor, made_by: "test", page: PackPage::OfPacks };
        let path = self.path("pack");
        let packed = pack(&packing, &mut fs::File::create(&path).unwrap()).unwrap();
        (path, packed)
    }

    fn unpack(&self, path: &Path, home: &str, folders: &[(&str, &str)]) -> Result<Unpacked, Error> {
        let pack = Pack::open(path)?;
        let folders: Vec<(String, String)> =
            folders.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
        let home = self.path(home);
        let unpacking =
            Unpacking { home: &home, folders: &folders, mode: Mode::Write, new_ids: &[NEW.into()] };
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let mut workshop = Workshop::new(Some(self.path("state")), Bounds::default(), now);
        workshop.unpack(&pack, &unpacking, Rules::newest(), &mut |_| {})
    }

    fn files(&self, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let (root, mut found) = (self.path(name), BTreeMap::new());
        let mut open = vec![root.clone()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    open.push(entry.path());
                } else {
                    let path = entry.path().strip_prefix(&root).unwrap().to_owned();
                    found.insert(path, fs::read(entry.path()).unwrap());
                }
            }
        }
        found
    }
}

/// What a pack carries of a home.
fn carried(mut files: BTreeMap<PathBuf, Vec<u8>>) -> BTreeMap<PathBuf, Vec<u8>> {
    files.retain(|path, _| {
        let name = path.to_string_lossy();
        !["settings.json", "run.sh", "hook.sh"].iter().any(|end| name.ends_with(end))
    });
    files
}

#[test]
fn what_is_packed_comes_out_byte_for_byte() {
    let scene = Scene::with_session();
    let (path, packed) = scene.pack(None);
    assert_eq!(packed.bytes, fs::metadata(&path).unwrap().len());
    assert_eq!(packed.left.len(), 3, "{:?}", packed.left);
    assert_eq!(packed.manifest.sessions[0].members.len(), 8);
    let done = scene.unpack(&path, "b", &[]).unwrap();
    assert_eq!(done.sessions[0].became, Became::New);
    assert_eq!(scene.files("b"), carried(scene.files("a")));
    // Again: it is here already.
    let again = scene.unpack(&path, "b", &[]).unwrap();
    assert_eq!((again.sessions[0].became, again.entry), (Became::Same, None));
    // And back: only the paths differ.
    let done = scene.unpack(&path, "c", &[(CWD, "/srv/new place")]).unwrap();
    assert_eq!(done.sessions[0].cwd.as_deref(), Some("/srv/new place"));
    let moved: BTreeMap<PathBuf, Vec<u8>> = carried(scene.files("a"))
        .into_iter()
        .map(|(path, bytes)| {
            let path = path.to_string_lossy().replace("-home-dev-demo", "-srv-new-place");
            let text = String::from_utf8(bytes.clone())
                .map(|text| text.replace(CWD, "/srv/new place").into_bytes());
            (PathBuf::from(path), text.unwrap_or(bytes))
        })
        .collect();
    assert_eq!(scene.files("c"), moved);
    // Nothing is left of the work.
    assert_eq!(fs::read_dir(scene.path("state/unpack")).unwrap().count(), 0);
}

/// A directory may have several names, and then the folder of its project has another one here.
#[test]
fn a_session_that_is_in_another_projects_folder_is_here_already() {
    let scene = Scene::with_session();
    let (path, _) = scene.pack(None);
    scene.unpack(&path, "b", &[]).unwrap();
    let other = scene.path("b/projects/-private-home-dev-demo");
    fs::rename(scene.path("b/projects/-home-dev-demo"), &other).unwrap();
    let before = scene.files("b");
    let done = scene.unpack(&path, "b", &[]).unwrap();
    let one = &done.sessions[0];
    assert_eq!((one.became, one.id.as_str()), (Became::Same, ID));
    assert_eq!((&one.path, done.entry), (&other.join(format!("{ID}.jsonl")), None));
    assert!(scene.files("b") == before);
    // With another content, it is another session.
    fs::write(other.join(format!("{ID}/tool-results/toolu_1.txt")), "other").unwrap();
    let done = scene.unpack(&path, "b", &[]).unwrap();
    assert_eq!((done.sessions[0].became, done.sessions[0].id.as_str()), (Became::NewId, NEW));
}

/// A link in a home may be anyone's; only the folders that all sessions share may be links.
#[cfg(unix)]
#[test]
fn nothing_is_put_behind_a_link() {
    let scene = Scene::with_session();
    let (path, _) = scene.pack(None);
    fs::create_dir(scene.path("elsewhere")).unwrap();
    for link in [format!("projects/-home-dev-demo/{ID}"), format!("file-history/{ID}")] {
        let link = scene.put(&format!("b/{link}/x"), "").parent().unwrap().to_owned();
        fs::remove_dir_all(&link).unwrap();
        std::os::unix::fs::symlink(scene.path("elsewhere"), &link).unwrap();
        let error = scene.unpack(&path, "b", &[]).unwrap_err();
        assert!(matches!(&error, Error::InUse { path, .. } if *path == link), "{error:?}");
        assert_eq!(scene.files("elsewhere"), BTreeMap::new());
        fs::remove_file(&link).unwrap();
    }
    assert_eq!(scene.files("b"), BTreeMap::new());
    // The user keeps them on another disk.
    std::os::unix::fs::symlink(scene.path("elsewhere"), scene.path("b/todos")).unwrap();
    scene.unpack(&path, "b", &[]).unwrap();
    assert_eq!(scene.files("elsewhere").len(), 1);
}

/// Only one of them could be unpacked everywhere, and a pack that has both is refused.
#[cfg(target_os = "linux")]
#[test]
fn of_names_that_are_one_on_some_system_the_second_stays() {
    let scene = Scene::with_session();
    let folder = format!("a/projects/-home-dev-demo/{ID}/tool-results");
    scene.put(&format!("{folder}/TOOLU_1.txt"), "other");
    let (path, packed) = scene.pack(None);
    let why = "another file in the pack has that name";
    let left = packed.left.iter().filter(|(_, reason)| *reason == why);
    let left: Vec<&PathBuf> = left.map(|(path, _)| path).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].starts_with(scene.path(&folder)), "{left:?}");
    scene.unpack(&path, "b", &[]).unwrap();
    assert_eq!(scene.files("b").len(), 8);
}

#[test]
fn another_session_of_that_id_stays_and_this_one_gets_a_new_id() {
    let scene = Scene::with_session();
    let (path, _) = scene.pack(None);
    scene.unpack(&path, "b", &[]).unwrap();
    let session = scene.path(&format!("b/projects/-home-dev-demo/{ID}.jsonl"));
    let mut more = fs::OpenOptions::new().append(true).open(&session).unwrap();
    more.write_all(b"{\"type\":\"mode\",\"mode\":\"normal\"}\n").unwrap();
    let before = scene.files("b");
    let done = scene.unpack(&path, "b", &[]).unwrap();
    assert_eq!((done.sessions[0].became, done.sessions[0].id.as_str()), (Became::NewId, NEW));
    let mut after = scene.files("b");
    after.retain(|path, _| !before.contains_key(path));
    assert_eq!(after.len(), 8, "{:?}", after.keys());
    assert!(after.keys().all(|path| path.to_string_lossy().contains(NEW)));
    for bytes in after.values() {
        assert!(!String::from_utf8_lossy(bytes).contains(&format!("\"sessionId\":\"{ID}\"")));
    }
    for (path, bytes) in before {
        assert_eq!(scene.files("b").get(&path), Some(&bytes), "{}", path.display());
    }
}

#[test]
fn secrets_are_not_packed() {
    let scene = Scene::with_session();
    let key = "ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2";
    let project = "a/projects/-home-dev-demo";
    scene.put(&format!("{project}/{ID}/tool-results/toolu_1.txt"), format!("export T={key}\n"));
    scene.put(&format!("a/file-history/{ID}/0123456789abcdef@v1"), format!("a\nT={key}\n"));
    scene.put(
        &format!("{project}/{ID}/tool-results/image.png"),
        [b"\xff\0 ".as_slice(), key.as_bytes()].concat(),
    );
    scene.put(
        &format!("{project}/{ID}/subagents/agent-a1234567.meta.json"),
        format!("{{\"d\":\"{key}\"}}"),
    );
    scene.put(&format!("{project}/{ID}/session-memory/deep/summary.md"), key);
    scene.put(&format!("{project}/{ID}/tool-results/{key}.txt"), "named");
    scene.put(&format!("{project}/{ID}/{key}.sh"), "not carried");
    let session = scene.path(&format!("{project}/{ID}.jsonl"));
    let mut more = fs::OpenOptions::new().append(true).open(&session).unwrap();
    let thinking = format!(
        r#"{{"type":"assistant","uuid":"t","message":{{"role":"assistant","content":[{{"type":"thinking","thinking":"use {key}","signature":"c2ln"}},{{"type":"text","text":"ok"}}]}}}}"#
    );
    let request = format!(r#"{{"type":"api-request-blob","hash":"x","message":"{key}"}}"#);
    more.write_all(format!("{thinking}\n{request}\n").as_bytes()).unwrap();
    let redactor = Arc::new(Redactor::default());
    let (path, packed) = scene.pack(Some(&redactor));
    assert_eq!(packed.manifest.secrets.get("github-token"), Some(&10));
    assert!(packed.left.iter().all(|(path, _)| !path.to_string_lossy().contains(key)));
    scene.unpack(&path, "b", &[]).unwrap();
    let its = scene.path(&format!("b/projects/-home-dev-demo/{ID}"));
    for name in ["session-memory/deep/summary.md", "tool-results/[redacted-github-token-1].txt"] {
        assert!(its.join(name).is_file(), "{name}");
    }
    for (path, bytes) in scene.files("b") {
        assert!(!path.to_string_lossy().contains(key), "{}", path.display());
        assert!(memchr::memmem::find(&bytes, key.as_bytes()).is_none(), "{}", path.display());
    }
    let text =
        fs::read_to_string(scene.path(&format!("b/projects/-home-dev-demo/{ID}.jsonl"))).unwrap();
    assert!(text.contains(r#""content":[{"type":"text","text":"ok"}]"#), "{text}");
    assert!(!text.contains("api-request") && text.contains("[redacted:github-token:1]"));
    let image = scene.path(&format!("b/projects/-home-dev-demo/{ID}/tool-results/image.png"));
    assert_eq!(fs::read(image).unwrap(), b"\xff\0 [redacted:github-token:1]");
}

#[test]
fn names_that_lead_elsewhere_are_not_allowed() {
    let file = |name: &str, thing: &str| PackedFile {
        name: format!("sessions/{ID}/{name}"),
        thing: thing.to_owned(),
        size: 0,
        sha256: String::new(),
    };
    for (name, thing) in [
        ("files/tool-results/toolu_1.txt", "tool-result"),
        ("files/subagents/deep/agent-a.jsonl", "agent"),
        ("files/archived.json", "side-file"),
        ("beside/agent-a.jsonl", "agent"),
        ("file-history/0123@v1", "file-history"),
        (&format!("todos/{ID}-agent-x.json"), "todos"),
    ] {
        assert!(place(ID, &file(name, thing)).is_some(), "{name}");
    }
    for (name, thing) in [
        ("files/../x.txt", "tool-result"),
        ("files/tool-results/../../x", "tool-result"),
        ("files//x.json", "side-file"),
        ("files/./x.json", "side-file"),
        ("files/.claude/x.json", "side-file"),
        ("files/tool-results/.hidden", "tool-result"),
        ("files/tool-results/a\\b", "tool-result"),
        ("files/tool-results/c:d", "tool-result"),
        ("files/tool-results/NUL", "tool-result"),
        ("files/tool-results/com1.txt", "tool-result"),
        ("files/tool-results/a\0b", "tool-result"),
        ("files/tool-results/a\n", "tool-result"),
        ("files/tool-results/a.", "tool-result"),
        ("files/tool-results/a/../b", "tool-result"),
        ("files/settings.json", "side-file"),
        ("files/hooks.json", "side-file"),
        ("files/run.sh", "side-file"),
        ("files/x.json", "transcript"),
        ("files/subagents/x.jsonl", "agent"),
        ("beside/other.jsonl", "agent"),
        ("beside/agent-a.jsonl", "side-file"),
        ("beside/memory/agent-a.jsonl", "agent"),
        ("todos/other.json", "todos"),
        ("file-history/a/b", "file-history"),
        ("plans/x.md", "plan"),
        ("/etc/passwd", "side-file"),
        ("", "side-file"),
    ] {
        assert_eq!(place(ID, &file(name, thing)), None, "{name}");
    }
    let other = PackedFile { name: "sessions/other/files/x.json".into(), ..file("", "side-file") };
    assert_eq!(place(ID, &other), None);
}

#[test]
fn a_newer_format_is_refused() {
    let newer = br#"{"format":"quipu-pack","version":2,"what":"ever"}"#;
    let error = super::Manifest::parse(newer).unwrap_err();
    assert!(error.contains("newer"), "{error}");
    let other = br#"{"format":"zip","version":1}"#;
    assert!(super::Manifest::parse(other).is_err());
}

/// Whatever is done to a pack, nothing panics, and either all of it comes out as it was packed, or
/// nothing is written.
#[test]
fn damaged_packs_give_nothing_or_what_was_packed() {
    let scene = Scene::with_session();
    let (path, _) = scene.pack(None);
    let bytes = fs::read(&path).unwrap();
    scene.unpack(&path, "whole", &[]).unwrap();
    let whole = scene.files("whole");
    let mut rng = Rng::new(20);
    let limit = testkit_seconds();
    let begin = std::time::Instant::now();
    let (mut tried, mut refused) = (0, 0);
    loop {
        let mut damaged = bytes.clone();
        match rng.below(5) {
            0 => damaged.truncate(rng.below(bytes.len())),
            1 => {
                let (from, to) = (rng.below(bytes.len()), rng.below(bytes.len()));
                let len = rng.below(64).min(bytes.len() - from.max(to));
                damaged.copy_within(from..from + len, to);
            }
            2 => damaged.splice(rng.below(bytes.len()).., [rng.byte(), rng.byte()]).for_each(drop),
            _ => {
                // Mostly in the directory, which decides what happens.
                let back = if rng.below(2) == 0 { 1_600 } else { bytes.len() };
                for _ in 0..=rng.below(3) {
                    let at = bytes.len() - 1 - rng.below(back.min(bytes.len()));
                    damaged[at] = rng.byte();
                }
            }
        }
        let bad = scene.put("damaged", &damaged);
        let _ = fs::remove_dir_all(scene.path("out"));
        if scene.unpack(&bad, "out", &[]).is_ok() {
            assert_eq!(scene.files("out"), whole);
        } else {
            refused += 1;
            assert_eq!(scene.files("out"), BTreeMap::new());
        }
        tried += 1;
        let is_over = limit.map_or(tried >= 2_000, |limit| begin.elapsed() > limit);
        if is_over {
            break;
        }
    }
    println!("{tried} packs, {refused} refused");
    assert!(refused > tried / 3);
}

/// How long to fuzz, if that is set.
#[allow(clippy::disallowed_methods, reason = "tests are told by the environment")]
fn testkit_seconds() -> Option<Duration> {
    let seconds = std::env::var("QUIPU_FUZZ_SECONDS").ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// A member that gives more bytes than it declares is not written in full.
#[test]
fn a_bomb_is_refused_before_it_takes_space() {
    let scene = Scene::with_session();
    let project = "a/projects/-home-dev-demo";
    scene.put(&format!("{project}/{ID}/tool-results/toolu_1.txt"), vec![b'x'; 8 << 20]);
    let (path, packed) = scene.pack(None);
    assert!(packed.bytes < 1 << 20);
    // Declares less than there is, in the directory and in the manifest's place.
    let bytes = fs::read(&path).unwrap();
    let size = (8_u32 << 20).to_le_bytes();
    let places: Vec<usize> = memchr::memmem::find_iter(&bytes, &size).collect();
    let mut lying = bytes.clone();
    for at in &places {
        lying[*at..at + 4].copy_from_slice(&7_u32.to_le_bytes());
    }
    let bad = scene.put("lying", lying);
    assert!(scene.unpack(&bad, "out", &[]).is_err());
    assert_eq!(scene.files("out"), BTreeMap::new());
    // Declares far more than a pack of this size may have.
    let mut huge = bytes;
    for at in places {
        huge[at..at + 4].copy_from_slice(&u32::MAX.wrapping_sub(9).to_le_bytes());
    }
    let bad = scene.put("huge", huge);
    let error = scene.unpack(&bad, "out", &[]).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("too much space"), "{source}");
}

/// Long files are compressed in blocks, and are one stream for every program.
#[test]
fn many_blocks_are_one_stream() {
    let scene = Scene::with_session();
    let mut rng = Rng::new(7);
    let long: Vec<u8> =
        (0..3_000_000).map(|_| if rng.below(3) == 0 { rng.byte() } else { b'a' }).collect();
    let name = format!("a/projects/-home-dev-demo/{ID}/tool-results/toolu_1.txt");
    scene.put(&name, &long);
    let (path, _) = scene.pack(None);
    scene.unpack(&path, "b", &[]).unwrap();
    assert_eq!(fs::read(scene.path(&name.replacen('a', "b", 1))).unwrap(), long);
    // Nothing in it ends the element of the page, except the end of the page.
    let bytes = fs::read(&path).unwrap();
    let found: Vec<usize> = memchr::memmem::find_iter(&bytes, "</script").collect();
    assert_eq!(found.len(), 1);
    assert!(bytes.starts_with(b"<!doctype html>") && bytes.ends_with(b"</html>\n"));
}
