use super::*;

#[test]
fn what_is_built_in_is_plain() {
    // Nothing in it could end its element, and no charset changes it.
    assert!(SCRIPT.is_ascii() && STYLE.is_ascii());
    assert!(!SCRIPT.contains("</") && !STYLE.contains("</") && !SCRIPT.contains("<!--"));
    // Nothing is fetched from elsewhere, and no text becomes code.
    for word in ["http:", "https:", "eval(", "Function(", "document.write", "@import", "url("] {
        assert!(!SCRIPT.contains(word) && !STYLE.contains(word), "{word}");
    }
}

#[test]
fn policies_allow_only_hashes() {
    for policy in [&*SERVED, &*OF_FILE] {
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    }
    assert!(!OF_FILE.contains("'self'"));
}
