use std::fs;

use super::*;

fn items(list: &[&str]) -> Vec<String> {
    list.iter().map(|item| (*item).to_owned()).collect()
}

#[test]
fn only_the_list_changes() {
    let old = r#"{"model":"opus","permissions":{"deny":["Read(./x)"],"allow":["Bash(ls)",5]},"env":{"A":"b"}}"#;
    let new = changed(old, "allow", Change::Add, &items(&["Bash(ls)", "Edit"])).unwrap();
    let expected = r#"{
  "model": "opus",
  "permissions": {
    "deny": [
      "Read(./x)"
    ],
    "allow": [
      "Bash(ls)",
      5,
      "Edit"
    ]
  },
  "env": {
    "A": "b"
  }
}
"#;
    assert_eq!(new, expected);
    let new = changed(&new, "allow", Change::Remove, &items(&["Bash(ls)"])).unwrap();
    let new = changed(&new, "deny", Change::Replace, &items(&["WebFetch"])).unwrap();
    let value: Value = serde_json::from_str(&new).unwrap();
    assert_eq!(
        value["permissions"],
        serde_json::json!({"deny": ["WebFetch"], "allow": [5, "Edit"]})
    );
}

#[test]
fn what_is_not_understood_stays_as_it_is() {
    for old in ["[]", "{", r#"{"permissions":5}"#, r#"{"permissions":{"allow":"x"}}"#] {
        assert!(changed(old, "allow", Change::Add, &items(&["Edit"])).is_err(), "{old}");
    }
    assert!(changed("", "allow", Change::Add, &items(&["Edit"])).is_ok());
}

#[cfg(unix)]
#[test]
fn a_link_in_a_project_is_not_followed() {
    use std::os::unix::fs::symlink;
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join(".claude");
    fs::create_dir(&folder).unwrap();
    fs::write(place.path().join("users"), "{}").unwrap();
    let path = folder.join("settings.local.json");
    symlink(place.path().join("users"), &path).unwrap();
    let root = place.path().to_owned();
    let mut file = PermissionFile {
        destination: "localSettings",
        path: path.clone(),
        root,
        is_in_project: true,
    };
    assert!(file.write("allow", Change::Add, &items(&["Edit"])).is_err());
    assert_eq!(fs::read_to_string(place.path().join("users")).unwrap(), "{}");
    // The user's own file may be one.
    file.is_in_project = false;
    file.write("allow", Change::Add, &items(&["Edit"])).unwrap();
    assert!(path.is_symlink());
    assert!(fs::read_to_string(place.path().join("users")).unwrap().contains("Edit"));
    fs::remove_file(&path).unwrap();
    file.is_in_project = true;
    file.write("allow", Change::Add, &items(&["Edit"])).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains("Edit"));
}
