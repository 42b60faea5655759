use super::*;

#[test]
fn settings_are_read() {
    let text = "homes = [\"/a\", \"/b\"]\ncolor = \"never\"\n";
    let config = Config::parse(text, Path::new("config.toml")).unwrap();
    assert_eq!(config.homes, [PathBuf::from("/a"), PathBuf::from("/b")]);
    assert_eq!(config.color, Some(Color::Never));
    assert_eq!(Config::parse("", Path::new("x")).unwrap(), Config::default());
}

#[test]
fn how_long_changes_are_kept_is_read() {
    let bounds = |text: &str| Config::parse(text, Path::new("config.toml")).unwrap().undo.bounds();
    assert_eq!(bounds(""), Bounds { days: 90, bytes: 5_000_000_000 });
    let text = "[undo]\nkeep_days = 7\nkeep_bytes = 1_000\n";
    assert_eq!(bounds(text), Bounds { days: 7, bytes: 1_000 });
    assert!(Config::parse("[undo]\nkeep = 1\n", Path::new("config.toml")).is_err());
}

#[test]
fn several_homes_may_be_named_at_once() {
    assert_eq!(split_homes("/a, /b,"), [PathBuf::from("/a"), PathBuf::from("/b")]);
    let folder = tempfile::Builder::new().suffix("with,comma").tempdir().unwrap();
    assert_eq!(split_homes(folder.path().to_str().unwrap()), [folder.path()]);
}
