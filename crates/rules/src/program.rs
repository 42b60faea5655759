//! The programs that are known to run others, or texts, and how they are asked to.
//!
//! A name is known with a version or a target around it, too: `python3.12`, `vim.tiny`,
//! `x86_64-linux-gnu-gcc-12`.

/// Programs that run what is somewhere among their arguments.
const WRAPPERS: &str = "aa-exec alacritty ansible aws-vault builtin busybox bwrap caffeinate \
    capsh catchsegv cgexec \
    choom chpst chronic chroot chrt command coproc cpulimit cross-env daemonize \
    dbus-launch dbus-run-session doas dtach dumb-init eatmydata entr env envdir eval exec \
    fakeroot faketime fd fdfind find firejail flock foot gdb gnome-terminal gosu heaptrack \
    hyperfine ifne ionice jexec kitty konsole linux32 linux64 logsave ltrace mosh newgrp nice \
    nix-shell nocache nohup nsenter numactl parallel perf pkexec prlimit proot proxychains \
    proxychains4 rlogin rlwrap rr rsh run-parts runcon runuser rxvt s6-setuidgid schroot screen \
    script sem setarch setpriv setsid setuidgid sg softlimit sops ssh ssh-agent sshpass st \
    start-stop-daemon stdbuf strace su sudo systemd-inhibit systemd-run taskset tcpserver time \
    timeout tini tmux torify torsocks toybox trap uclampset unbuffer unshare urxvt valgrind \
    watch watchexec wezterm xargs xinit xterm xvfb-run zargs";

/// Programs with commands of their own, of which these run what follows.
const RUNNERS: &[(&str, &[&str])] = &[
    ("npm pnpm yarn bun", &["exec", "x", "dlx"]),
    ("bundle direnv ip kubectl mise oc", &["exec", "x"]),
    ("conda doppler dotenv hatch mamba pdm pipenv poetry rustup rye uv", &["run"]),
    ("bunx npx pipx uvx", &["-c", "--call"]),
    ("cmake", &["-E"]),
    (
        "asdf concurrently docker foreman lerna lxc machinectl nerdctl nix nodemon podman rbenv \
            vagrant",
        &[],
    ),
];

/// Those of the wrappers that run what follows their options, and nothing else.
const PLAIN: &str = "builtin chronic command doas eatmydata env exec ifne ionice ltrace nice \
    nocache nohup setsid stdbuf strace sudo time unbuffer";

/// Those that put their words together to a text for a shell.
const JOINING: &str = "eval ssh watch";

/// Those that start a shell if no program is named, and how many words they take before it.
const STARTING: &[(&str, usize)] = &[
    ("chroot", 1),
    ("doas", 0),
    ("fakeroot", 0),
    ("mosh", 1),
    ("newgrp", 1),
    ("nix-shell", 0),
    ("nsenter", 0),
    ("runuser", 1),
    ("schroot", 0),
    ("screen", 0),
    ("script", 1),
    ("sg", 1),
    ("ssh", 1),
    ("su", 1),
    ("sudo", 0),
    ("tmux", 0),
    ("unshare", 0),
];

/// Programs that run a text.
const SHELLS: &str = "ash bash busybox csh dash elvish fish ksh mksh nu oksh osh posh rbash rksh \
    rzsh sh tcsh yash zsh";

/// Programs whose words are never run.
const INERT: &str = "basename cat chmod chown cmp cp cut date diff dirname du echo egrep false \
    fgrep file git grep head ln ls md5sum mkdir mv nl printf pwd readlink realpath rev rm rmdir \
    sha256sum \
    sleep stat tac tail tee test touch tr tree true type uniq wc which [";

/// Programs that obey commands in what they read, some of which start programs.
const OBEYING: &str = "R dc ed ex ftp gdb ghci gnuplot irb jshell lftp lldb mysql nvim octave psql \
    sftp \
    sqlite3 vi view vim";

/// A language: its program, and the options of that before a text, as letters and as names.
pub(crate) type Language = (&'static str, &'static str, &'static [&'static str]);

/// Programs that run a text of another language, and the options before it: single letters, and
/// long names.
const LANGUAGES: &[Language] = &[
    ("bun", "ep", &["--eval", "--print", "eval", "exec"]),
    ("clisp", "x", &[]),
    ("clj", "eM", &["--eval"]),
    ("clojure", "eM", &["--eval"]),
    ("coffee", "e", &["--eval"]),
    ("crystal", "", &["eval"]),
    ("csi", "e", &[]),
    ("dc", "ef", &["--expression", "--file"]),
    ("deno", "", &["eval", "repl"]),
    ("duckdb", "cs", &["-cmd", "-init"]),
    ("ecl", "", &["--eval", "-eval"]),
    ("elixir", "e", &["--eval", "--rpc-eval"]),
    ("emacs", "fl", &["--eval", "--execute", "--funcall", "--load", "--script"]),
    ("emacsclient", "e", &["--eval"]),
    ("erl", "", &["-eval"]),
    ("ex", "cSs", &["--cmd"]),
    ("expect", "c", &[]),
    ("ghc", "e", &[]),
    ("ghci", "e", &[]),
    ("gjs", "c", &["--command"]),
    ("gnuplot", "e", &[]),
    ("gosh", "e", &[]),
    ("groovy", "e", &[]),
    ("guile", "ce", &[]),
    ("ipython", "c", &[]),
    ("iex", "e", &["--eval", "--rpc-eval"]),
    ("irb", "e", &[]),
    ("janet", "e", &[]),
    ("jrunscript", "e", &[]),
    ("jshell", "", &[]),
    ("julia", "eE", &["--eval", "--print"]),
    ("jython", "c", &[]),
    ("kotlin", "e", &[]),
    ("lua", "e", &[]),
    ("luajit", "e", &[]),
    ("m4", "D", &[]),
    ("micropython", "c", &[]),
    ("mongosh", "", &["--eval"]),
    ("node", "epr", &["--eval", "--print", "--require", "--import"]),
    ("nodejs", "epr", &["--eval", "--print", "--require", "--import"]),
    ("nvim", "cSsul", &["--cmd"]),
    ("octave", "", &["--eval"]),
    ("osascript", "e", &[]),
    ("perl", "eEM", &[]),
    ("php", "rBRE", &["--run"]),
    ("powershell", "cCeE", &["-Command", "-EncodedCommand"]),
    ("pwsh", "cCeE", &["-Command", "-EncodedCommand"]),
    ("pypy", "c", &[]),
    ("python", "c", &[]),
    ("qjs", "e", &["--eval"]),
    ("R", "e", &[]),
    ("racket", "e", &["--eval"]),
    ("raku", "e", &[]),
    ("Rscript", "e", &[]),
    ("ruby", "e", &[]),
    ("sbcl", "", &["--eval"]),
    ("scala", "e", &[]),
    ("swift", "e", &[]),
    ("tcc", "", &["-run"]),
    ("tclsh", "", &[]),
    ("tsx", "ep", &["--eval", "--print"]),
    ("vi", "cSsu", &["--cmd"]),
    ("view", "cSsu", &["--cmd"]),
    ("vim", "cSsu", &["--cmd"]),
    ("wish", "", &[]),
    ("xonsh", "c", &[]),
];

/// Options that name a program, or a text that is run, by the programs that have them.
const RUNNING: &[(&str, &[&str])] = &[
    ("ag", &["--pager"]),
    ("apt", &["-o", "--option", "-c"]),
    ("apt-get", &["-o", "--option", "-c"]),
    ("bat", &["--pager"]),
    ("bsdtar", TAR),
    ("c++", COMPILER),
    ("cargo", &["--config"]),
    ("cc", COMPILER),
    ("clang", COMPILER),
    ("clang++", COMPILER),
    ("cpio", &["--rsh-command"]),
    ("delta", &["--pager"]),
    ("diff3", &["--diff-program"]),
    ("g++", COMPILER),
    ("gcc", COMPILER),
    ("gdb", &["-ex", "-iex", "-x", "-ix", "--eval-command", "--command", "--init-command"]),
    ("gmake", &["-E", "--eval"]),
    ("go", &["-exec", "-toolexec", "-vettool"]),
    ("gtar", TAR),
    ("install", &["--strip-program"]),
    ("java", &["-XX:OnError", "-XX:OnOutOfMemoryError", "-agentpath", "-agentlib", "-javaagent"]),
    ("less", &["+!", "++!", "+|", "++|", "-k", LESSKEY[0], LESSKEY[1], LESSKEY[2]]),
    ("lldb", &["-o", "-O", "-s", "--one-line", "--source"]),
    ("make", &["-E", "--eval"]),
    ("man", &["-P", "--pager", "-H", "--html", "-C", "--config-file"]),
    ("mix", &["-e", "--eval"]),
    ("mysql", &["-e", "--execute"]),
    ("nc", &["-e", "-c"]),
    ("ncat", &["-e", "-c", "--exec", "--sh-exec", "--lua-exec"]),
    ("npm", &["--script-shell", "--node-options"]),
    ("psql", &["-c", "--command"]),
    ("rake", &["-e", "-E", "-p", "--execute"]),
    ("rg", &["--pre"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("scp", &["-o", "-S", "-F"]),
    ("sdiff", &["--diff-program"]),
    ("sftp", &["-o", "-S", "-F"]),
    ("socat", &["EXEC:", "SYSTEM:", "exec:", "system:"]),
    ("sort", &["--compress-program"]),
    ("split", &["--filter"]),
    ("sqlite3", &["-cmd", "--cmd", "-init", "--init"]),
    ("ssh", &["-o", "-F"]),
    ("strace", &["|", "!", "-o|", "-o!"]),
    ("svn", &["--config-option", "--diff-cmd", "--diff3-cmd", "--editor-cmd"]),
    ("tar", TAR),
    ("tcpdump", &["-z"]),
    ("wget", &["-e", "--execute", "--use-askpass"]),
    ("zip", &["-TT", "--unzip-command"]),
];

/// The same of compilers.
const COMPILER: &[&str] = &["-wrapper", "-B", "-fplugin", "-specs", "--specs"];

/// Files and texts by which `less` is told what its keys run, and which variables it has.
const LESSKEY: [&str; 3] = ["--lesskey-file", "--lesskey-src", "--lesskey-content"];

/// The same of `tar`.
const TAR: &[&str] = &[
    "--to-command",
    "--checkpoint-action",
    "-I",
    "--use-compress-program",
    "--rsh-command",
    "--rmt-command",
    "-F",
    "--info-script",
    "--new-volume-script",
];

/// Programs that run what they read, or what is in a file, later or at once.
const READERS: &str = "at batch crontab";

/// The last part of a command's name.
pub(crate) fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Whether a program is this one, perhaps in another version or for another target.
fn is_known(name: &str, known: &str) -> bool {
    let is_version = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    let plain = name.trim_end_matches(is_version);
    let first = name.split('.').next().unwrap_or(name);
    name == known
        || plain == known
        || first.trim_end_matches(is_version) == known
        || plain.rsplit_once('-').is_some_and(|(_, last)| last == known)
}

fn is_in(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == name)
}

/// Whether a program may run its words.
pub(crate) fn is_wrapper(name: &str) -> bool {
    is_in(WRAPPERS, name) || runner(name).is_some()
}

/// By which words a program with commands of its own runs what follows.
pub(crate) fn runner(name: &str) -> Option<&'static [&'static str]> {
    RUNNERS.iter().find(|(names, _)| is_in(names, name)).map(|(_, words)| *words)
}

/// Whether a wrapper runs what follows its options, and nothing else.
pub(crate) fn is_plain(name: &str) -> bool {
    is_in(PLAIN, name)
}

/// Whether a wrapper puts its words together to a text for a shell.
pub(crate) fn joins(name: &str) -> bool {
    is_in(JOINING, name)
}

/// How many words a program takes before the one that it runs instead of a shell.
pub(crate) fn starts_shell(name: &str) -> Option<usize> {
    STARTING.iter().find(|(known, _)| *known == name).map(|(_, words)| *words)
}

/// Whether a program runs a text of a shell.
pub(crate) fn is_shell(name: &str) -> bool {
    SHELLS.split_ascii_whitespace().any(|known| {
        name == known || name.trim_end_matches(|c: char| !c.is_ascii_alphabetic()) == known
    })
}

/// Whether the words of a program are never run.
pub(crate) fn is_inert(name: &str) -> bool {
    is_in(INERT, name)
}

/// Whether a program may run anything that it is told to.
pub(crate) fn runs_anything(name: &str) -> bool {
    is_wrapper(name) || is_shell(name) || language(name).is_some() || naming(name).is_some()
}

/// Whether a program obeys commands in what it reads.
pub(crate) fn obeys(name: &str) -> bool {
    OBEYING.split_ascii_whitespace().any(|known| is_known(name, known))
}

/// Whether a program runs later what it reads.
pub(crate) fn runs_later(name: &str) -> bool {
    is_in(READERS, name)
}

/// The language of which a program runs texts.
pub(crate) fn language(name: &str) -> Option<&'static Language> {
    let found = LANGUAGES.iter().find(|(known, ..)| *known == name);
    found.or_else(|| LANGUAGES.iter().find(|(known, ..)| is_known(name, known)))
}

/// The options of a program that name another one.
pub(crate) fn naming(name: &str) -> Option<&'static [&'static str]> {
    let found = RUNNING.iter().find(|(known, _)| *known == name);
    let found = found.or_else(|| RUNNING.iter().find(|(known, _)| is_known(name, known)));
    found.map(|(_, options)| *options)
}
