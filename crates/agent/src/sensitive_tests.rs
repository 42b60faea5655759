use std::fs;

use super::*;

#[test]
fn what_decides_what_programs_do() {
    let folder = tempfile::tempdir().unwrap();
    let is = |path: &str| is_sensitive(folder.path(), Path::new(path), None);
    for path in [
        ".gitmodules",
        ".zshenv",
        ".zprofile",
        ".bash_login",
        ".bash_logout",
        ".ripgreprc",
        ".claude.json",
        ".ssh/authorized_keys",
        ".config/git/config",
        ".config/fish/config.fish",
        ".local/bin/ls",
        ".husky/pre-commit",
        "sub/.envrc",
        ".npmrc",
        ".yarnrc.yml",
        ".cargo/config.toml",
        "a/.cargo/config",
        ".devcontainer/devcontainer.json",
        ".pre-commit-config.yaml",
        ".github/workflows/ci.yml",
        "docs/CLAUDE.md",
        "AGENTS.md",
        ".mcp.json",
        ".vscode/tasks.json",
        ".git",
        ".git/hooks/pre-commit",
        ".netrc",
        "lefthook.yml",
        ".exrc",
        "a.code-workspace",
        "sub/x.sublime-project",
        ".devcontainer.json",
        ".helix/languages.toml",
        ".nvim.lua",
        ".git-hooks/pre-commit",
        ".simple-git-hooks.js",
        ".teamcity/settings.kts",
        ".codex/config.toml",
        "opencode.json",
        ".gitpod.yml",
        ".build.yml",
        "Jenkinsfile.release",
        ".tekton/run.yaml",
        ".nvim/init.lua",
        ".mise/config.toml",
        ".autoenv.zsh",
        ".lintstagedrc.js",
        ".clinerules/a.md",
        ".github/instructions/a.md",
    ] {
        assert!(is(path), "{path}");
    }
    for path in [
        "src/main.rs",
        ".gitignore",
        ".github/ISSUE_TEMPLATE.md",
        ".cargo/registry.md",
        "config",
        "HEAD",
        "refs/a",
        "docs/config/a.md",
        "claude.md.txt",
        ".env",
        "README.md",
        "code-workspace",
    ] {
        assert!(!is(path), "{path}");
    }
    assert_eq!(is(".GITMODULES"), cfg!(any(target_os = "macos", windows)));
}

#[test]
fn a_folder_does_not_become_a_repository() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let is = |path: &str| is_sensitive(root, Path::new(path), None);
    // The first parts are ordinary files; the one that completes a repository is refused.
    fs::create_dir_all(root.join("pkg/objects")).unwrap();
    fs::write(root.join("pkg/config"), "").unwrap();
    assert!(!is("pkg/HEAD") && !is("pkg/refs/x") && !is("pkg/config"));
    fs::write(root.join("pkg/HEAD"), "ref: refs/heads/main").unwrap();
    assert!(is("pkg/refs/x") && is("pkg/refs/heads/main") && !is("pkg/readme"));
    assert!(is("pkg/commondir"));
    fs::create_dir_all(root.join("pkg/refs")).unwrap();
    for path in ["pkg/HEAD", "pkg/config", "pkg/hooks/post-checkout", "pkg/objects/x"] {
        assert!(is(path), "{path}");
    }
    assert!(!is("pkg/src/config") && !is("config"));
    // The session's own folder may be one.
    assert!(is_sensitive(&root.join("pkg"), Path::new("config"), None));
}

#[test]
fn in_the_users_own_folder_every_dot_file_is_protected() {
    let is = |folder: &str, path: &str| {
        is_sensitive(Path::new(folder), Path::new(path), Some(Path::new("/home/u")))
    };
    assert!(is("/home/u", ".anything") && is("/home/u", "a/.b/c") && is("/home", "u/.anything"));
    assert!(is("/", "home/u/.anything"));
    assert!(!is("/home/u", "a/b") && !is("/home/u/project", ".anything"));
}
