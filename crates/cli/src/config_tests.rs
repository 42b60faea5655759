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
fn several_homes_may_be_named_at_once() {
    assert_eq!(split_homes("/a, /b,"), [PathBuf::from("/a"), PathBuf::from("/b")]);
    let folder = tempfile::Builder::new().suffix("with,comma").tempdir().unwrap();
    assert_eq!(split_homes(folder.path().to_str().unwrap()), [folder.path()]);
}
