//! Texts as words of a shell.

/// A text as one word of a shell, whatever is in it.
pub fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_text_is_one_word_with_what_it_was() {
        assert_eq!(single_quoted(""), "''");
        assert_eq!(single_quoted("a $b `c`\n"), "'a $b `c`\n'");
        assert_eq!(single_quoted("it's"), r"'it'\''s'");
    }
}
