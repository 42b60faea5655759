use super::*;

#[test]
fn a_remote_has_no_credentials() {
    for (url, wanted) in [
        ("https://github.com/acme/shop.git", Some("github.com/acme/shop")),
        ("https://anna:ghp_secret@github.com/acme/shop", Some("github.com/acme/shop")),
        ("https://oauth2:a@b@GitLab.example:8443/a/b/c.git/", Some("gitlab.example/a/b/c")),
        ("https://host/x/y.git?token=secret#part", Some("host/x/y")),
        ("git@github.com:acme/shop.git", Some("github.com/acme/shop")),
        ("ssh://git@host:2222/acme/shop.git", Some("host/acme/shop")),
        ("host:shop", Some("host/shop")),
        ("https://[2001:DB8::1]:8443/a/b.git", Some("[2001:db8::1]/a/b")),
        ("ssh://git@[::1]/a/b", Some("[::1]/a/b")),
        ("/srv/git/shop.git", None),
        ("../shop", None),
        ("file:///srv/git/shop.git", None),
        ("C:\\shop", None),
        ("https://host", None),
        ("https://host/a@b", None),
        ("", None),
    ] {
        assert_eq!(remote(url).as_deref(), wanted, "{url}");
    }
}

#[test]
fn origin_comes_first() {
    let config = "[core]\n\tbare = false\n[remote \"fork\"]\n\turl = git@host:me/x.git\n\
                  [remote \"origin\"]\n\tfetch = +refs\n\turl = https://host/we/x\n";
    assert_eq!(remote_in(config).as_deref(), Some("host/we/x"));
    let config = "[remote \"fork\"]\nurl=git@host:me/x.git\n[branch \"url\"]\nurl = host:no\n";
    assert_eq!(remote_in(config).as_deref(), Some("host/me/x"));
    assert_eq!(remote_in("[remote \"origin\"]\n"), None);
    let quoted = "[remote \"origin\"]\n\turl = \"https://me:secret@host/we/x.git\"\n";
    assert_eq!(remote_in(quoted).as_deref(), Some("host/we/x"));
    for comment in [" ; token=hunter2", "\t# token=hunter2", ";hunter2"] {
        let config = format!("[remote \"origin\"]\n\turl = https://host/we/x.git{comment}\n");
        assert_eq!(remote_in(&config).as_deref(), Some("host/we/x"), "{comment}");
    }
}

#[test]
fn folders_and_worktrees_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("repo");
    let inner = root.join("a/b");
    std::fs::create_dir_all(&inner).expect("a folder");
    assert_eq!(project_of(Path::new("relative")), None);
    std::fs::create_dir_all(root.join(".git/worktrees/w")).expect("a folder");
    std::fs::write(root.join(".git/config"), "[remote \"origin\"]\nurl = host:we/x.git\n")
        .expect("a file");
    assert_eq!(project_of(&inner).as_deref(), Some("host/we/x"));
    let tree = folder.path().join("tree");
    std::fs::create_dir_all(&tree).expect("a folder");
    let named = root.join(".git/worktrees/w");
    std::fs::write(named.join("commondir"), "../..\n").expect("a file");
    std::fs::write(tree.join(".git"), format!("gitdir: {}\n", named.display())).expect("a file");
    assert_eq!(project_of(&tree).as_deref(), Some("host/we/x"));
}

#[test]
fn an_image_of_a_system_has_no_id() {
    assert_eq!(
        machine_id("0123456789abcdef0123456789abcdef\n"),
        Some("0123456789abcdef0123456789abcdef")
    );
    for text in ["", "\n", "uninitialized\n"] {
        assert_eq!(machine_id(text), None, "{text:?}");
    }
}

#[test]
fn the_machine_is_named_by_a_hash() {
    let name = hashed("0123456789abcdef");
    assert_eq!(name.len(), 12);
    assert_ne!(name, hashed("another"));
}
