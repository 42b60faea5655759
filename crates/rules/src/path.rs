//! Patterns of paths, as in `.gitignore`, and where they begin.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

/// A pattern of a rule, ready to be compared.
#[derive(Clone, Debug)]
pub struct Pattern {
    matchers: Vec<GlobMatcher>,
    /// The same, with letters as they are.
    exact: Vec<GlobMatcher>,
    /// The path that it means, if it means a single one and all below it.
    pub literal: Option<PathBuf>,
    /// The folder in which it begins, what follows, and whether that may be anywhere below.
    start: PathBuf,
    open: String,
    is_anywhere: bool,
}

impl Pattern {
    /// Reads a pattern: `//x` is absolute, `~/x` in the home folder, `/x` where the rule's settings
    /// are, `x` anywhere below the working folder, all others in the working folder.
    pub fn new(text: &str, cwd: &Path, root: &Path, home: Option<&Path>) -> Pattern {
        let (base, rest, is_anywhere) = if let Some(rest) = text.strip_prefix("//") {
            (Path::new("/"), rest, false)
        } else if let Some(rest) = text.strip_prefix("~/") {
            (home.unwrap_or(Path::new("/")), rest, false)
        } else if let Some(rest) = text.strip_prefix('/') {
            (root, rest, false)
        } else if let Some(rest) = text.strip_prefix("./") {
            (cwd, rest, false)
        } else {
            let is_name = !text.trim_end_matches('/').contains('/');
            (cwd, text, is_name)
        };
        let (mut base, mut rest) = (base, rest);
        while let Some((first, more)) = rest.split_once('/').filter(|_| !is_anywhere) {
            match first {
                "." | "" => {}
                ".." => base = base.parent().unwrap_or(base),
                _ => break,
            }
            rest = more;
        }
        Pattern::below(base, rest, is_anywhere)
    }

    fn below(base: &Path, rest: &str, is_anywhere: bool) -> Pattern {
        let rest = rest.trim_end_matches('/');
        let folder = rest.strip_suffix("/**").or((rest == "**").then_some(""));
        let stem = folder.unwrap_or(rest);
        let has_signs = |text: &str| text.contains(['*', '?', '[', '{']);
        let is_literal = !has_signs(stem) && !is_anywhere;
        let literal = is_literal.then(|| plain(&base.join(stem)));
        let (mut start, mut open) = (base.to_owned(), rest);
        while let Some((first, more)) = open.split_once('/').filter(|_| !is_anywhere) {
            if has_signs(first) || first.contains('\\') {
                break;
            }
            start.push(first);
            open = more;
        }
        let open = open.to_owned();
        let base = globset::escape(&base.to_string_lossy());
        let base = base.trim_end_matches('/');
        let inner =
            if is_anywhere { format!("{base}/**/{rest}") } else { format!("{base}/{rest}") };
        let texts = [inner.clone(), format!("{inner}/**")];
        let matcher = |text: &String, ignores_case: bool| {
            let mut builder = GlobBuilder::new(text);
            builder.literal_separator(true).backslash_escape(true);
            builder.case_insensitive(ignores_case);
            builder.build().ok().map(|glob| glob.compile_matcher())
        };
        let all = |ignores_case: bool| {
            texts.iter().filter_map(|text| matcher(text, ignores_case)).collect()
        };
        Pattern { matchers: all(true), exact: all(false), literal, start, open, is_anywhere }
    }

    /// The same pattern where links lead the folder in which it begins; None if that is the same
    /// folder, or if it means a single path.
    pub(crate) fn led(&self, real: &dyn Fn(&Path) -> PathBuf) -> Option<Pattern> {
        let start = real(&self.start);
        let is_other = self.literal.is_none() && start != self.start;
        is_other.then(|| Pattern::below(&start, &self.open, self.is_anywhere))
    }

    /// Whether a path matches with the letters as they are: another one is another file.
    pub(crate) fn matches_exactly(&self, path: &Path) -> bool {
        self.exact.iter().any(|matcher| matcher.is_match(path))
            || self.literal.as_ref().is_some_and(|literal| path == literal)
    }

    /// Whether a path matches; letters match in either case.
    pub fn matches(&self, path: &Path) -> bool {
        self.matchers.iter().any(|matcher| matcher.is_match(path))
            || self.literal.as_ref().is_some_and(|literal| path == literal)
    }
}

/// Whether a path that is a pattern of file names, as in a shell, may mean another path.
pub(crate) fn glob_fits(pattern: &Path, path: &Path) -> bool {
    let glob = GlobBuilder::new(&pattern.to_string_lossy())
        .case_insensitive(true)
        .literal_separator(true)
        .build();
    glob.map_or(true, |glob| glob.compile_matcher().is_match(path))
}

/// An absolute path without `.` and `..`.
pub fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = plain.pop(),
            part => plain.push(part),
        }
    }
    plain
}
