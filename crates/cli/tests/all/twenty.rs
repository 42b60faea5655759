//! Twenty turns with edits, shell commands and a person editing in between: every changed line
//! belongs to its turn or to the person, by an independent record of the tree after each step.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testkit::api::Server;

use crate::chat::{Lab, SESSION, call, text};

/// The lines of every file, as an independent program sees them.
type Tree = BTreeMap<String, Vec<String>>;

fn tree(folder: &Path) -> Tree {
    let mut all = Tree::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            let text = fs::read_to_string(&path).unwrap();
            all.insert(name, text.lines().map(str::to_owned).collect());
        }
    }
    all
}

/// Lines that were added and removed, by file: `+` and `-` before each. All lines differ, so that
/// sets show it.
fn changed(before: &Tree, after: &Tree) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    let none = Vec::new();
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let (was, is) = (before.get(name).unwrap_or(&none), after.get(name).unwrap_or(&none));
        let gone = was.iter().filter(|line| !is.contains(line)).map(|line| format!("-{line}"));
        let new = is.iter().filter(|line| !was.contains(line)).map(|line| format!("+{line}"));
        let mut lines: Vec<String> = gone.chain(new).collect();
        lines.sort();
        if !lines.is_empty() {
            all.insert(name.clone(), lines);
        }
    }
    all
}

/// What turn `number` does.
fn deed(number: usize, lab: &Lab) -> Value {
    let id = format!("toolu_{number}");
    let bash = |command: &str| call(&id, "Bash", &json!({"command": command}));
    let path = |name: &str| lab.path(name);
    match number % 7 {
        0 => bash(&format!("echo 'shell {number}' >> log.txt")),
        1 => {
            let content = format!("written {number}\nalso {number}\n");
            call(
                &id,
                "Write",
                &json!({"file_path": path(&format!("w{number}.txt")), "content": content}),
            )
        }
        2 => bash(&format!("mkdir -p d{number} && mv w{}.txt d{number}/moved.txt", number - 1)),
        3 => bash(&format!(
            "sed -i 's/^person .*$/shell took {number}/' notes.txt; echo 'n {number}' >> notes.txt"
        )),
        4 => bash("rm -f log.txt"),
        5 => {
            bash(&format!("printf 'a {number}\\nb {number}\\n' | tee -a notes.txt > t{number}.txt"))
        }
        _ => {
            let (old, new) = ("# Demo".to_owned(), format!("# Demo {number}"));
            let old = if number > 6 { format!("# Demo {}", number - 7) } else { old };
            call(
                &id,
                "Edit",
                &json!({"file_path": path("README.md"), "old_string": old, "new_string": new}),
            )
        }
    }
}

#[test]
fn every_line_of_twenty_turns_has_its_author() {
    let mut lab = Lab::says(&[]);
    let mut replies = Vec::new();
    for number in 1..=20 {
        let read =
            call(&format!("read_{number}"), "Read", &json!({"file_path": lab.path("README.md")}));
        replies.push(vec![read]);
        replies.push(vec![deed(number, &lab)]);
        replies.push(vec![text("done")]);
    }
    lab.server = Server::start(replies).unwrap();
    let folder = lab.cwd();
    fs::write(folder.join("notes.txt"), "first\n").unwrap();
    // Turn, or 0 for the person; file; lines.
    let mut expected: Vec<(usize, String, Vec<String>)> = Vec::new();
    let mut before = tree(&folder);
    let mut note = |who: usize, before: &mut Tree| {
        let after = tree(&folder);
        for (name, lines) in changed(before, &after) {
            expected.push((who, name, lines));
        }
        *before = after;
    };
    for number in 1..=20_usize {
        if number % 3 == 0 {
            let path = lab.cwd().join("notes.txt");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, format!("{text}person {number}\n")).unwrap();
            fs::write(lab.cwd().join(format!("p{number}.txt")), format!("by hand {number}\n"))
                .unwrap();
            note(0, &mut before);
        }
        let free = ["--dangerously-skip-permissions", "--sandbox", "off"];
        let prompt = format!("turn {number}");
        let begin: &[&str] =
            if number == 1 { &["--session-id", SESSION] } else { &["-r", SESSION] };
        let args: Vec<&str> = begin.iter().copied().chain(free).chain([prompt.as_str()]).collect();
        let output = lab.run(&args);
        assert!(output.status.success(), "{number}: {}", lab.env.show(&output));
        note(number, &mut before);
    }
    let output = lab.env.output(&["changes", SESSION, "--json"]);
    assert!(output.status.success(), "{}", lab.env.show(&output));
    let root = fs::canonicalize(lab.cwd()).unwrap();
    let mut found: Vec<(usize, String, Vec<String>)> = Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let who = match row["by"].as_str().unwrap() {
            "turn" => usize::try_from(row["turn"].as_u64().unwrap()).unwrap(),
            "other" => 0,
            by => panic!("{by}"),
        };
        let path = Path::new(row["path"].as_str().unwrap()).strip_prefix(&root).unwrap().to_owned();
        let is_change = |line: &&str| {
            let is_head = line.starts_with("+++") || line.starts_with("---");
            (line.starts_with('+') || line.starts_with('-')) && !is_head
        };
        let diff = row["diff"].as_str().unwrap();
        let mut lines: Vec<String> = diff.lines().filter(is_change).map(str::to_owned).collect();
        lines.sort();
        if !lines.is_empty() {
            found.push((who, path.display().to_string(), lines));
        }
    }
    let is_persons = |one: &&(usize, String, Vec<String>)| one.0 == 0;
    assert!(expected.iter().filter(is_persons).count() >= 10, "{expected:?}");
    // Several changes of a path by a person may be listed together: what counts is whose each line
    // is.
    let sorted = |all: Vec<(usize, String, Vec<String>)>| {
        let mut lines: BTreeMap<(usize, String), Vec<String>> = BTreeMap::new();
        for (who, path, more) in all {
            let known = lines.entry((who, path)).or_default();
            known.extend(more);
            known.sort();
        }
        lines
    };
    assert_eq!(sorted(found), sorted(expected));
}
