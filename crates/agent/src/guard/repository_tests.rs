use std::fs;

use super::*;

#[test]
fn a_configuration_that_git_could_obey_is_not_harmless() {
    let made = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n[remote \"origin\"]\n\turl = /srv/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";
    assert!(is_harmless_config(made));
    for text in [
        "[core]\nfsmonitor = evil",
        "[core] fsmonitor = evil",
        "[core]fsmonitor=evil]",
        "[remote \"x\"]uploadpack=evil ]",
        "[remote \"x\"] uploadpack = \"a]\"]",
        "[remote \"x\"]\nuploadpack = evil",
        "[remote \"x\"]\nurl = ext::sh -c evil",
        "[remote \"x\"]\nurl = \\\n[core]\nfsmonitor = evil",
        "[branch \"x\"]\nremote = ext::sh -c evil",
        "[include]\npath = evil",
        "[includeIf \"gitdir:/\"]\npath = evil",
        "[alias]\nst = !evil",
        "[filter \"x\"]\nclean = evil",
        "[extensions]\nworktreeConfig = true",
        "url = evil",
    ] {
        assert!(!is_harmless_config(text), "{text}");
    }
}

#[test]
fn another_folder_for_a_repository_is_never_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let git = folder.path().join(".git");
    fs::create_dir_all(git.join("info")).unwrap();
    fs::create_dir_all(git.join("worktrees/w")).unwrap();
    fs::create_dir_all(git.join("modules/a/b")).unwrap();
    for name in ["commondir", "worktrees/w/commondir", "info/exclude", "modules/a/b/HEAD"] {
        fs::write(git.join(name), "../evil").unwrap();
    }
    fs::write(git.join("modules/a/b/config"), "").unwrap();
    let mut found = obeyed(&git);
    found.sort();
    let names = ["commondir", "info", "modules/a/b/config", "worktrees/w/commondir"];
    assert_eq!(found, names.map(|name| git.join(name)));
    assert!(!is_harmless(&git.join("commondir")));
    assert!(is_harmless(&git.join("info/exclude")));
}

#[test]
fn what_a_configuration_names_is_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    let git = root.join(".git");
    for name in [".git/rebase-merge", "tools/hooks", "deep"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    fs::write(root.join("deep/config"), "").unwrap();
    let config = "[core]\n\thooksPath = tools/hooks\n[include] path = \"../deep/config\"\n[include]\n\tpath = /etc/passwd\n";
    fs::write(git.join("config"), config).unwrap();
    fs::write(git.join("rebase-merge/git-rebase-todo"), "pick 1\n").unwrap();
    let expected = [git.join("config"), root.join("tools/hooks"), root.join("deep/config")];
    assert_eq!(obeyed(&git), expected);
    fs::write(git.join("rebase-merge/git-rebase-todo"), "pick 1\n x evil\n").unwrap();
    assert_eq!(obeyed(&git).last(), Some(&git.join("rebase-merge/git-rebase-todo")));
}

#[test]
fn git_runs_nothing_where_no_repository_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    let repository = |name: &str, config: &str| {
        for inner in ["objects", "refs", "hooks"] {
            fs::create_dir_all(root.join(name).join(inner)).unwrap();
        }
        fs::write(root.join(name).join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(root.join(name).join("config"), config).unwrap();
    };
    let (plain, evil) = ("[core]\nbare = false\n", "[core]\nfsmonitor = evil\n");
    repository("a/.git", plain);
    fs::create_dir_all(root.join("a/src")).unwrap();
    assert!(runs_nothing(&root.join("a/src"), None));
    // A folder that is a repository itself, also behind a `.git` that is none.
    repository("a/vendor", evil);
    assert!(!runs_nothing(&root.join("a/vendor"), None));
    assert!(!runs_nothing(&root.join("a/vendor/refs"), Some(&root.join("a"))));
    fs::create_dir_all(root.join("a/vendor/.git")).unwrap();
    assert!(!runs_nothing(&root.join("a/vendor"), None));
    repository("b/.git", evil);
    assert!(!runs_nothing(&root.join("b"), None));
    assert!(runs_nothing(&root.join("b"), Some(&root.join("b"))));
    // One that is elsewhere, hooks, and a repository among its files.
    fs::create_dir_all(root.join("c")).unwrap();
    fs::write(root.join("c/.git"), "gitdir: ../b/.git\n").unwrap();
    assert!(!runs_nothing(&root.join("c"), None));
    fs::write(root.join("a/.git/hooks/x.sample"), "").unwrap();
    assert!(runs_nothing(&root.join("a"), None));
    fs::write(root.join("a/.git/index"), [1, 0, 0, 0xe0, 0, 1]).unwrap();
    assert!(!runs_nothing(&root.join("a"), None));
    fs::remove_file(root.join("a/.git/index")).unwrap();
    fs::write(root.join("a/.git/hooks/post-index-change"), "").unwrap();
    assert!(!runs_nothing(&root.join("a"), None));
}

#[cfg(unix)]
#[test]
fn hooks_that_are_links_are_obeyed_where_they_lead() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    let git = root.join(".git");
    fs::create_dir_all(&git).unwrap();
    fs::create_dir_all(root.join("scripts/hooks")).unwrap();
    fs::write(root.join("scripts/check.sh"), "").unwrap();
    symlink("../scripts/hooks", git.join("hooks")).unwrap();
    symlink("../check.sh", root.join("scripts/hooks/pre-commit")).unwrap();
    symlink("/etc/passwd", root.join("scripts/hooks/pre-push")).unwrap();
    symlink("scripts", root.join("tools")).unwrap();
    fs::write(git.join("config"), "[core]\n\thooksPath = tools/hooks ; ours\n").unwrap();
    let mut found = obeyed(&git);
    found.sort();
    let names = [".git/config", ".git/hooks", "scripts/check.sh", "scripts/hooks", "tools"];
    assert_eq!(found, names.map(|name| root.join(name)));
}
