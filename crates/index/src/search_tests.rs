use std::collections::BTreeSet;
use std::fs;

use regex::Regex;
use serde_json::Value;
use transcript::conversation::place::Home;
use transcript::format::secret::Custom;

use super::*;
use crate::catalog::Work;

/// A home with all real sessions of the repository, and some in other scripts; its catalog.
struct World {
    folder: tempfile::TempDir,
    redactor: Arc<Redactor>,
    prices: Prices,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home/projects");
        for (at, file) in testkit::own_files().iter().enumerate() {
            let name = file.path.file_stem().unwrap().to_string_lossy();
            // Names occur several times; sub-agents become sessions.
            let name = name.trim_start_matches("agent-");
            put(
                &home.join(format!("p{}/{at}-{name}.jsonl", at % 3)),
                &fs::read(&file.path).unwrap(),
            );
        }
        for (at, text) in
            ["東京タワーの高さを調べて", "请把这个函数重命名为解析行", "한국어 문장을 검색합니다"]
                .iter()
                .enumerate()
        {
            let line = serde_json::json!({"type": "user", "uuid": "u", "message": {"role": "user", "content": text}});
            put(&home.join(format!("p0/dense-{at}.jsonl")), format!("{line}\n").as_bytes());
        }
        World { folder, redactor: Arc::default(), prices: Prices::default() }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn catalog(&self, name: &str) -> Catalog {
        let mut catalog = Catalog::open(&self.folder.path().join("cache").join(name)).unwrap();
        self.refresh(&mut catalog);
        catalog
    }

    fn refresh(&self, catalog: &mut Catalog) -> crate::catalog::Refreshed {
        let homes = [Home { root: self.root() }];
        let work = Work { homes: &homes, redactor: &self.redactor, threads: 2 };
        catalog.refresh(&work, |_, _| {}).unwrap()
    }

    fn find(&self, catalog: &mut Catalog, query: &str) -> Found {
        let homes = [self.root()];
        let wish = Wish {
            homes: &homes,
            projects: None,
            limit: usize::MAX,
            hits: 1,
            patience: Duration::from_secs(60),
            redactor: &self.redactor,
            prices: &self.prices,
            now: UNIX_EPOCH,
        };
        catalog.search(&Query::parse(query).unwrap(), &wish).unwrap()
    }

    fn found(&self, catalog: &mut Catalog, query: &str) -> BTreeSet<String> {
        self.find(catalog, query).sessions.into_iter().map(|session| session.id).collect()
    }
}

fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// The texts of each session, found in the simplest way.
fn plain_texts(root: &Path) -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    for file in testkit::files_under(&[root.to_owned()]) {
        let text = String::from_utf8_lossy(&fs::read(&file.path).unwrap()).into_owned();
        let mut found = Vec::new();
        let lines: Vec<_> = text.lines().map(serde_json::from_str::<Value>).collect();
        // Recovering records is tested elsewhere.
        if lines.iter().any(Result::is_err) {
            continue;
        }
        for record in lines.into_iter().flatten() {
            let content = &record["message"]["content"];
            match record["type"].as_str() {
                Some("user" | "assistant") if content.is_string() => {
                    found.extend(content.as_str().map(str::to_owned));
                }
                Some("user" | "assistant") => {
                    for block in content.as_array().into_iter().flatten() {
                        match block["type"].as_str() {
                            Some("text") => found.extend(block["text"].as_str().map(str::to_owned)),
                            Some("thinking") => {
                                found.extend(block["thinking"].as_str().map(str::to_owned));
                            }
                            Some("tool_use" | "server_tool_use") => {
                                strings(&block["input"], &mut found);
                            }
                            Some("tool_result") => match &block["content"] {
                                Value::String(text) => found.push(text.clone()),
                                other => {
                                    for inner in other.as_array().into_iter().flatten() {
                                        found.extend(inner["text"].as_str().map(str::to_owned));
                                    }
                                }
                            },
                            _ => {}
                        }
                    }
                }
                Some("attachment") => {
                    let prompt = &record["attachment"]["prompt"];
                    found.extend(prompt.as_str().map(str::to_owned));
                    let blocks = prompt.as_array().into_iter().flatten();
                    found.extend(
                        blocks.filter_map(|block| Some(block["text"].as_str()?.to_owned())),
                    );
                }
                Some("custom-title" | "ai-title" | "summary" | "tag") => {
                    let titles = ["customTitle", "aiTitle", "summary", "tag"];
                    let title = titles.iter().find_map(|name| record[name].as_str());
                    found.extend(title.map(str::to_owned));
                }
                _ => {}
            }
        }
        all.push((file.path.file_stem().unwrap().to_string_lossy().into_owned(), found));
    }
    all
}

fn strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|one| strings(one, found)),
        Value::Object(map) => map.values().for_each(|one| strings(one, found)),
        _ => {}
    }
}

#[test]
fn finds_what_a_plain_scan_finds() {
    let world = World::new();
    let mut catalog = world.catalog("c.sqlite");
    let run = Regex::new(r"[\p{Alphabetic}\p{N}_]+").unwrap();
    let part = Regex::new(r"\p{Lu}+(?:\p{Ll}|\p{N})*|[^\p{Lu}_]+").unwrap();
    let acronym = Regex::new(r"\p{Lu}{2}").unwrap();
    let is_dense = |text: &str| text.chars().any(crate::words::is_dense);
    let mut by_word: HashMap<String, BTreeSet<String>> = HashMap::new();
    let plain = plain_texts(&world.root());
    let known: BTreeSet<String> = plain.iter().map(|(id, _)| id.clone()).collect();
    for (id, texts) in &plain {
        for one in texts.iter().flat_map(|text| run.find_iter(text)) {
            let mut add = |text: &str| {
                by_word.entry(text.to_lowercase()).or_default().insert(id.clone());
            };
            let one = one.as_str();
            if !is_dense(one) && one.chars().count() <= crate::words::LONGEST {
                add(one);
                // Where an acronym ends is another matter: see the tests of `words`.
                if !acronym.is_match(one) {
                    part.find_iter(one).for_each(|part| add(part.as_str()));
                }
            }
        }
    }
    let mut words: Vec<&String> =
        by_word.keys().filter(|word| word.chars().any(char::is_alphanumeric)).collect();
    words.sort();
    assert!(words.len() > 1_000, "{}", words.len());
    let step = words.len() / 300;
    for word in words.into_iter().step_by(step.max(1)) {
        let found: BTreeSet<String> =
            world.found(&mut catalog, word).intersection(&known).cloned().collect();
        let wanted = &by_word[word];
        // Acronyms have parts, too.
        assert!(found.is_superset(wanted), "{word}: {wanted:?} are not all in {found:?}");
        for id in found.difference(wanted) {
            let texts = &plain.iter().find(|(one, _)| one == id).unwrap().1;
            let has = texts.iter().any(|text| text.to_lowercase().contains(word.as_str()));
            assert!(has, "{word} is not in {id}");
        }
    }
}

/// The words of a text in the simplest way: runs of letters, digits and `_`, in lower case, divided
/// where a script without spaces begins or ends.
fn plain_words(run: &Regex, text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for one in run.find_iter(text) {
        let mut last = None;
        for c in one.as_str().chars() {
            let dense = crate::words::is_dense(c);
            if last.replace(dense) != Some(dense) {
                words.push(String::new());
            }
            words.last_mut().unwrap().extend(c.to_lowercase());
        }
    }
    words
}

#[test]
fn phrases_are_found_as_a_plain_scan_finds_them() {
    let world = World::new();
    let mut catalog = world.catalog("c.sqlite");
    let run = Regex::new(r"[\p{Alphabetic}\p{N}_]+").unwrap();
    let texts: Vec<(String, Vec<Vec<String>>)> = plain_texts(&world.root())
        .into_iter()
        .map(|(id, texts)| (id, texts.iter().map(|text| plain_words(&run, text)).collect()))
        .collect();
    let known: BTreeSet<String> = texts.iter().map(|(id, _)| id.clone()).collect();
    let is_plain = |word: &String| {
        word.chars().count() <= crate::words::LONGEST && !word.chars().any(crate::words::is_dense)
    };
    let long: Vec<&Vec<String>> =
        texts.iter().flat_map(|(_, texts)| texts).filter(|words| words.len() > 3).collect();
    let mut rng = testkit::Rng::new(19);
    let mut tried = 0;
    while tried < 100 {
        let words = long[rng.below(long.len())];
        let count = 2 + rng.below(2);
        let at = rng.below(words.len() - count + 1);
        let phrase = &words[at..at + count];
        if !phrase.iter().all(is_plain) {
            continue;
        }
        tried += 1;
        let has = |words: &Vec<String>| words.windows(count).any(|part| part == phrase);
        let having = texts.iter().filter(|(_, texts)| texts.iter().any(has));
        let wanted: BTreeSet<String> = having.map(|(id, _)| id.clone()).collect();
        let query = format!("\"{}\"", phrase.join(" "));
        let found = world.found(&mut catalog, &query);
        assert_eq!(found.intersection(&known).cloned().collect::<BTreeSet<_>>(), wanted, "{query}");
    }
}

/// Of scripts without spaces, any part of a run is found, and nothing else.
#[test]
fn parts_of_dense_runs_are_found_as_a_plain_scan_finds_them() {
    let world = World::new();
    let mut catalog = world.catalog("c.sqlite");
    let texts = plain_texts(&world.root());
    let known: BTreeSet<String> = texts.iter().map(|(id, _)| id.clone()).collect();
    let mut runs: BTreeSet<String> = BTreeSet::new();
    for (_, texts) in &texts {
        for word in texts.iter().flat_map(|text| crate::words::words(text)) {
            if word.is_dense && word.text.chars().count() > 1 {
                runs.insert(word.text.to_owned());
            }
        }
    }
    let runs: Vec<Vec<char>> = runs.iter().map(|run| run.chars().collect()).collect();
    assert!(runs.len() > 10, "{}", runs.len());
    let mut rng = testkit::Rng::new(19);
    for _ in 0..50 {
        let run = &runs[rng.below(runs.len())];
        let count = 2 + rng.below(run.len() - 1);
        let at = rng.below(run.len() - count + 1);
        let part: String = run[at..at + count].iter().collect();
        let having =
            texts.iter().filter(|(_, texts)| texts.iter().any(|text| text.contains(&part)));
        let wanted: BTreeSet<String> = having.map(|(id, _)| id.clone()).collect();
        let found = world.found(&mut catalog, &part);
        assert_eq!(found.intersection(&known).cloned().collect::<BTreeSet<_>>(), wanted, "{part}");
    }
}

#[test]
fn dense_scripts_are_found_by_any_two_characters() {
    let world = World::new();
    let mut catalog = world.catalog("c.sqlite");
    for (query, wanted) in [
        ("東京", "dense-0"),
        ("京タ", "dense-0"),
        ("東京タワー", "dense-0"),
        ("函数", "dense-1"),
        ("解析行", "dense-1"),
        ("한국어", "dense-2"),
        ("장을", "dense-2"),
    ] {
        assert!(world.found(&mut catalog, query).contains(wanted), "{query}");
    }
    assert!(!world.found(&mut catalog, "京東").contains("dense-0"));
    let found = world.find(&mut catalog, "タワー");
    let hit = &found.sessions.iter().find(|session| session.id == "dense-0").unwrap().hits[0];
    assert_eq!(&hit.snippet.text[hit.snippet.marks[0].clone()], "タワー");
    assert_eq!((hit.turn, hit.line, hit.role, hit.kind), (Some(1), 1, "user", "prompt"));
}

#[test]
fn phrases_exclusions_prefixes_and_filters() {
    let world = World::new();
    let home = world.root().join("projects/q");
    let say = |name: &str, text: &str| {
        let line = serde_json::json!({"type": "user", "uuid": name, "cwd": "/w/app", "gitBranch": "dev",
            "message": {"role": "user", "content": text}});
        put(&home.join(format!("{name}.jsonl")), format!("{line}\n").as_bytes());
    };
    say("one", "zebra crossing at parseZebraLine");
    say("two", "crossing zebra");
    let call = serde_json::json!({"type": "assistant", "uuid": "a", "message": {"id": "m", "role": "assistant",
        "model": "claude-opus-4-5", "content": [{"type": "tool_use", "id": "t", "name": "Edit",
        "input": {"file_path": "/w/app/src/zebra.rs", "old_string": "quagga"}}]}});
    put(&home.join("three.jsonl"), format!("{call}\n").as_bytes());
    let mut catalog = world.catalog("c.sqlite");
    let mut found = |query: &str| world.found(&mut catalog, query).into_iter().collect::<Vec<_>>();
    assert_eq!(found("zebra"), ["one", "three", "two"]);
    assert_eq!(found("\"zebra crossing\""), ["one"]);
    assert_eq!(found("zebra -parsezebraline"), ["three", "two"]);
    assert_eq!(found("zebra NOT crossing"), ["three"]);
    assert_eq!(found("zeb* cross*"), ["one", "two"]);
    assert_eq!(found("quagga tool:Edit"), ["three"]);
    assert_eq!(found("quagga tool:Bash"), [""; 0]);
    assert_eq!(found("zebra role:user branch:dev"), ["one", "two"]);
    assert_eq!(found("file:src/zebra.rs"), ["three"]);
    assert_eq!(found("file:zebra.r"), [""; 0]);
    assert_eq!(found("zebra project:w/app"), ["one", "two"]);
    assert_eq!(found("/parse[A-Z]ebra/"), ["one"]);
    assert_eq!(found("/[z]ebra/ kind:call"), ["three"]);
    assert_eq!(found("session:thr"), ["three"]);
    assert_eq!(found("tool:Edit model:claude-opus-4-5 file:zebra.rs"), ["three"]);
    assert_eq!(found("zebra project:w/app project:nowhere"), [""; 0]);
    assert_eq!(found("quagga model:opus-4"), ["three"]);
    assert_eq!(found("quagga model:4-5"), [""; 0]);
    let answer = |id: &str, is_error: bool| {
        let block = serde_json::json!({"type": "tool_result", "tool_use_id": id, "content": "okapi",
            "is_error": is_error});
        let line = serde_json::json!({"type": "user", "uuid": id, "message": {"role": "user",
            "content": [block]}});
        format!("{line}\n")
    };
    // Its call was read before.
    let more = format!("{call}\n{}{}", answer("t", true), answer("other", true));
    put(&home.join("three.jsonl"), more.as_bytes());
    world.refresh(&mut catalog);
    let mut found = |query: &str| world.found(&mut catalog, query).into_iter().collect::<Vec<_>>();
    for query in
        ["okapi tool:Edit error:", "okapi tool:Edit kind:result", "/okap[i]/ tool:Edit role:tool"]
    {
        assert_eq!(found(query), ["three"], "{query}");
    }
    assert_eq!(found("okapi tool:Bash"), [""; 0]);
    let title = "{\"type\":\"summary\",\"summary\":\"About okapis\",\"leafUuid\":\"x\"}\n\
                 {\"type\":\"tag\",\"tag\":\"giraffe\",\"sessionId\":\"four\"}\n";
    put(&home.join("four.jsonl"), title.as_bytes());
    world.refresh(&mut catalog);
    let mut found = |query: &str| world.found(&mut catalog, query).into_iter().collect::<Vec<_>>();
    assert_eq!(found("okapis kind:title"), ["four"]);
    assert_eq!(found("giraffe"), ["four"]);
}

#[test]
fn expressions_are_read_on_all_cores_and_bounded() {
    let mut world = World::new();
    let home = world.root().join("projects/q");
    let say = |name: &str, text: &str| {
        let line = serde_json::json!({"type": "user", "uuid": name, "message": {"role": "user", "content": text}});
        put(&home.join(format!("{name}.jsonl")), format!("{line}\n").as_bytes());
    };
    say("one", "first zebra-42, then the token sesame-77");
    say("two", "zebra-43");
    say("three", "zebra-44");
    world.redactor = Arc::new(Redactor::new(vec![Box::new(Sesame)], Vec::new()));
    let mut catalog = world.catalog("c.sqlite");
    fs::remove_file(home.join("three.jsonl")).unwrap();
    world.refresh(&mut catalog);
    let found = world.find(&mut catalog, "/zebra-4\\d/");
    assert_eq!((found.total, found.is_cut), (3, false));
    let hit = |id: &str| found.sessions.iter().find(|one| one.id == id).unwrap().hits[0].clone();
    let of = |hit: &Hit| (hit.turn, hit.line, hit.kind, hit.snippet.text.clone());
    assert_eq!(of(&hit("two")), (Some(1), 1, "prompt", "zebra-43".to_owned()));
    assert_eq!(of(&hit("three")), (None, 0, "title", "zebra-44".to_owned()));
    // Two expressions need not fit in one text, and no secret can be guessed.
    assert_eq!(world.found(&mut catalog, "/zebra-42/ /then/").len(), 1);
    assert!(world.found(&mut catalog, "/sesame/").is_empty());
    let homes = [world.root()];
    let wish = |limit: usize, hits: usize, patience: u64| Wish {
        homes: &homes,
        projects: None,
        limit,
        hits,
        patience: Duration::from_secs(patience),
        redactor: &world.redactor,
        prices: &world.prices,
        now: UNIX_EPOCH,
    };
    let query = Query::parse("/zebra/").unwrap();
    let found = catalog.search(&query, &wish(1, 0, 60)).unwrap();
    assert_eq!((found.sessions.len(), found.total, found.is_cut), (1, 3, true));
    assert!(catalog.search(&query, &wish(9, 1, 0)).unwrap().is_cut);
}

/// Without words, the calls that name the file are shown. A name may begin at the session's folder.
#[test]
fn files_are_found_where_they_are_touched() {
    let world = World::new();
    let home = world.root().join("projects/q");
    let call = |line: usize, tool: &str, path: &str| {
        let block = serde_json::json!({"type": "tool_use", "id": format!("t{line}"), "name": tool,
            "input": {"file_path": path}});
        let record = serde_json::json!({"type": "assistant", "uuid": format!("u{line}"),
            "cwd": "/w/app", "message": {"id": format!("m{line}"), "role": "assistant",
            "content": [{"type": "text", "text": "now this"}, block]}});
        format!("{record}\n")
    };
    let lines = [call(1, "Read", "/w/app/other.rs"), call(2, "Edit", "/w/app/src/zebra.rs")];
    put(&home.join("one.jsonl"), lines.concat().as_bytes());
    put(&home.join("two.jsonl"), call(1, "Edit", "src/zebra.rs").as_bytes());
    let mut catalog = world.catalog("c.sqlite");
    for query in ["file:src/zebra.rs", "file:./src/zebra.rs", "file:/w/app/src/zebra.rs"] {
        let found = world.find(&mut catalog, query).sessions;
        let mut ids: Vec<&str> = found.iter().map(|one| one.id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["one", "two"], "{query}");
    }
    let found = world.find(&mut catalog, "file:src/zebra.rs tool:Edit").sessions;
    let one = found.iter().find(|one| one.id == "one").unwrap();
    let hit = &one.hits[0];
    let marked: Vec<&str> =
        hit.snippet.marks.iter().map(|mark| &hit.snippet.text[mark.clone()]).collect();
    assert_eq!((hit.line, hit.kind, marked), (2, "call", vec!["src/zebra.rs"]));
}

/// Hides the word `sesame` and its number.
#[derive(Debug)]
struct Sesame;

impl Custom for Sesame {
    fn name(&self) -> &'static str {
        "word"
    }

    fn find(&self, text: &str) -> Vec<std::ops::Range<usize>> {
        text.match_indices("sesame-77").map(|(at, found)| at..at + found.len()).collect()
    }
}
