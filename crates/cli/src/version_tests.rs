use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{client, installed};

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_installed_client_is_found_by_what_is_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let package = at("lib/node_modules/@anthropic-ai/claude-code");
    put(&package.join("cli.js"), "exit 1");
    put(
        &package.join("package.json"),
        r#"{"name": "@anthropic-ai/claude-code", "version": "2.1.45"}"#,
    );
    put(&at("share/claude/versions/2.1.200"), "exit 1");
    put(&at("other/package.json"), r#"{"name": "something", "version": "9.9.9"}"#);
    put(&at("other/claude"), "exit 1");
    for name in ["npm", "native", "empty"] {
        fs::create_dir(at(name)).unwrap();
    }
    std::os::unix::fs::symlink(package.join("cli.js"), at("npm/claude")).unwrap();
    std::os::unix::fs::symlink(at("share/claude/versions/2.1.200"), at("native/claude")).unwrap();
    let found = |names: &[&str]| installed(&names.iter().map(|name| at(name)).collect::<Vec<_>>());
    assert_eq!(found(&["empty", "npm", "native"]).as_deref(), Some("2.1.45"));
    assert_eq!(found(&["native", "npm"]).as_deref(), Some("2.1.200"));
    assert_eq!(found(&["other"]), None);
    assert_eq!(found(&["empty"]), None);
    // What a shell would not run, and what is beside whatever folder is the current one.
    fs::create_dir(at("text")).unwrap();
    fs::write(at("text/claude"), "exit 1").unwrap();
    let folders = [at("text"), Path::new("").into(), Path::new(".").into(), at("native")];
    assert_eq!(client(&folders), Some(at("native/claude")));
}
