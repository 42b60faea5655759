//! Colours in code, line by line, for the languages that models write most.
//!
//! Not a grammar: comments, strings, numbers and keywords by tables, which is quick, needs no data
//! to be loaded, and never waits for the end of a block. Invariant: the text of a line is returned
//! as it came, only in styles.

use crate::text::{Color, Line, Modifier, Span, Style, look, safe};

const KEYWORD: Style = Style::new().fg(Color::Magenta);
const STRING: Style = Style::new().fg(Color::Green);
const NUMBER: Style = Style::new().fg(Color::Yellow);
const TYPE: Style = Style::new().fg(Color::Cyan);
const CALL: Style = Style::new().fg(Color::Blue);
const COMMENT: Style = Style::new().add_modifier(Modifier::DIM);

struct Language {
    names: &'static str,
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    /// What begins and ends a string that may go over several lines.
    long_strings: &'static [&'static str],
    quotes: &'static str,
    keywords: &'static str,
}

const C_BLOCK: Option<(&str, &str)> = Some(("/*", "*/"));

const LANGUAGES: &[Language] = &[
    Language {
        names: "rust rs",
        line_comments: &["//"],
        block_comment: C_BLOCK,
        long_strings: &[],
        quotes: "\"",
        keywords: "as async await break const continue crate dyn else enum extern false fn for if \
                   impl in let loop match mod move mut pub ref return self Self static struct super \
                   trait true type unsafe use where while",
    },
    Language {
        names: "python py python3",
        line_comments: &["#"],
        block_comment: None,
        long_strings: &["\"\"\"", "'''"],
        quotes: "\"'",
        keywords: "False None True and as assert async await break class continue def del elif else \
                   except finally for from global if import in is lambda match nonlocal not or pass \
                   raise return self try while with yield",
    },
    Language {
        names: "javascript js jsx typescript ts tsx mjs cjs json json5 jsonc",
        line_comments: &["//"],
        block_comment: C_BLOCK,
        long_strings: &["`"],
        quotes: "\"'",
        keywords: "abstract any as async await boolean break case catch class const constructor \
                   continue declare default delete do else enum export extends false finally for \
                   from function get if implements import in instanceof interface let namespace new \
                   null number of private protected public readonly return set static string super \
                   switch this throw true try type typeof undefined var void while yield",
    },
    Language {
        names: "bash sh shell zsh console fish",
        line_comments: &["#"],
        block_comment: None,
        long_strings: &[],
        quotes: "\"'",
        keywords: "alias break case cd continue do done echo elif else esac eval exec exit export \
                   false fi for function if in local read return set shift source sudo then trap \
                   true unset until while",
    },
    Language {
        names: "c h cpp c++ cc hpp cxx objc cs csharp java kotlin kt swift scala dart",
        line_comments: &["//"],
        block_comment: C_BLOCK,
        long_strings: &["\"\"\""],
        quotes: "\"'",
        keywords: "abstract as async auto await bool boolean break byte case catch char class const \
                   constexpr continue default delete do double else enum explicit extends extern \
                   false final float for fun func if implements import in inline int interface \
                   internal is let long namespace new null nullptr object override package private \
                   protected public return self short signed sizeof static string struct super \
                   switch template this throw throws true try typedef typename union unsigned using \
                   val var virtual void volatile when while #include #define #ifdef #ifndef #endif \
                   #if",
    },
    Language {
        names: "go golang",
        line_comments: &["//"],
        block_comment: C_BLOCK,
        long_strings: &["`"],
        quotes: "\"'",
        keywords: "break case chan const continue default defer else error fallthrough false for \
                   func go goto if import interface map nil package range return select string \
                   struct switch true type var int bool byte",
    },
    Language {
        names: "ruby rb elixir ex perl pl r julia jl",
        line_comments: &["#"],
        block_comment: None,
        long_strings: &[],
        quotes: "\"'",
        keywords: "alias and begin break case class def defmodule do else elsif end ensure false \
                   for function if in module my next nil not or our redo require rescue retry \
                   return self sub super then true undef unless until use when while yield",
    },
    Language {
        names: "sql postgresql mysql sqlite",
        line_comments: &["--"],
        block_comment: C_BLOCK,
        long_strings: &[],
        quotes: "'\"",
        keywords: "ADD ALTER AND AS ASC BEGIN BETWEEN BY CASE COLUMN COMMIT CREATE DELETE DESC \
                   DISTINCT DROP ELSE END EXISTS FROM GROUP HAVING IN INDEX INNER INSERT INTO IS \
                   JOIN KEY LEFT LIKE LIMIT NOT NULL ON OR ORDER OUTER PRIMARY REFERENCES RIGHT \
                   SELECT SET TABLE THEN UNION UNIQUE UPDATE VALUES VIEW WHEN WHERE WITH",
    },
    Language {
        names: "toml yaml yml ini conf dockerfile docker makefile make cmake properties env nix hcl terraform tf",
        line_comments: &["#", ";"],
        block_comment: None,
        long_strings: &["\"\"\""],
        quotes: "\"'",
        keywords: "true false null yes no on off FROM RUN COPY ADD CMD ENV ARG WORKDIR EXPOSE \
                   ENTRYPOINT USER VOLUME LABEL include define endif ifdef ifeq else",
    },
    Language {
        names: "html xml svg vue svelte css scss less",
        line_comments: &[],
        block_comment: Some(("<!--", "-->")),
        long_strings: &[],
        quotes: "\"'",
        keywords: "html head body div span script style link meta a p ul li table tr td input \
                   button form img color background margin padding display border width height font",
    },
    Language {
        names: "lua haskell hs",
        line_comments: &["--"],
        block_comment: None,
        long_strings: &[],
        quotes: "\"'",
        keywords: "and break case class data deriving do else elseif end false for function if \
                   import in instance let local module nil not of or repeat return then true type \
                   until where while",
    },
];

/// Colours the lines of one block of code.
#[derive(Debug)]
pub struct Highlighter {
    language: Option<usize>,
    is_diff: bool,
    /// What ends the comment or string in which the next line begins, and its style.
    open: Option<(&'static str, Style)>,
}

impl Highlighter {
    /// For a language by a name that Markdown uses, or the ending of a file.
    pub fn new(language: &str) -> Highlighter {
        let name = language.split([' ', ',', '{']).next().unwrap_or_default().to_ascii_lowercase();
        let is_named = |one: &Language| one.names.split(' ').any(|other| other == name);
        let language = LANGUAGES.iter().position(is_named).filter(|_| !name.is_empty());
        Highlighter { language, is_diff: matches!(name.as_str(), "diff" | "patch"), open: None }
    }

    /// For a file by its name.
    pub fn of_file(path: &str) -> Highlighter {
        let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
        let ending = name.rsplit('.').next().unwrap_or_default();
        Highlighter::new(ending)
    }

    /// The next line.
    pub fn line(&mut self, text: &str) -> Line<'static> {
        let text = safe(text);
        if self.is_diff {
            let style = match text.chars().next() {
                Some('+') => look::GOOD,
                Some('-') => look::BAD,
                Some('@') => look::ACCENT,
                _ => Style::new(),
            };
            return Line::from(Span::styled(text, style));
        }
        let Some(language) = self.language.and_then(|at| LANGUAGES.get(at)) else {
            return Line::from(text);
        };
        self.colored(&text, language)
    }

    fn colored(&mut self, text: &str, language: &'static Language) -> Line<'static> {
        let mut line = Painted::default();
        let mut at = 0;
        if let Some((end, style)) = self.open {
            let Some(found) = text.find(end) else {
                return Line::from(Span::styled(text.to_owned(), style));
            };
            at = found + end.len();
            line.add(&text[..at], style);
            self.open = None;
        }
        while at < text.len() {
            let rest = &text[at..];
            let used = self.token(rest, language, line.text.chars().next_back(), &mut line);
            at += used.max(1);
        }
        line.done()
    }

    /// Adds one token to the line. Returns its length.
    fn token(
        &mut self,
        rest: &str,
        language: &'static Language,
        before: Option<char>,
        line: &mut Painted,
    ) -> usize {
        let is_free = before.is_none_or(|c| c.is_whitespace() || "();{}[],".contains(c));
        let comment = |mark: &&str| rest.starts_with(*mark) && (*mark != "#" || is_free);
        if language.line_comments.iter().any(comment) {
            line.add(rest, COMMENT);
            return rest.len();
        }
        let long = language.long_strings.iter().map(|mark| (*mark, *mark, STRING));
        let block = language.block_comment.map(|(start, end)| (start, end, COMMENT));
        for (start, end, style) in long.chain(block) {
            let Some(inside) = rest.strip_prefix(start) else { continue };
            let used = if let Some(found) = inside.find(end) {
                start.len() + found + end.len()
            } else {
                self.open = Some((end, style));
                rest.len()
            };
            line.add(&rest[..used], style);
            return used;
        }
        let Some(first) = rest.chars().next() else { return 0 };
        if language.quotes.contains(first)
            && let Some(used) = string(rest, first)
        {
            line.add(&rest[..used], STRING);
            return used;
        }
        if first.is_alphanumeric() || first == '_' || first == '#' {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let used = rest[first.len_utf8()..].find(|c| !is_part(c));
            let used = used.map_or(rest.len(), |found| found + first.len_utf8());
            let word = &rest[..used];
            let is_upper_keyword = language.names.starts_with("sql");
            let key = if is_upper_keyword { word.to_ascii_uppercase() } else { word.to_owned() };
            let style = if language.keywords.split(' ').any(|one| one == key) {
                KEYWORD
            } else if first.is_ascii_digit() {
                NUMBER
            } else if rest[used..].starts_with('(') {
                CALL
            } else if first.is_uppercase() {
                TYPE
            } else {
                Style::new()
            };
            line.add(word, style);
            return used;
        }
        line.add(&rest[..first.len_utf8()], Style::new());
        first.len_utf8()
    }
}

/// The length of a string that ends on this line; None if it does not: an apostrophe, perhaps.
fn string(rest: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return Some(at + c.len_utf8());
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    None
}

/// A line in the making; neighbours in one style are one span.
#[derive(Default)]
struct Painted {
    text: String,
    spans: Vec<Span<'static>>,
}

impl Painted {
    fn add(&mut self, text: &str, style: Style) {
        self.text.push_str(text);
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(text),
            _ => self.spans.push(Span::styled(text.to_owned(), style)),
        }
    }

    fn done(self) -> Line<'static> {
        Line::from(self.spans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::plain;
    use proptest::prelude::*;

    fn marked(language: &str, text: &str) -> String {
        let mut highlighter = Highlighter::new(language);
        let mut out = String::new();
        for line in text.lines() {
            for span in highlighter.line(line).spans {
                let mark = match span.style {
                    KEYWORD => "k",
                    STRING => "s",
                    NUMBER => "n",
                    TYPE => "t",
                    CALL => "f",
                    COMMENT => "c",
                    _ => "",
                };
                let text = &span.content;
                match mark {
                    "" => out.push_str(text),
                    _ => out.extend(["<", mark, " ", text, ">"]),
                }
            }
            out.push('\n');
        }
        out
    }

    #[test]
    fn what_is_what() {
        assert_eq!(
            marked(
                "rust",
                "fn main() { let x: Vec<u8> = f(\"a\\\"b\", 12); } // end\n/* two\nlines */ x"
            ),
            "<k fn> <f main>() { <k let> x: <t Vec><u8> = <f f>(<s \"a\\\"b\">, <n 12>); } <c // end>\n<c /* two>\n<c lines */> x\n"
        );
        assert_eq!(marked("py", "x = '''a\nb''' # c"), "x = <s '''a>\n<s b'''> <c # c>\n");
        assert_eq!(marked("sql", "select a from b"), "<k select> a <k from> b\n");
        assert_eq!(marked("unknown", "if x"), "if x\n");
        assert_eq!(marked("sh", "echo it's $#"), "<k echo> it's $#\n");
    }

    proptest! {
        #[test]
        fn the_text_stays(text in "\\PC{0,40}", language in prop_oneof![Just("rust"), Just("py"), Just("html"), Just("js")]) {
            prop_assert_eq!(plain(&Highlighter::new(language).line(&text)), safe(&text));
        }
    }
}
