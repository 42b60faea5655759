//! The shape of the tree, as a test: file ceilings, crate direction, a header on every module.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests may")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Lines that a file may have, tests aside. Splitting is easier before it is reached.
const CEILING: usize = 800;

/// Files that are over it. The list may only become shorter.
const OVER: &[&str] = &[];

/// Each crate's folder, its name, and which crates it may use, tests aside.
const DIRECTION: &[(&str, &str, &[&str])] = &[
    ("files", "files", &[]),
    ("transcript", "transcript", &["files"]),
    ("rules", "rules", &[]),
    ("sandbox", "sandbox", &[]),
    ("snapshot", "snapshot", &["files"]),
    ("agent", "agent", &["files", "rules", "sandbox", "snapshot", "transcript", "workshop"]),
    ("console", "console", &["files", "rules", "transcript"]),
    ("export", "export", &["files", "transcript"]),
    ("workshop", "workshop", &["files", "transcript"]),
    ("index", "index", &["files", "transcript"]),
    ("viewer", "viewer", &["files", "index", "transcript"]),
    ("lake", "lake", &["files", "index", "transcript"]),
    (
        "cli",
        "quipu",
        &[
            "agent",
            "console",
            "export",
            "files",
            "index",
            "lake",
            "rules",
            "sandbox",
            "snapshot",
            "transcript",
            "viewer",
            "workshop",
        ],
    ),
    ("testkit", "testkit", &[]),
];

fn sources() -> Vec<PathBuf> {
    files("crates", &["rs"])
}

/// The files in a folder that have one of these endings.
fn files(folder: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![testkit::root().join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path
                .extension()
                .is_some_and(|ending| endings.iter().any(|one| ending == *one))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn is_test(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    name.ends_with("_tests.rs") || path.components().any(|part| part.as_os_str() == "tests")
}

fn name(path: &Path) -> String {
    path.strip_prefix(testkit::root()).unwrap().to_string_lossy().replace('\\', "/")
}

#[test]
fn files_stay_short() {
    for path in sources().iter().filter(|path| !is_test(path)) {
        let lines = fs::read_to_string(path).unwrap().lines().count();
        let known = OVER.contains(&name(path).as_str());
        assert!(lines <= CEILING || known, "{} has {lines} lines", name(path));
        assert!(lines > CEILING || !known, "{} is short enough: take it off the list", name(path));
    }
}

#[test]
fn every_module_opens_with_what_it_is() {
    for path in sources() {
        let name_of = name(&path);
        // Unit tests belong to the module beside them.
        if name_of.ends_with("_tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("//! ") && first.len() > 12, "{name_of} has no header");
    }
}

#[test]
fn crates_use_only_what_they_may() {
    let crates = testkit::root().join("crates");
    let mut folders: Vec<String> = fs::read_dir(&crates)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    folders.sort();
    let mut listed: Vec<&str> = DIRECTION.iter().map(|row| row.0).collect();
    listed.sort_unstable();
    assert_eq!(folders, listed, "a new crate needs a row in DIRECTION");
    for (folder, package, allowed) in DIRECTION {
        let manifest = fs::read_to_string(crates.join(folder).join("Cargo.toml")).unwrap();
        // Those of some targets only count too; those of tests and builds do not.
        let sections = manifest.split("\n[").filter(|section| {
            let head = section.lines().next().unwrap_or_default();
            head == "dependencies]" || head.ends_with(".dependencies]")
        });
        let section: String = sections.collect();
        assert!(manifest.contains(&format!("name = \"{package}\"")), "{folder} is not {package}");
        for (_, other, _) in DIRECTION {
            let named = |line: &str| {
                line.strip_prefix(other).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
            };
            let used = section.lines().any(named);
            assert!(!used || allowed.contains(other), "{folder} may not use {other}");
        }
    }
}

#[test]
fn the_changelog_has_a_place_for_what_is_new() {
    let text = fs::read_to_string(testkit::root().join("CHANGELOG.md")).unwrap();
    let section = text.split("## Unreleased").nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    assert!(section.contains("\n- "), "CHANGELOG.md has nothing under Unreleased");
}

/// Nothing of one machine belongs into the project.
#[test]
fn no_paths_of_a_machine() {
    let here = testkit::root().parent().unwrap().to_string_lossy().into_owned() + "/";
    // A checkout right under the root would make this mean nothing.
    if here.len() < 4 {
        return;
    }
    let more = files("docs", &["md"]).into_iter().chain(files("bench", &["py", "rs"]));
    for path in sources().into_iter().chain(files("crates", &["py"])).chain(more) {
        // A benchmark's own build has files that are no text.
        let text = fs::read_to_string(&path).unwrap_or_default();
        assert!(!text.contains(&here), "{} names {here}", name(&path));
    }
}

/// Comments and prose are read in columns. Rows of tables, code and links cannot be broken.
#[test]
fn text_is_at_most_100_columns_wide() {
    let mut wide = Vec::new();
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim_start().starts_with("//") && line.chars().count() > 100 {
                wide.push(format!("{}:{number}", name(&path)));
            }
        }
    }
    let top = fs::read_dir(testkit::root()).unwrap().flatten().map(|entry| entry.path());
    let top = top.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    for path in top.chain(files("docs", &["md"])).chain(files("samples", &["md"])) {
        let text = fs::read_to_string(&path).unwrap();
        let mut is_code = false;
        for (number, line) in (1..).zip(text.lines()) {
            is_code ^= line.trim_start().starts_with("```");
            let is_fixed = is_code || line.starts_with('|') || line.starts_with("    ");
            if !is_fixed && line.chars().count() > 100 && line.trim().contains(' ') {
                wide.push(format!("{}:{number}", name(&path)));
            }
        }
    }
    assert!(wide.is_empty(), "over 100 columns: {wide:#?}");
}

/// The code of a file, line by line: without comments, and without what is inside strings, except
/// what a format string captures.
fn code(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = Vec::new();
    // A raw string, and the hashes that end it.
    let mut raw: Option<String> = None;
    for line in text.lines() {
        let mut kept = String::new();
        let mut rest = line;
        loop {
            if let Some(end) = &raw {
                let Some((_, after)) = rest.split_once(end.as_str()) else { break };
                rest = after;
                raw = None;
            }
            let Some(at) = rest.find(['"', '/']) else {
                kept.push_str(rest);
                break;
            };
            kept.push_str(&rest[..at]);
            if rest[at..].starts_with("//") {
                break;
            }
            if rest[at..].starts_with('/') || kept.ends_with('\'') {
                kept.push_str(&rest[at..=at]);
                rest = &rest[at + 1..];
                continue;
            }
            let hashes = kept.chars().rev().take_while(|c| *c == '#').count();
            if kept[..kept.len() - hashes].ends_with('r') {
                raw = Some(format!("\"{}", "#".repeat(hashes)));
                rest = &rest[at + 1..];
                continue;
            }
            let inside = &rest[at + 1..];
            let mut is_escaped = false;
            let end = inside.find(|c| {
                let is_end = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end
            });
            let end = end.unwrap_or(inside.len());
            for capture in inside[..end].split('{').skip(1) {
                let ident = capture.chars().take_while(|c| c.is_alphanumeric() || *c == '_');
                kept.push(' ');
                kept.extend(ident);
                kept.push(' ');
            }
            rest = inside.get(end + 1..).unwrap_or_default();
        }
        lines.push(kept);
    }
    lines
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Names that say nothing about what they name.
#[test]
fn names_let_a_reader_guess_the_type() {
    let mut found = Vec::new();
    for path in sources() {
        for (number, line) in (1..).zip(code(&path)) {
            if words(&line).any(|word| ["own", "told", "said"].contains(&word)) {
                found.push(format!("{}:{number}: {}", name(&path), line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

const KINDS_OF_TYPES: [&str; 4] = ["struct", "enum", "trait", "type"];

/// A type name means one thing, or two at most, in a crate.
#[test]
fn type_names_are_not_shared() {
    for (folder, _, _) in DIRECTION {
        let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in files(&format!("crates/{folder}/src"), &["rs"]) {
            for line in code(&path).iter().filter(|line| !line.starts_with(' ')) {
                let mut words =
                    words(line).skip_while(|word| ["pub", "crate", "super"].contains(word));
                let is_type = words.next().is_some_and(|word| KINDS_OF_TYPES.contains(&word));
                if let Some(type_name) = words.next().filter(|_| is_type) {
                    known.entry(type_name.to_owned()).or_default().insert(name(&path));
                }
            }
        }
        known.retain(|_, modules| modules.len() > 2);
        assert!(known.is_empty(), "{known:#?}");
    }
}

/// What a caller reads says what it means: `Refused::TryAgain`, not `true`.
#[test]
fn no_flags_in_public_functions() {
    let mut found = Vec::new();
    for folder in ["transcript", "export", "agent", "index", "lake", "viewer", "workshop"] {
        for path in files(&format!("crates/{folder}/src"), &["rs"]) {
            let text = code(&path).join("\n");
            for after in text.split("pub fn ").skip(1) {
                let signature = after.split(['{', ';']).next().unwrap_or_default();
                let parameters = signature.split("->").next().unwrap_or_default();
                if parameters.contains(": bool") {
                    let function = words(signature).next().unwrap_or_default();
                    found.push(format!("{}: {function}", name(&path)));
                }
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// A file in `command/` is a command and uses no other; nothing in the binary uses what uses it.
#[test]
fn no_import_circles_in_the_binary() {
    let src = testkit::root().join("crates/cli/src");
    // A module with what is below it is one; each command is one.
    let room = |parts: &[String]| match parts {
        [first, second, ..] if first == "command" => format!("command::{second}"),
        [first, ..] => first.clone(),
        [] => "main".to_owned(),
    };
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files("crates/cli/src", &["rs"]) {
        if is_test(&path) {
            continue;
        }
        let relative = path.strip_prefix(&src).unwrap().with_extension("");
        let here: Vec<String> =
            relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let text = code(&path).join(" ");
        // Tests are the last thing in a file, behind their attributes.
        let tests = text.rfind("mod tests").and_then(|at| text[..at].rfind("#[cfg(test)]"));
        let text = &text[..tests.unwrap_or(text.len())];
        for (at, _) in text.match_indices("crate::").chain(text.match_indices("super::")) {
            // `crate::{a, b::{c, d}}` names a and b.
            let mut base = if text[at..].starts_with("crate") {
                Vec::new()
            } else {
                here[..here.len() - 1].to_vec()
            };
            let mut rest = &text[at + 7..];
            while let Some(after) = rest.strip_prefix("super::") {
                base.pop();
                rest = after;
            }
            let mut names = Vec::new();
            if let Some(list) = rest.strip_prefix('{') {
                let mut depth = 0;
                for part in list.split_inclusive(['{', '}', ',']) {
                    let word = words(part).next();
                    names.extend(word.filter(|_| depth == 0).map(|word| vec![word.to_owned()]));
                    match part.chars().last() {
                        Some('{') => depth += 1,
                        Some('}') if depth == 0 => break,
                        Some('}') => depth -= 1,
                        _ => {}
                    }
                }
            } else {
                let path = rest.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
                let path = path.take(1).flat_map(|path| path.split("::"));
                names.push(path.map(str::to_owned).collect());
            }
            for parts in names {
                let all: Vec<String> = base.iter().cloned().chain(parts).collect();
                let used = room(&all);
                let is_module = used.starts_with(|c: char| c.is_lowercase());
                if is_module && used != room(&here) {
                    imports.entry(room(&here)).or_default().insert(used);
                }
            }
        }
    }
    assert!(imports.len() > 30, "{imports:#?}");
    for (room, used) in imports.iter().filter(|(room, _)| room.starts_with("command::")) {
        let others: Vec<_> = used.iter().filter(|used| used.starts_with("command")).collect();
        assert!(others.is_empty(), "{room} uses {others:?}");
    }
    // Whatever uses nothing that is left cannot be in a circle.
    loop {
        let before = imports.len();
        let left: BTreeSet<String> = imports.keys().cloned().collect();
        imports.retain(|_, used| used.iter().any(|used| left.contains(used)));
        if imports.len() == before {
            break;
        }
    }
    assert!(imports.is_empty(), "these use each other: {imports:#?}");
}

/// Where files are opened for writing, or get another name, outside of the crate `files`, and why.
/// Everything else is written by `files::{put, put_with, create_new, create_private}` and
/// `files::append_private`, which are whole or private, follow no link, and wait for nobody.
const WRITERS: &[(&str, &str)] = &[
    ("crates/agent/src/shell.rs", "names a file after a command that writes into it already"),
    ("crates/agent/src/tool/test_site.rs", "tests"),
    ("crates/cli/src/command/chat/demo.rs", "fills a new folder"),
    ("crates/cli/src/command/man.rs", "a folder that the user names"),
    ("crates/cli/src/samples.rs", "sets the time of a file"),
    ("crates/export/src/jobs/job.rs", "moves jobs to other folders"),
    ("crates/export/src/jobs/log.rs", "sets the full log aside"),
    ("crates/export/src/queue.rs", "sets damaged batches aside"),
    ("crates/index/src/catalog/replace.rs", "puts a new catalog in the place of the old one"),
    ("crates/sandbox/src/mounts.rs", "empty files that others are mounted on"),
    ("crates/snapshot/src/restore.rs", "takes a plan away in one step"),
    ("crates/snapshot/src/sealed.rs", "reads a folder's files as they are"),
    ("crates/snapshot/src/store/sweep.rs", "locks packs, and cuts them off"),
    ("crates/workshop/src/pack/unpack.rs", "takes files that were verified"),
    ("crates/workshop/src/redact.rs", "a file of the user, which is not private"),
    ("crates/workshop/src/store/disk.rs", "every write into a home"),
    ("crates/workshop/src/work.rs", "adds lines to a file that it has just written"),
];

#[test]
fn files_are_written_in_one_place() {
    let mut found = BTreeSet::new();
    let signs = ["OpenOptions", "fs::rename(", "File::create(", "File::options("];
    for path in sources().iter().filter(|path| !is_test(path)) {
        let is_writer = code(path).iter().any(|line| signs.iter().any(|sign| line.contains(sign)));
        let name = name(path);
        let is_free = ["crates/files/", "crates/testkit/"].iter().any(|one| name.starts_with(one));
        found.extend(Some(name).filter(|name| is_writer && !is_free && name.contains("/src/")));
    }
    let known: BTreeSet<String> = WRITERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let new: Vec<_> = found.difference(&known).collect();
    assert!(new.is_empty(), "use the crate `files`, or say why not: {new:#?}");
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(gone.is_empty(), "these no longer do: {gone:#?}");
}

/// Errors of reading say which file, and which line.
#[test]
fn reading_never_fails_without_a_place() {
    let mut bare = Vec::new();
    for path in sources().iter().filter(|path| path.to_string_lossy().contains("transcript/src")) {
        let text = fs::read_to_string(path).unwrap();
        for function in text.split("pub fn ").skip(1) {
            let signature = function.split(" {\n").next().unwrap_or_default();
            let returned = signature.rsplit_once("-> ").map_or("", |(_, returned)| returned);
            if returned.contains("io::Result") {
                let name = signature.split(['(', '<']).next().unwrap_or_default();
                bare.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(bare.is_empty(), "return `transcript::Result` instead: {bare:#?}");
}

/// The tables of modules in the documents name what exists, and all that a library offers.
#[test]
fn documents_name_the_modules_there_are() {
    for (document, heading, crate_name) in [
        ("architecture.md", "## `transcript`", "transcript"),
        ("architecture.md", "## `workshop`", "workshop"),
        ("architecture.md", "## `index`", "index"),
        ("architecture.md", "## `export`", "export"),
        ("architecture.md", "## `viewer`", "viewer"),
        ("agent.md", "| module of `crates/agent`", "agent"),
    ] {
        let text = fs::read_to_string(testkit::root().join("docs").join(document)).unwrap();
        let (_, table) = text.split_once(&format!("\n{heading}")).unwrap();
        let rows = table.lines().skip_while(|line| !line.starts_with("|---"));
        let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
        // Every second part of a cell stands between back quotes.
        let cells = rows.filter_map(|row| row.split('|').nth(1));
        let named: BTreeSet<String> =
            cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
        let src = testkit::root().join("crates").join(crate_name).join("src");
        let public = |path: &Path| -> BTreeSet<String> {
            let text = fs::read_to_string(path).unwrap();
            let lines = text.lines();
            lines
                .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
                .map(str::to_owned)
                .collect()
        };
        let mut modules = public(&src.join("lib.rs"));
        if crate_name == "transcript" {
            // Its modules are in three folders.
            modules =
                modules.iter().flat_map(|part| public(&src.join(format!("{part}.rs")))).collect();
        }
        assert!(!named.is_empty(), "{document} has no table of {crate_name}");
        let missing: Vec<_> = modules.difference(&named).collect();
        assert!(missing.is_empty(), "{document} does not name {missing:?} of {crate_name}");
        for module in &named {
            // A part of a module may stand in parentheses behind it.
            let is_it = |path: &PathBuf| {
                path.starts_with(&src) && path.with_extension("").ends_with(module)
            };
            let is_there = sources().iter().any(is_it);
            assert!(is_there, "{document} names `{module}`, which {crate_name} does not have");
        }
    }
}
