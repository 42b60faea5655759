//! Files that control what programs do. They are not changed without permission.
//!
//! The names are data: what a shell, an editor, git, a package manager, a debugger, a CI system or
//! another agent reads and obeys. The location of the session's folder does not protect a file:
//! only the path below that folder counts. Invariant: both the path as it was named and the path
//! that it leads to are checked.

use std::ffi::OsStr;
use std::path::Path;

/// Everything at or below one of these, wherever it is. In a worktree, `.git` is a file.
const ANYWHERE: &[&str] = &[
    // Version control, and what it runs.
    ".bzr",
    ".git",
    ".git-hooks",
    ".githooks",
    ".hg",
    ".husky",
    ".jj",
    ".pijul",
    ".sl",
    ".svn",
    // Agents and editors, which run tasks and obey instructions.
    ".amazonq",
    ".claude",
    ".clinerules",
    ".codesandbox",
    ".codex",
    ".continue",
    ".cursor",
    ".devcontainer",
    ".emacs.d",
    ".externalToolBuilders",
    ".fleet",
    ".gemini",
    ".helix",
    ".idea",
    ".idx",
    ".junie",
    ".kiro",
    ".nova",
    ".nvim",
    ".opencode",
    ".qwen",
    ".roo",
    ".run",
    ".theia",
    ".trae",
    ".vim",
    ".vscode",
    ".vs",
    ".windsurf",
    ".zed",
    // Keys, and who may log in.
    ".aws",
    ".azure",
    ".docker",
    ".gnupg",
    ".kube",
    ".ssh",
    // What a desktop, a shell or a tool starts.
    ".config",
    ".direnv",
    ".local",
    ".mise",
    ".oh-my-zsh",
    // CI systems.
    ".azure-pipelines",
    ".buildkite",
    ".builds",
    ".circleci",
    ".semaphore",
    ".teamcity",
    ".tekton",
    ".woodpecker",
];

/// Paths of several names, wherever they are, and everything below them. A `*` at the end matches
/// any rest.
const BELOW: &[&[&str]] = &[
    &[".cargo", "bin"],
    &[".cargo", "config*"],
    &[".cargo", "credentials*"],
    &[".forgejo", "workflows"],
    &[".gitea", "workflows"],
    &[".github", "actions"],
    &[".github", "agents"],
    &[".github", "chatmodes"],
    &[".github", "copilot-instructions.md"],
    &[".github", "instructions"],
    &[".github", "prompts"],
    &[".github", "workflows"],
    &[".gitlab", "ci"],
    &[".yarn", "plugins"],
    &[".yarn", "releases"],
    &["Library", "LaunchAgents"],
];

/// Files by their name. A `*` at the end matches any rest, and one at the beginning any start.
const NAMES: &[&str] = &[
    // git: what it runs on which file, and where it fetches from.
    ".gitattributes",
    ".gitconfig*",
    ".gitmodules",
    ".hgrc",
    // Shells, and what else runs at login or on the way into a folder.
    ".autoenv*",
    ".bash_aliases",
    ".bash_env",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc*",
    ".cshrc",
    ".envrc*",
    ".inputrc",
    ".kshrc",
    ".login",
    ".logout",
    ".mkshrc",
    ".pam_environment",
    ".profile",
    ".tcshrc",
    ".xinitrc",
    ".xprofile",
    ".xsession*",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc*",
    // Programs that run what their file contains.
    ".curlrc",
    ".dir-locals.el",
    ".dir-locals-2.el",
    ".devcontainer.json",
    ".emacs",
    ".exrc",
    ".gdbinit",
    ".gvimrc",
    ".irbrc",
    ".lldbinit",
    ".lvimrc",
    ".mailcap",
    ".my.cnf",
    ".nanorc",
    ".nvimrc",
    ".nvim.lua",
    ".pdbrc*",
    ".pryrc",
    ".psqlrc",
    ".ripgreprc",
    ".screenrc",
    ".sqliterc",
    ".tmux.conf",
    ".vimrc*",
    ".wgetrc",
    ".ycm_extra_conf.py",
    "*.code-workspace",
    "*.sublime-project",
    ".Renviron",
    ".Rprofile",
    // Package managers and tool chains: which sources they trust, and what they run.
    ".gemrc",
    ".mise.toml",
    ".mise.local.toml",
    ".netrc",
    ".npmrc",
    ".pnpmfile.cjs",
    ".pypirc",
    ".tool-versions",
    ".yarnrc*",
    "_netrc",
    "mise.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
    // What runs at a commit and in CI.
    ".appveyor.yml",
    ".build.yml",
    ".cirrus.*",
    ".drone.*",
    ".gitlab-ci.*",
    ".gitpod.*",
    ".huskyrc*",
    ".lefthook*",
    ".lintstagedrc*",
    ".overcommit.yml",
    ".pre-commit-config.yaml",
    ".pre-commit-hooks.yaml",
    ".replit",
    ".simple-git-hooks.*",
    ".travis.*",
    ".woodpecker.*",
    ".zuul.yaml",
    "Jenkinsfile*",
    "appveyor.yml",
    "azure-pipelines*",
    "bitbucket-pipelines.yml",
    "bitrise.yml",
    "buildspec.yml",
    "buildspec.yaml",
    "captainhook.json",
    "cloudbuild.yaml",
    "cloudbuild.yml",
    "codemagic.yaml",
    "grumphp.yml*",
    "lefthook.*",
    "lefthook-local.*",
    "lint-staged.config.*",
    // Agents: which programs they start, and what they are told.
    ".aider.conf.yml",
    ".claude.json*",
    ".crush.json",
    ".cursorrules",
    ".goosehints",
    ".mcp.json",
    ".roorules",
    ".windsurfrules",
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.local.md",
    "CLAUDE.md",
    "GEMINI.md",
    "QWEN.md",
    "WARP.md",
    "crush.json",
    "opencode.json",
    "opencode.jsonc",
];

/// Names that git uses in a folder that is itself a repository.
const OF_A_REPOSITORY: &[&str] = &[
    "HEAD",
    "commondir",
    "config",
    "config.worktree",
    "hooks",
    "index",
    "info",
    "modules",
    "objects",
    "packed-refs",
    "refs",
    "worktrees",
];

/// Whether the file at `below` in a session's folder controls what programs do.
pub(crate) fn is_sensitive(folder: &Path, below: &Path, home: Option<&Path>) -> bool {
    let names: Vec<&OsStr> = below.iter().collect();
    let has = |pattern: &[&str]| {
        let is_at =
            |found: &[&OsStr]| found.iter().zip(pattern).all(|(name, part)| fits(name, part));
        names.windows(pattern.len()).any(is_at)
    };
    let last = names.last().copied().unwrap_or_default();
    // A session in the user's home folder works among everything that programs keep there.
    let is_home = home.is_some_and(|home| home.starts_with(folder));
    names.iter().any(|name| ANYWHERE.iter().any(|pattern| fits(name, pattern)))
        || BELOW.iter().any(|pattern| has(pattern))
        || NAMES.iter().any(|pattern| fits(last, pattern))
        || (is_home && names.iter().any(|name| name.as_encoded_bytes().starts_with(b".")))
        || makes_repository(folder, &names)
}

/// Whether a path is part of a folder that is itself a repository, or that becomes one with it: git
/// obeys its `config` like that of `.git`.
fn makes_repository(folder: &Path, names: &[&OsStr]) -> bool {
    let mut around = folder.to_owned();
    names.iter().any(|name| {
        let is_own = OF_A_REPOSITORY.iter().any(|pattern| fits(name, pattern));
        let is_there =
            |child: &str| fits(name, child) || around.join(child).symlink_metadata().is_ok();
        let is_repository = is_own
            && is_there("HEAD")
            && (is_there("commondir") || (is_there("objects") && is_there("refs")));
        around.push(name);
        is_repository
    })
}

/// Whether a name means the same file here as one of the list.
fn fits(name: &OsStr, pattern: &str) -> bool {
    let ignores_case = cfg!(any(target_os = "macos", windows));
    let name = name.as_encoded_bytes();
    // On Windows, some characters at the end of a name are ignored.
    let name = if cfg!(windows) { trimmed(name) } else { name };
    let is_same = |left: &[u8], right: &[u8]| {
        if ignores_case { left.eq_ignore_ascii_case(right) } else { left == right }
    };
    if let Some(end) = pattern.strip_prefix('*') {
        let rest = name.len().checked_sub(end.len()).and_then(|at| name.get(at..));
        return rest.is_some_and(|rest| is_same(rest, end.as_bytes()));
    }
    match pattern.strip_suffix('*') {
        Some(start) => name.get(..start.len()).is_some_and(|name| is_same(name, start.as_bytes())),
        None => is_same(name, pattern.as_bytes()),
    }
}

fn trimmed(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|byte| !b". ".contains(byte)).map_or(0, |last| last + 1);
    &name[..end]
}

#[cfg(test)]
#[path = "sensitive_tests.rs"]
mod tests;
