//! `Grep`: searches the contents of files, with ripgrep's libraries.
//!
//! Invariants: like ripgrep, it skips what `.gitignore` names and what is binary; it shows hidden
//! files, except those of a version control system; the output is the same each time: by path, or
//! newest first if only files are requested; it is bounded, and says where it was cut.

mod ignored;
mod page;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::TypesBuilder;
use ignore::{Walk, WalkBuilder};
use serde::Serialize;
use serde_json::Value;

use super::glob::{base, cancelled, is_closed, is_open};
use super::{Answer, Call, Site, Trouble, number, text};
use ignored::Ignored;
use page::Page;

/// The most bytes of one file that are in memory: a line, or the whole file if patterns may span
/// lines.
const HELD: usize = 64 << 20;

/// The most characters of a line that are shown.
const WIDTH: usize = 500;

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct GrepDetail {
    mode: &'static str,
    num_files: usize,
    filenames: [&'static str; 0],
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_lines: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_matches: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_limit: Option<usize>,
}

/// The same for files only: the order of the members is different.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FilesDetail<'a> {
    mode: &'static str,
    filenames: &'a [String],
    num_files: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_limit: Option<usize>,
}

pub(super) fn run(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    let base = base(call, site)?;
    let matcher = matcher(call)?;
    let walk = walk(call, site, &base)?;
    let files = Files { walk, call, real: (base.clone(), site.pinned(call, &base)) };
    match call.input.get("output_mode").and_then(Value::as_str) {
        Some("content") => content(call, site, &matcher, files, base.is_file()),
        Some("count") => count(call, site, &matcher, files),
        None | Some("files_with_matches") => names(call, site, &matcher, files),
        Some(mode) => Err(Trouble::wrong(format!("There is no output_mode {mode}."))),
    }
}

fn flag(call: &Call, name: &str) -> Option<bool> {
    call.input.get(name).and_then(Value::as_bool)
}

fn matcher(call: &Call) -> Result<RegexMatcher, Trouble> {
    let is_multiline = flag(call, "multiline") == Some(true);
    RegexMatcherBuilder::new()
        .case_insensitive(flag(call, "-i") == Some(true))
        .multi_line(true)
        .dot_matches_new_line(is_multiline)
        .line_terminator((!is_multiline).then_some(b'\n'))
        .build(text(call, "pattern"))
        .map_err(|why| {
            let why = why.to_string();
            let lines: Vec<&str> = why.lines().take(6).collect();
            Trouble::failed(lines.join("\n"))
        })
}

fn searcher(call: &Call) -> SearcherBuilder {
    let mut searcher = SearcherBuilder::new();
    searcher
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(HELD))
        .multi_line(flag(call, "multiline") == Some(true));
    searcher
}

fn walk(call: &Call, site: &Site, base: &Path) -> Result<Walk, Trouble> {
    let mut walk = WalkBuilder::new(base);
    // The filters of the library would open anything that is called `.gitignore`.
    walk.standard_filters(false).sort_by_file_path(Path::cmp);
    let mut only = Override::empty();
    if let Some(globs) = call.input.get("glob").and_then(Value::as_str) {
        let mut given = OverrideBuilder::new(site.path(""));
        for glob in globs.split_whitespace() {
            // Commas separate globs, except within braces.
            let separator = if glob.contains('{') { '\n' } else { ',' };
            for glob in glob.split(separator).filter(|glob| !glob.is_empty()) {
                given.add(glob).map_err(|why| Trouble::wrong(format!("Bad glob: {why}")))?;
            }
        }
        only = given.build().map_err(|why| Trouble::wrong(format!("Bad glob: {why}")))?;
        walk.overrides(only.clone());
    }
    if let Some(kind) = call.input.get("type").and_then(Value::as_str) {
        let types = TypesBuilder::new().add_defaults().select(kind).build();
        walk.types(types.map_err(|why| Trouble::wrong(format!("Bad type: {why}")))?);
    }
    let ignored = Ignored::default();
    let closed = site.closed(call);
    walk.filter_entry(move |entry| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        // What is requested by name is searched.
        let is_named = || only.matched(entry.path(), is_folder).is_whitelist();
        is_open(entry)
            && !is_closed(entry.path(), &closed)
            && (entry.depth() == 0 || is_named() || !ignored.names(entry.path(), is_folder))
    });
    Ok(walk.build())
}

/// The files to search. Files that cannot be read are left out.
struct Files<'a> {
    walk: Walk,
    call: &'a Call,
    /// What is searched, and where that led when the call was judged.
    real: (PathBuf, PathBuf),
}

/// A file that is searched.
struct Searched {
    path: PathBuf,
    file: File,
}

impl Iterator for Files<'_> {
    type Item = Result<Searched, Trouble>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.call.cancel.is_set() {
                return Some(Err(cancelled()));
            }
            match self.walk.next()? {
                Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                    let path = entry.into_path();
                    let Ok(rest) = path.strip_prefix(&self.real.0) else { continue };
                    let is_base = rest.as_os_str().is_empty();
                    let at = if is_base { self.real.1.clone() } else { self.real.1.join(rest) };
                    // A link that has been put in the way meanwhile is not followed.
                    let Ok(file) = files::open_fixed(&at) else { continue };
                    return Some(Ok(Searched { path, file }));
                }
                _ => {}
            }
        }
    }
}

/// The lines that match.
fn content(
    call: &Call,
    site: &Site,
    matcher: &RegexMatcher,
    files: Files<'_>,
    is_one: bool,
) -> Result<Answer, Trouble> {
    let around = number(call, "-C").or_else(|| number(call, "context")).unwrap_or(0);
    let before = number(call, "-B").unwrap_or(around);
    let after = number(call, "-A").unwrap_or(around);
    let mut searcher = searcher(call).before_context(before).after_context(after).build();
    let mut lines = Lines {
        page: Page::new(call),
        name: String::new(),
        is_numbered: flag(call, "-n") != Some(false),
        is_parted: before + after > 0,
        is_first: true,
    };
    for found in files {
        let Searched { path, file } = found?;
        if !is_one {
            lines.name = site.short(&path).to_string_lossy().into_owned();
        }
        lines.is_first = true;
        let _ = searcher.search_file(matcher, &file, &mut lines);
        if lines.page.is_full() {
            break;
        }
    }
    let page = lines.page;
    let shown = page.lines.join("\n");
    let body = if shown.is_empty() { "No matches found" } else { &shown };
    let output = format!("{body}{}", page.note());
    let detail = GrepDetail {
        mode: "content",
        num_lines: Some(page.lines.len()),
        applied_limit: page.applied(),
        content: shown,
        ..GrepDetail::default()
    };
    Ok(Answer::text(output, &detail))
}

/// How many lines match in each file.
fn count(
    call: &Call,
    site: &Site,
    matcher: &RegexMatcher,
    files: Files<'_>,
) -> Result<Answer, Trouble> {
    let mut page = Page::new(call);
    let (mut num_files, mut num_matches) = (0, 0);
    for found in counted(call, matcher, files, u64::MAX) {
        let (path, count) = found?;
        num_files += 1;
        num_matches += count;
        page.push(format!("{}:{count}", site.short(&path).display()));
    }
    let content = page.lines.join("\n");
    let body = if content.is_empty() { "No matches found" } else { &content };
    let output = format!(
        "{body}\n\nFound {num_matches} total {} across {num_files} {}.{}",
        if num_matches == 1 { "occurrence" } else { "occurrences" },
        if num_files == 1 { "file" } else { "files" },
        page.note(),
    );
    let detail = GrepDetail {
        mode: "count",
        num_files,
        content,
        num_matches: Some(num_matches),
        applied_limit: page.applied(),
        ..GrepDetail::default()
    };
    Ok(Answer::text(output, &detail))
}

/// The files in which a line matches, newest first.
fn names(
    call: &Call,
    site: &Site,
    matcher: &RegexMatcher,
    files: Files<'_>,
) -> Result<Answer, Trouble> {
    let mut found = Vec::new();
    for path in counted(call, matcher, files, 1) {
        let (path, _) = path?;
        let modified = fs::metadata(&path).and_then(|found| found.modified()).ok();
        found.push((modified, path));
    }
    // They come sorted by path, and files of the same age stay in that order.
    found.sort_by_key(|(modified, _)| std::cmp::Reverse(*modified));
    let mut page = Page::new(call);
    for (_, path) in &found {
        page.push(site.short(path).to_string_lossy().into_owned());
    }
    let output = match page.lines.len() {
        0 => "No files found".to_owned(),
        1 => format!("Found 1 file\n{}", page.lines[0]),
        count => format!("Found {count} files\n{}", page.lines.join("\n")),
    };
    let detail = FilesDetail {
        mode: "files_with_matches",
        filenames: &page.lines,
        num_files: page.lines.len(),
        applied_limit: page.applied(),
    };
    Ok(Answer::text(output + &page.note(), &detail))
}

/// The files in which lines match, and how many lines, counted up to a limit.
fn counted(
    call: &Call,
    matcher: &RegexMatcher,
    files: Files<'_>,
    most: u64,
) -> impl Iterator<Item = Result<(PathBuf, u64), Trouble>> {
    let mut searcher = searcher(call).line_number(false).build();
    files.filter_map(move |found| match found {
        Ok(Searched { path, file }) => {
            let mut count = Count { matches: 0, most };
            let _ = searcher.search_file(matcher, &file, &mut count);
            (count.matches > 0).then_some(Ok((path, count.matches)))
        }
        Err(trouble) => Some(Err(trouble)),
    })
}

/// Counts matching lines, up to a limit.
struct Count {
    matches: u64,
    most: u64,
}

impl Sink for Count {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, _: &SinkMatch<'_>) -> io::Result<bool> {
        self.matches += 1;
        Ok(self.matches < self.most)
    }
}

/// Collects matching lines, and those around them.
struct Lines {
    page: Page,
    /// The name of the file in front of its lines; empty if there is only one file.
    name: String,
    is_numbered: bool,
    /// Whether groups of lines have a separator between them.
    is_parted: bool,
    /// Whether no line of this file was collected yet.
    is_first: bool,
}

impl Lines {
    /// Adds a line. Returns whether more are wanted.
    fn take(&mut self, line: &[u8], number: Option<u64>, sign: char) -> bool {
        if self.is_first && self.is_parted && self.page.has_any() {
            self.page.push("--".to_owned());
        }
        self.is_first = false;
        let mut shown_line = String::new();
        if !self.name.is_empty() {
            shown_line = format!("{}{sign}", self.name);
        }
        if let Some(number) = number.filter(|_| self.is_numbered) {
            let _ = write!(shown_line, "{number}{sign}");
        }
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\r', '\n']);
        match line.char_indices().nth(WIDTH) {
            Some((end, _)) => shown_line.extend([&line[..end], "… [line cut]"]),
            None => shown_line += line,
        }
        self.page.push(shown_line)
    }
}

impl Sink for Lines {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let numbers = (0..).map(|line| found.line_number().map(|first| first + line));
        for (line, number) in found.lines().zip(numbers) {
            if !self.take(line, number, ':') {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.take(found.bytes(), found.line_number(), '-'))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        Ok(self.is_first || self.page.push("--".to_owned()))
    }
}

#[cfg(test)]
#[path = "grep_tests.rs"]
mod tests;
