use std::fs;

use super::*;

fn list(folders: &[&Path]) -> TrustList {
    let folders = folders.iter().map(|folder| folder.display().to_string()).collect();
    TrustList { folders }
}

#[test]
fn trust_covers_what_is_below_except_nested_repositories() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let folder = |name: &str| {
        fs::create_dir_all(root.join(name)).unwrap();
        root.join(name)
    };
    let project = folder("project");
    folder("project/.git");
    let (plain, vendored) = (folder("project/src/deep"), folder("project/vendor/lib/src"));
    folder("project/vendor/lib/.git");
    let (worktree, bare) = (folder("project/tree/a"), folder("project/pkg"));
    fs::write(root.join("project/tree/.git"), "gitdir: elsewhere").unwrap();
    for name in ["objects", "refs"] {
        folder(&format!("project/pkg/{name}"));
    }
    fs::write(bare.join("HEAD"), "ref: refs/heads/main").unwrap();
    let trusted = list(&[&project]);
    for (folder, expected) in [
        (&project, Trust::Trusted),
        (&plain, Trust::Trusted),
        (&vendored, Trust::Untrusted),
        (&worktree, Trust::Untrusted),
        (&bare, Trust::Untrusted),
        (&folder("project-2"), Trust::Untrusted),
        (&root, Trust::Untrusted),
    ] {
        assert_eq!(trusted.covers(folder, None), expected, "{}", folder.display());
    }
    // Each can be trusted by its own name.
    assert_eq!(list(&[&bare]).covers(&bare, None), Trust::Trusted);
}

#[test]
fn a_home_is_never_trusted_as_a_whole() {
    let home = Path::new("/home/u");
    for folder in ["/", "/home", "/home/u"] {
        let added = TrustList::default().add(Path::new(folder), Some(home));
        assert_eq!(added, Err(Untrustable::TooWide), "{folder}");
        // Nor if a person writes it into the list.
        let list = list(&[Path::new(folder)]);
        assert_eq!(list.covers(Path::new("/home/u/x"), Some(home)), Trust::Untrusted);
    }
    let mut list = TrustList::default();
    assert_eq!(list.add(Path::new("/home/u/x"), Some(home)), Ok(true));
    assert_eq!(list.add(Path::new("/home/u/x"), Some(home)), Ok(false));
    assert_eq!(list.covers(Path::new("/home/u/x/y"), Some(home)), Trust::Trusted);
    assert_eq!(TrustList::parse(&list.text()).unwrap(), list);
}

#[test]
fn a_damaged_list_is_none() {
    let whole = list(&[Path::new("/a/b")]).text();
    for end in 0..whole.trim_end().len() {
        assert!(TrustList::parse(&whole[..end]).is_err(), "{}", &whole[..end]);
    }
    for bad in ["a", "", "/a/../b", "/a/./b", "/a//b", "/a/", "/a\\u0000", "/a\\nb"] {
        let text = format!("{{\"folders\": [\"{bad}\"]}}");
        assert!(TrustList::parse(&text).is_err(), "{text}");
    }
    for text in ["[]", "{}", "null", "{\"folders\": [1]}", "{\"folders\": [], \"x\": 1}"] {
        assert!(TrustList::parse(text).is_err(), "{text}");
    }
}
