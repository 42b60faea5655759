use std::time::UNIX_EPOCH;

use super::*;
use workshop::store::Bounds;

const DEED: Deed<'_> =
    Deed { what: "hook-install", session: "settings", made: None, now: UNIX_EPOCH };

#[allow(clippy::disallowed_methods, reason = "tests make the files they need")]
fn put(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

/// What another program wrote while the question was open is kept.
#[test]
fn settings_that_changed_since_are_left_alone() {
    for before in [Some("{}"), None] {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::at(folder.path().join("journal"), Bounds::default());
        let path = folder.path().join("settings.json");
        if let Some(before) = before {
            put(&path, before);
        }
        let settings = Settings::read(folder.path()).unwrap();
        put(&path, "{\"theirs\": 1}");
        let refused = write(&journal, DEED, &settings, "{\"ours\": 1}").unwrap_err();
        assert!(format!("{refused:?}").contains("has changed since"), "{refused:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"theirs\": 1}");
        assert!(journal.entries().unwrap().is_empty());
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
}
