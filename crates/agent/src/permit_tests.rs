use std::fs;
use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::api::script::Script;
use crate::nature::Real;
use crate::tool::Cancel;

fn call(name: &str, input: &serde_json::Value) -> Call {
    let input = input.as_object().cloned().unwrap();
    Call { id: "c".to_owned(), name: name.to_owned(), input, cancel: Cancel::default() }
}

#[test]
fn modes_and_names_decide() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("project");
    fs::create_dir_all(root.join(".git")).unwrap();
    let script = Arc::new(Script::read("{}", &[]).unwrap());
    let site = Site::new(
        &root,
        &folder.path().join("session"),
        None,
        (script, String::new()),
        Arc::new(Real),
    );
    let inside = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let read = call("Read", &json!({"file_path": inside("a")}));
    let read_out = call("Read", &json!({"file_path": inside("../secret")}));
    let write = call("Write", &json!({"file_path": inside("new/a"), "content": ""}));
    let hook = call("Edit", &json!({"file_path": inside(".git/hooks/x")}));
    let bash = call("Bash", &json!({"command": "ls"}));
    let allowed = |permit: &Permit| {
        [&read, &read_out, &write, &hook, &bash].map(|call| permit.check(call, &site).is_ok())
    };
    let mode = |mode| Permit { mode, ..Permit::default() };
    assert_eq!(allowed(&mode(Mode::Default)), [true, false, false, false, false]);
    assert_eq!(allowed(&mode(Mode::AcceptEdits)), [true, false, true, false, false]);
    assert_eq!(allowed(&mode(Mode::Bypass)), [true; 5]);
    let named = Permit { allowed: vec!["Bash".to_owned()], ..Permit::default() };
    assert_eq!(allowed(&named), [true, false, false, false, true]);
    let refused = Permit { refused: vec!["Bash".to_owned()], ..mode(Mode::Bypass) };
    assert_eq!(allowed(&refused), [true, true, true, true, false]);
    let wide = Permit { folders: vec![folder.path().to_owned()], ..Permit::default() };
    assert_eq!(allowed(&wide), [true, true, false, false, false]);
    // A link does not lead out.
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path(), root.join("link")).unwrap();
        let linked = call("Read", &json!({"file_path": inside("link/secret")}));
        assert!(mode(Mode::Default).check(&linked, &site).is_err());
    }
}
