//! What only some folders have: other repositories inside, links of several kinds, odd names, and
//! what is over the limit. Each is made, then destroyed, then brought back.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::time::Duration;

use snapshot::Event;
use snapshot::plan::Others;

use crate::world::{Setting, World, sh, take};

const ME: &str = "git config --global user.name me; git config --global user.email a@b; \
    git config --global protocol.file.allow always;";
const NESTED: &str = "git init -q sub && cd sub && echo 1 > f && git add f && git commit -qm one \
    && echo 2 > f && git commit -qam two && echo open > f";
const MODULE: &str = "git init -q ../lib && (cd ../lib && echo 1 > f && git add f && git commit -qm one) \
    && git submodule add -q ../lib lib && git commit -qam module";

/// Objects for which there are links: together they are too large for copies. The modes of some are
/// not those that git gives.
const MANY: &str = "for i in 1 2 3 4 5; do head -c 2000000 /dev/urandom > $i; done; git add -f . \
    && git commit -qm many && chmod 400 $(find .git/objects -type f | sort | head -n 3)";

/// What is made first, and what destroys it.
const CASES: &[(&str, &str)] = &[
    ("git worktree add -q wt side", "git worktree remove --force wt"),
    ("git worktree add -q wt side", "rm -rf wt && git worktree prune"),
    ("git worktree add -q wt side && echo open > wt/notes.txt", "git -C wt reset -q --hard"),
    (NESTED, "rm -rf sub/.git"),
    (NESTED, "git -C sub reset -q --hard HEAD~1"),
    (NESTED, "git -C sub gc -q --prune=now; git -C sub checkout -q ."),
    (NESTED, "rm -rf sub"),
    (MODULE, "git submodule deinit -q -f lib && rm -rf .git/modules"),
    (MODULE, "git -C lib commit -q --allow-empty -m x && git -C lib update-ref -d HEAD"),
    (MODULE, "git rm -qf lib"),
    ("git gc -q", "rm -f .git/packed-refs; rm -rf .git/objects/pack"),
    (
        "git gc -q",
        "git branch -D side && git reflog expire --expire=now --all && git gc -q --prune=now",
    ),
    ("ln notes.txt hard", "rm hard; echo x > notes.txt"),
    ("ln notes.txt hard", "echo x >> hard"),
    ("truncate -s 3M sparse; echo end >> sparse", "truncate -s 2M sparse"),
    (
        "echo x > \"$(printf 'a\\nb')\"; echo y > '-rf'; echo z > 'q\"'; echo é > é",
        "rm -- a* -rf q* é",
    ),
    ("chmod 4755 run.sh; chmod 2755 deep; chmod 1777 empty", "chmod 755 run.sh deep empty"),
    ("chmod 400 notes.txt; chmod 500 deep", "chmod 700 deep; rm -rf deep; rm -f notes.txt"),
    ("ln -s nowhere dangling; ln -s . loop", "rm dangling loop; mkdir loop; echo x > dangling"),
    ("mkdir -p a/b/c/d/e/f; echo x > a/b/c/d/e/f/g", "rm -rf a; echo x > a"),
    (
        "mkdir build; echo 'build/' >> .gitignore; git add -f build; echo x > build/x; git add -f build/x",
        "rm -rf build",
    ),
    ("echo '*.log' >> .gitignore; echo 1 > a.log", "rm a.log"),
    ("mkfifo pipe", "rm notes.txt; echo x > pipe2"),
    (
        "git worktree add -q wt side && git worktree lock wt",
        "git worktree unlock wt && git worktree move wt wt2",
    ),
    (MODULE, "git submodule deinit -q -f --all"),
    (
        MODULE,
        "git -C lib checkout -q --orphan x; git -C lib rm -qrf .; git submodule absorbgitdirs",
    ),
    ("git stash -q", "GIT_EDITOR=true git rebase -q side && git branch -D side"),
    (
        "git stash -q",
        "FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --tree-filter 'rm -f notes.txt' -- --all; \
         rm -rf .git/refs/original; git reflog expire --expire=now --all; git gc -q --prune=now",
    ),
    (
        "git stash -q; echo x >> notes.txt; git stash -q",
        "git stash drop -q && git gc -q --prune=now",
    ),
    ("git tag -a v2 -m annotated; git gc -q", "git tag -d v1 v2 && git gc -q --prune=now"),
    ("git remote add origin ../nowhere", "git config --remove-section remote.origin"),
    ("git bisect start -q HEAD v1", "git bisect reset -q; rm -f .git/BISECT*"),
    ("git merge -q --no-commit --no-ff side", "git merge --abort; git reset -q --hard"),
    (
        "git notes add -m n; git update-ref refs/custom/x HEAD",
        "git notes remove HEAD; git update-ref -d refs/custom/x",
    ),
    (
        "git gc -q; git commit-graph write --reachable",
        "rm -rf .git/objects/info && git repack -qad",
    ),
    (
        "git init -q --bare bare.git && git push -q bare.git main side",
        "git -C bare.git update-ref -d refs/heads/side && git -C bare.git gc -q --prune=now",
    ),
    (
        "git init -q --bare bare.git && git push -q bare.git main side",
        "rm -rf bare.git/objects bare.git/refs",
    ),
    (
        "git init -q --separate-git-dir=apart inner && cd inner && echo 1 > f && git add f && git commit -qm i",
        "rm inner/.git && git init -q inner && rm -rf apart",
    ),
    (
        "mv .git git.dir && printf 'gitdir: git.dir\\n' > .git",
        "git reset -q --hard HEAD~1; rm .git; git init -q .",
    ),
    (NESTED, "mv sub/.git sub/gone && rm -rf sub/gone/objects"),
    ("mkdir a b; echo 1 > a/x; echo 2 > b/x", "mv a t && mv b a && mv t b"),
    (
        "ln notes.txt hard; ln blob.bin src/hard.bin",
        "printf X | dd of=hard conv=notrunc bs=1 status=none; rm blob.bin; echo new > src/hard.bin",
    ),
    (
        "echo 1 > \"$(printf 'bad\\377name')\"; echo 2 > ' lead'; echo 3 > '*'; echo 4 > -n",
        "rm -f -- bad* ' lead' '*' -n; echo z > \"$(printf '\\303(')\"",
    ),
    (
        "f=$(printf 'n%.0s' $(seq 1 250)); echo 1 > $f; mkdir -p $f.d/$f/$f/$f/$f/$f/$f/$f/$f/$f/$f/$f/$f && echo 2 > $f.d/$f/$f/$f/$f/$f/$f/$f/$f/$f/$f/$f/$f/f",
        "for f in n*; do mv $f m${f#n}; done; rm -rf m*.d",
    ),
    (
        "mkdir ro && echo 1 > ro/f && chmod 444 ro/f && chmod 555 ro",
        "chmod 755 ro && echo 2 > ro/g && rm -f ro/f && chmod 500 ro",
    ),
    ("mkdir real && echo 1 > real/f && ln -s real to", "rm to && mv real to && ln -s to real"),
    ("mkdir -p x/y && ln -s ../x x/y/up", "rm -rf x && ln -s src x && ln -s x/main.c y"),
    ("mkdir -p e1/e2/e3 e4; chmod 700 e4; chmod 2770 e1/e2", "rmdir e4; rm -rf e1"),
    ("echo s > secret; chmod 000 secret", "rm -f secret; echo t > secret; chmod 644 secret"),
    ("head -c 60000000 /dev/zero > large", "rm large"),
    ("git sparse-checkout set src", "git sparse-checkout disable"),
    (MANY, "chmod -R 777 ."),
    (MANY, "chmod -R 777 . && rm -rf .git"),
    (MANY, "chmod -R a+rwX .git && git reset -q --hard HEAD~1 && git gc -q --prune=now"),
    // Objects that git never wrote.
    (
        "mkdir -p fake/objects/ab fake/refs; echo r > fake/HEAD; echo x > fake/objects/ab/cdefabcdefabcdefabcdefabcdefabcdefabcd",
        "rm -rf fake",
    ),
    ("true", "rm -rf \"$PWD\""),
    ("true", "git init -q --separate-git-dir ../apart"),
];

#[test]
fn special_things_come_back() {
    let mut wrong = Vec::new();
    for (setup, command) in CASES {
        let world = World::new(Setting::Repository);
        sh(world.root(), ME);
        sh(world.root(), setup);
        let before = (world.git(), world.record());
        let mut recorder = world.recorder();
        take(&mut recorder, Event::Before, "c1");
        sh(world.root(), command);
        let is_gone = !world.root().exists();
        if is_gone {
            let taken = recorder.take(
                Event::After,
                crate::world::about("c1"),
                std::time::SystemTime::now(),
            );
            assert!(taken.is_err(), "an image of nothing");
        } else {
            take(&mut recorder, Event::After, "c1");
            if (world.git(), world.record()) == before {
                wrong.push(format!("`{setup}`, `{command}` destroys nothing"));
                continue;
            }
        }
        world.rewind(&recorder, 0, Others::Respect);
        let after = (world.git(), world.record());
        if after.1 != before.1 {
            let differ =
                |(path, state): &(&std::path::PathBuf, &String)| before.1.get(*path) != Some(state);
            let new: Vec<_> = after.1.iter().filter(differ).map(|(path, _)| path).collect();
            let gone: Vec<_> =
                before.1.keys().filter(|path| !after.1.contains_key(*path)).collect();
            wrong.push(format!("`{setup}`, `{command}`: {new:?}, gone {gone:?}"));
        }
        if after.0 != before.0 {
            wrong.push(format!("`{setup}`, `{command}`: git says\n{}\nnot\n{}", after.0, before.0));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Objects that one command adds, and the next one damages.
#[test]
fn objects_that_changed_after_they_were_added_go() {
    let world = World::new(Setting::Repository);
    let before = (world.git(), world.record());
    let mut recorder = world.recorder();
    for (call, command) in [
        ("c1", "git commit -qam more"),
        ("c2", "chmod -R 777 .; for f in .git/objects/??/*; do echo x >> $f; done"),
    ] {
        take(&mut recorder, Event::Before, call);
        sh(world.root(), command);
        take(&mut recorder, Event::After, call);
    }
    let after = world.record();
    world.rewind(&recorder, 0, Others::Respect);
    assert_eq!((world.git(), world.record()), before);
    let (store, vault) = (recorder.store(), recorder.vault());
    let journal = snapshot::restore::Journal::new(store, vault, snapshot::Limits::default());
    journal.take_back(&journal.list()[0], &mut || {}).unwrap();
    assert_eq!(world.record(), after);
}

/// Same size, same times, again and again: neither the clock's tick nor `touch` hides a change.
#[test]
fn changes_within_a_tick_and_with_old_times_are_seen() {
    let world = World::new(Setting::Plain);
    let path = world.root().join("notes.txt");
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c0");
    let mut last = None;
    for round in 0..50 {
        fs::write(&path, format!("{round:05}\n")).unwrap();
        sh(world.root(), "touch -d 2001-01-01 notes.txt");
        let moment = recorder
            .take(Event::Look, crate::world::about("c"), std::time::SystemTime::now())
            .unwrap();
        assert_ne!(last, Some(moment.trees[0].image), "round {round}");
        last = Some(moment.trees[0].image);
        if round % 10 == 0 {
            std::thread::sleep(Duration::from_millis(60));
        }
    }
}

#[test]
fn what_a_command_left_over_the_limit_goes_and_comes_back_with_undo() {
    let world = World::new(Setting::Plain);
    let before = world.record();
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "truncate -s 65M blob.bin; truncate -s 66M new; echo end >> new");
    take(&mut recorder, Event::After, "c1");
    let after = world.record();
    world.rewind(&recorder, 0, Others::Respect);
    assert_eq!(world.record(), before);
    let journal = snapshot::restore::Journal::new(
        recorder.store(),
        recorder.vault(),
        snapshot::Limits::default(),
    );
    journal.take_back(&journal.list()[0], &mut || {}).unwrap();
    assert_eq!(world.record(), after);
    assert_eq!(fs::metadata(world.root().join("new")).unwrap().size(), (66 << 20) + 4);
}

/// Commands with which an ordinary user takes away their own permissions.
const SEALING: [&str; 8] = [
    "chmod 000 notes.txt",
    "chmod -R 000 src",
    "chmod 444 src",
    "chmod 000 deep && echo x >> notes.txt",
    "chmod 000 notes.txt deep src/main.c && rm -f run.sh",
    "echo x > src/main.c && chmod -R 000 src deep",
    "chmod -R 000 .git",
    "chmod 000 .",
];

/// As an ordinary user: the superuser may read everything.
#[test]
fn what_its_owner_may_not_read_comes_back() {
    if rustix::process::geteuid().is_root() {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["special::what_its_owner_may_not_read_comes_back", "--exact"])
            .uid(65_534)
            .gid(65_534)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(child.status.success(), "{}{}", text(&child.stdout), text(&child.stderr));
        return;
    }
    for command in SEALING {
        let world = World::new(Setting::Repository);
        let before = (world.git(), world.record());
        let mut recorder = world.recorder();
        take(&mut recorder, Event::Before, "c1");
        sh(world.root(), command);
        let mode = |name: &str| {
            fs::symlink_metadata(world.root().join(name)).map(|found| found.mode()).ok()
        };
        let modes = || ["", "notes.txt", "src", "deep", ".git"].map(mode);
        let sealed = modes();
        take(&mut recorder, Event::After, "c1");
        assert_eq!(modes(), sealed, "`{command}`: an image changes nothing");
        let plan = world.plan(&recorder, 0, Others::Respect);
        assert_eq!(modes(), sealed, "`{command}`: a plan changes nothing");
        let journal = snapshot::restore::Journal::new(
            recorder.store(),
            recorder.vault(),
            snapshot::Limits::default(),
        );
        let now = std::time::SystemTime::now();
        let given_up = journal.prepare("session", None, plan.steps, now).unwrap();
        journal.give_up(&given_up).unwrap();
        assert_eq!(modes(), sealed, "`{command}`: what was prepared is given up");
        world.rewind(&recorder, 0, Others::Respect);
        assert_eq!((world.git(), world.record()), before, "`{command}`");
        journal.take_back(&journal.list()[0], &mut || {}).unwrap();
        assert_eq!(modes(), sealed, "`{command}`: taken back");
        world.rewind(&recorder, 0, Others::Respect);
        assert_eq!((world.git(), world.record()), before, "`{command}`, again");
    }
}

const MOUNTED: &str = "QUIPU_MOUNTED";

/// In a folder on which another file system is mounted, as in containers: nothing can be moved
/// there from beside it.
#[test]
fn what_is_on_another_file_system_comes_back() {
    if std::env::var_os(MOUNTED).is_none() {
        let unshared = |program: &std::path::Path| {
            let mut command = std::process::Command::new("unshare");
            command.args(["--map-root-user", "--mount"]).arg(program);
            command
        };
        if !unshared("true".as_ref()).status().is_ok_and(|status| status.success()) {
            // Nothing can be mounted here.
            return;
        }
        let child = unshared(&std::env::current_exe().unwrap())
            .args(["special::what_is_on_another_file_system_comes_back", "--exact"])
            .env(MOUNTED, "1")
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(child.status.success(), "{}{}", text(&child.stdout), text(&child.stderr));
        return;
    }
    let world = World::new(Setting::Plain);
    let setup = "mkdir m && mount -t tmpfs none m && mkdir m/d && echo 1 > m/f && echo 2 > m/d/g \
        && chmod 640 m/d/g && ln -s f m/l && echo 3 > m/s && chmod 000 m/s";
    assert_eq!(sh(world.root(), setup), "");
    let before = world.record();
    let mut recorder = world.recorder();
    take(&mut recorder, Event::Before, "c1");
    sh(world.root(), "echo 9 > m/f; rm -rf m/d m/s src; ln -sfn x m/l; echo 4 > m/new");
    take(&mut recorder, Event::After, "c1");
    let after = world.record();
    // What a run that was killed wrote there.
    let plan = world.plan(&recorder, 0, Others::Respect);
    let (store, vault) = (recorder.store(), recorder.vault());
    let journal = snapshot::restore::Journal::new(store, vault, snapshot::Limits::default());
    let now = std::time::SystemTime::now();
    let stopped = journal.prepare("session", None, plan.steps, now).unwrap();
    let half = world.root().join(format!("m/.quipu-rewind-{}", stopped.name));
    fs::write(&half, "half").unwrap();
    let image = snapshot::plan::look(
        (store, vault),
        world.root(),
        &recorder.log().read().unwrap(),
        (snapshot::Limits::default(), now),
    );
    let place = half.strip_prefix(world.root()).unwrap().as_os_str().as_encoded_bytes().to_vec();
    assert_eq!(snapshot::tree::find(&image.unwrap(), &place), None);
    journal.give_up(&stopped).unwrap();
    assert_eq!(world.record(), after);
    world.rewind(&recorder, 0, Others::Respect);
    assert_eq!(world.record(), before);
    journal.take_back(&journal.list()[0], &mut || {}).unwrap();
    assert_eq!(world.record(), after);
    // Until it ends, the folder could not be removed.
    assert_eq!(sh(world.root(), "umount m"), "");
}
