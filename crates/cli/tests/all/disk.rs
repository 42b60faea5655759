//! A disk that is full, and folders that must not be changed: every command that changes sessions
//! says so, and nothing has happened.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use testkit::session::Script;

use crate::env::Env;

const ONE: &str = "d15c0000-0000-4000-8000-000000000001";
const OTHER: &str = "d15c0000-0000-4000-8000-000000000002";
const KEY: &str = "ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2";

/// Two sessions, the first with a stored result and a sub-agent, and a pack of the second.
fn seeds() -> Env {
    let env = Env::bare();
    let long = "words ".repeat(2_000);
    for id in [ONE, OTHER] {
        let script = Script::new()
            .prompt("p1", "-", &format!("first {long} {KEY}"))
            .call("a1", "p1", "m1", "toolu_1", "Task")
            .result("r1", "a1", "toolu_1", "contents")
            .says("b1", "r1", "m2", "first answer")
            .prompt("p2", "b1", "second")
            .says("a2", "p2", "m3", "second answer");
        let lines = script.text().lines().map(|line| format!("{{\"cwd\":\"/p\",{}\n", &line[1..]));
        let text: String = lines.collect();
        env.put(&format!("seed/{id}.jsonl"), &text);
        env.put(&format!(".claude/projects/-p/{id}.jsonl"), &text);
    }
    let agent = Script::new().prompt("s1", "-", &long).says("s2", "s1", "m9", KEY);
    env.put(&format!("seed/{ONE}/subagents/agent-a1.jsonl"), agent.text());
    env.put(&format!("seed/{ONE}/tool-results/r.txt"), format!("{KEY}\n{long}"));
    let output = env.output(&["pack", OTHER, "-o", "pack.html", "--no-redact"]);
    assert!(output.status.success(), "{}", env.show(&output));
    env
}

/// Sets up a home in `$D` from the seeds; prints, of each command, what came of it.
const FUNCTIONS: &str = r#"
    sums() { (cd "$D" && find .claude -type f | sort | xargs sha256sum; find .claude -name '.quipu*'); }
    fresh() {
        mkdir -p "$D/.claude/projects/-p" "$D/out"
        cp -R "$SEED/." "$D/.claude/projects/-p/"
        find "$D/.claude" -name '*.jsonl' -exec touch -d '1 hour ago' {} +
    }
    try() {
        before=$(sums)
        said=$(env -i PATH="$PATH" HOME="$D" "$QUIPU" $2 2>&1)
        code=$?
        same=changed
        [ "$(sums)" = "$before" ] && same=same
        echo "$1;$2;$code;$same;$(echo "$said" | grep '^error' | head -1)"
    }
"#;

/// What came of a command.
struct Tried {
    size: String,
    command: String,
    code: i32,
    is_same: bool,
    error: String,
}

fn read(env: &Env, text: &str) -> Vec<Tried> {
    let text = env.cleaned(text);
    let lines = text.lines().map(|line| {
        let parts: Vec<&str> = line.splitn(5, ';').collect();
        let [size, command, code, same, error] = parts[..] else { panic!("{text}") };
        Tried {
            size: size.to_owned(),
            command: command.to_owned(),
            code: code.parse().unwrap(),
            is_same: same == "same",
            error: error.to_owned(),
        }
    });
    lines.collect()
}

#[test]
fn on_a_full_disk_a_change_is_made_or_it_is_not() {
    let env = seeds();
    // As much as is left when the command begins, in KB.
    let script = FUNCTIONS.to_owned()
        + r#"
        SEED="$HOME/seed"; PACK="$HOME/pack.html"; D="$HOME/disk"
        for left in 0 24 64; do
            while read -r command; do
                mount -t tmpfs -o size=1m tmpfs "$D" || exit 99
                fresh
                dd if=/dev/zero of="$D/fill" bs=1k 2>/dev/null
                truncate -s -${left}K "$D/fill"
                try $left "$(eval echo $command)"
                umount "$D"
            done <<'END'
                clone ONE
                strip ONE --calls --in-place
                redact ONE
                redact ONE --in-place
                split ONE --at 2
                split ONE --at 2 --in-place
                merge OTHER ONE --in-place
                move ONE /other/place
                rename ONE new
                rm ONE
                rm ONE --purge --yes
                unpack $PACK --yes
                pack ONE -o $D/out/pack.html
END
        done
    "#;
    let script = script.replace("ONE", ONE).replace("OTHER", OTHER);
    let Some(text) = env.on_small_disk("4k", &script) else {
        return println!("not run: no file system can be mounted here");
    };
    let all = read(&env, &text);
    assert_eq!(all.len(), 39, "{text}");
    for tried in &all {
        let what = format!("{} KB left: {}: {}", tried.size, tried.command, tried.error);
        // Who deletes for good may do so to get space back.
        let is_purge = tried.command.contains("--purge");
        if tried.code == 0 || is_purge {
            assert_eq!((tried.code, is_purge || tried.size != "0"), (0, true), "{what}");
            continue;
        }
        assert_eq!((tried.code, tried.is_same), (1, true), "{what}");
        assert!(tried.error.contains("space") && !tried.error.contains(".tmp"), "{what}");
    }
    assert!(all.iter().any(|tried| tried.size == "64" && tried.code == 0), "{text}");
}

#[test]
fn where_nothing_may_be_written_nothing_has_happened() {
    let env = seeds();
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    let other = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let may_become = Command::new("setpriv").args(other).arg("true").status();
    if is_root && !may_become.is_ok_and(|status| status.success()) {
        assert!(!testkit::is_ci(), "in CI nothing is left out");
        return println!("not run: root may do everything, and cannot become another user here");
    }
    let program = env.put("quipu", fs::read(env!("CARGO_BIN_EXE_quipu")).unwrap());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let all = ["-R", "a+rwX", env.path("").to_str().unwrap()].map(str::to_owned);
    assert!(Command::new("chmod").args(all).status().unwrap().success());
    let script = FUNCTIONS.to_owned()
        + r#"
        SEED="$HOME/seed"; PACK="$HOME/pack.html"; D="$HOME/disk"
        P="$D/.claude/projects/-p"
        while read -r mode path command; do
            fresh
            chmod "$mode" "$P/$path"
            # Not everything can be read.
            sums() { (cd "$D" && find .claude -type f | sort; cat "$P"/*.jsonl); }
            try "$mode" "$(eval echo $command)"
            chmod -R u+rwX "$D"
            rm -rf "$D"
        done <<'END'
            500 . clone ONE
            500 . redact ONE --in-place
            500 . split ONE --at 2
            500 . split ONE --at 2 --in-place
            500 . merge OTHER ONE --in-place
            500 . move ONE /other/place
            500 . rename ONE new
            500 . rm ONE
            500 ONE/tool-results rm ONE
            500 ONE/tool-results move ONE /other/place
            500 ONE/tool-results redact ONE --in-place
            400 ONE.jsonl split ONE --at 2 --in-place
            400 OTHER.jsonl merge OTHER ONE --in-place
            000 ONE/subagents/agent-a1.jsonl clone ONE
            000 ONE/subagents/agent-a1.jsonl redact ONE
            000 ONE/subagents/agent-a1.jsonl move ONE /other/place
END
    "#;
    let script = script.replace("ONE", ONE).replace("OTHER", OTHER);
    let mut command = if is_root {
        let mut command = Command::new("setpriv");
        command.args(other).arg("sh");
        command
    } else {
        Command::new("sh")
    };
    command.args(["-c", &script]).env("HOME", env.path("")).env("QUIPU", &program);
    let output = command.current_dir(env.path("")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = read(&env, &text);
    assert_eq!(all.len(), 16, "{text}{}", String::from_utf8_lossy(&output.stderr));
    for tried in &all {
        let what = format!("{}: {}: {}", tried.size, tried.command, tried.error);
        assert!(matches!(tried.code, 1 | 4 | 5) && tried.is_same, "{} {what}", tried.code);
        assert!(!tried.error.contains(".tmp"), "{what}");
        if tried.size == "000" {
            assert!(tried.error.contains("agent-a1.jsonl"), "{what}");
        }
    }
}
