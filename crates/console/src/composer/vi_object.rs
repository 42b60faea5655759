//! Text objects of vi: a word, what is between quotes or brackets.

use std::ops::Range;

use super::Composer;

impl Composer {
    /// The object that a key names, around the caret; with what surrounds it for `a`.
    pub(super) fn object(&self, key: char, is_around: bool) -> Option<Range<usize>> {
        match key {
            'w' => self.word_object(is_around, |c| {
                if c.is_alphanumeric() || c == '_' { 2 } else { usize::from(!c.is_whitespace()) }
            }),
            'W' => self.word_object(is_around, |c| usize::from(!c.is_whitespace())),
            '"' | '\'' | '`' => self.quoted_object(key, is_around),
            '(' | ')' | 'b' => self.bracket_object(('(', ')'), is_around),
            '[' | ']' => self.bracket_object(('[', ']'), is_around),
            '{' | '}' | 'B' => self.bracket_object(('{', '}'), is_around),
            '<' | '>' => self.bracket_object(('<', '>'), is_around),
            _ => None,
        }
    }

    /// Characters of the same kind around the caret; `a` takes the spaces after them, or before
    /// them if there are none.
    fn word_object(&self, is_around: bool, kind: impl Fn(char) -> usize) -> Option<Range<usize>> {
        let (first, last) = (self.line_start(self.at), self.line_end(self.at));
        let here = kind(self.text[self.at..last].chars().next()?);
        let is_other = |c: char| kind(c) != here;
        let before = &self.text[first..self.at];
        let start = before
            .rfind(is_other)
            .map_or(first, |at| first + at + before[at..].chars().next().map_or(1, char::len_utf8));
        let end = self.text[self.at..last].find(is_other).map_or(last, |at| self.at + at);
        if !is_around {
            return Some(start..end);
        }
        let after = self.text[end..last].trim_start().len();
        let end_with = last - after;
        let start_with = first + self.text[first..start].trim_end().len();
        Some(if end_with > end { start..end_with } else { start_with..end })
    }

    /// What is between two quotes of the line.
    fn quoted_object(&self, quote: char, is_around: bool) -> Option<Range<usize>> {
        let (first, last) = (self.line_start(self.at), self.line_end(self.at));
        let places: Vec<usize> =
            self.text[first..last].match_indices(quote).map(|(at, _)| first + at).collect();
        let pair = places.chunks_exact(2).find(|pair| self.at <= pair[1])?;
        Some(if is_around { pair[0]..pair[1] + 1 } else { pair[0] + 1..pair[1] })
    }

    /// What is between the nearest brackets around the caret.
    fn bracket_object(&self, (open, close): (char, char), is_around: bool) -> Option<Range<usize>> {
        let is_on = |c: char| self.text[self.at..].starts_with(c);
        let mut depth = 0;
        let start = if is_on(open) {
            self.at
        } else {
            let before = self.text[..self.at].char_indices().rev();
            let mut found = None;
            for (at, c) in before {
                match c {
                    c if c == close => depth += 1,
                    c if c == open && depth == 0 => {
                        found = Some(at);
                        break;
                    }
                    c if c == open => depth -= 1,
                    _ => {}
                }
            }
            found?
        };
        depth = 0;
        let inside = start + open.len_utf8();
        let end = self.text[inside..].char_indices().find_map(|(at, c)| {
            if c == open {
                depth += 1;
            } else if c == close {
                if depth == 0 {
                    return Some(inside + at);
                }
                depth -= 1;
            }
            None
        })?;
        Some(if is_around { start..end + close.len_utf8() } else { inside..end })
    }
}
