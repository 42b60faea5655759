//! The program killed at any moment of changes in place and of clones, a hundred durations: files
//! are old or new, a session has what belongs to it, and after the next run nothing is left behind.

use testkit::Rng;
use testkit::session::Script;

use super::*;

/// How often it is killed.
const KILLS: usize = 100;
/// How many files belong to the session that is cloned.
const SIDECARS: usize = 40;
const LONG: &str = "10000000-0000-4000-8000-000000000001";
const MANY: &str = "10000000-0000-4000-8000-000000000002";
const SMALL: &str = "10000000-0000-4000-8000-000000000003";

fn script(turns: usize) -> Script {
    let mut script = Script::new();
    let mut last = "-".to_owned();
    for turn in 0..turns {
        let (prompt, call, result) = (format!("p{turn}"), format!("c{turn}"), format!("r{turn}"));
        let (answer, id) = (format!("m{turn}"), format!("t{turn}"));
        script = script.prompt(&prompt, &last, "go").call(&call, &prompt, &answer, &id, "Read");
        script = script.result(&result, &call, &id, &"x".repeat(500));
        last = result;
    }
    script
}

fn surroundings() -> Env {
    let env = Env::in_memory();
    for (id, turns) in [(LONG, 1_500), (MANY, 3), (SMALL, 2)] {
        let path = format!(".claude/projects/-home-dev-demo/{id}.jsonl");
        set_age(&env.put(&path, script(turns).text()), 3_600);
    }
    for number in 0..SIDECARS {
        let path = format!(".claude/projects/-home-dev-demo/{MANY}/tool-results/{number}.txt");
        env.put(&path, "y".repeat(5_000));
    }
    env
}

/// Everything beside sessions that nobody should find after a run.
fn leftovers(env: &Env) -> Vec<PathBuf> {
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with('.') || name == "begun.json" || name == "lock"
    };
    let mut found: Vec<PathBuf> = files(&env.path(".claude")).into_keys().filter(is_left).collect();
    found.extend(files(&env.path(".local/state/quipu/undo")).into_keys().filter(is_left));
    for folder in entries(env) {
        if !folder.join("entry.json").exists() {
            found.push(folder);
        }
    }
    // A folder without its session is half a clone.
    for entry in fs::read_dir(project(env)).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.with_extension("jsonl").exists() {
            found.push(path);
        }
    }
    found
}

/// The sessions beside those that were there, each with the number of files that belong to it.
fn clones(env: &Env) -> Vec<(PathBuf, usize)> {
    let found = fs::read_dir(project(env)).unwrap().flatten().map(|entry| entry.path());
    let is_new = |path: &PathBuf| {
        path.extension().is_some_and(|ending| ending == "jsonl")
            && ![LONG, MANY, SMALL].iter().any(|id| path.ends_with(format!("{id}.jsonl")))
    };
    found.filter(is_new).map(|path| (path.clone(), files(&path.with_extension("")).len())).collect()
}

#[test]
fn a_hundred_times() {
    let env = surroundings();
    let path = session(&env, LONG);
    let old = fs::read(&path).unwrap();
    let strip = ["strip", LONG, "--results", "--in-place"];
    let clone = ["clone", MANY];
    exits(&env.run(&["strip", LONG, "--results", "-o", "new.jsonl"]), 0, &[]);
    let new = fs::read(env.path("new.jsonl")).unwrap();
    // How long each of them takes here.
    let timed = |args: &[&str]| {
        let begin = Instant::now();
        exits(&env.run(args), 0, &[]);
        begin.elapsed()
    };
    let durations = [timed(&strip), timed(&clone)];
    exits(&env.run(&["undo"]), 0, &[]);
    exits(&env.run(&["undo"]), 0, &[]);
    assert_eq!(fs::read(&path).unwrap(), old);

    let mut chance = Rng::new(5);
    let (mut killed, mut runs, mut seen) = (0, 0, [0; 4]);
    while killed < KILLS {
        runs += 1;
        assert!(runs < 5 * KILLS, "it is too quick to be killed");
        let which = runs % 2;
        let mut command = env.command(if which == 0 { &strip[..] } else { &clone[..] });
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let most = usize::try_from(durations[which].as_micros()).unwrap();
        std::thread::sleep(Duration::from_micros(chance.below(most) as u64));
        let is_killed = child.try_wait().unwrap().is_none();
        // One that has ended need not be.
        let _ = child.kill();
        child.wait().unwrap();
        killed += usize::from(is_killed);

        let is = fs::read(&path).unwrap();
        assert!(is == old || is == new, "run {runs}: neither the old file nor the new one");
        for (session, count) in clones(&env) {
            assert_eq!(count, SIDECARS, "run {runs}: {} lacks files", session.display());
        }
        // The next run: whatever it changes.
        exits(&env.run(&["strip", SMALL, "--results", "--in-place", "--force"]), 0, &[]);
        assert_eq!(leftovers(&env), Vec::<PathBuf>::new(), "run {runs}, killed: {is_killed}");
        exits(&env.run(&["undo", SMALL]), 0, &[]);
        // What was done can be taken back.
        let made = clones(&env).len();
        let outcome = which * 2 + if which == 0 { usize::from(is == new) } else { made };
        seen[outcome] += 1;
        if is == new || made > 0 {
            exits(&env.run(&["undo"]), 0, &["undone"]);
        }
        assert_eq!((fs::read(&path).unwrap() == old, clones(&env).len()), (true, 0), "run {runs}");
        assert!(entries(&env).is_empty(), "run {runs}: {:?}", entries(&env));
    }
    println!(
        "strip: {} old, {} new; clone: {} not there, {} there",
        seen[0], seen[1], seen[2], seen[3]
    );
    assert!(seen[0] > 0 && seen[2] > 0, "never killed in time: {seen:?}");
}

/// A purge goes by way of the journal: whenever it is stopped, the session is there with all that
/// belongs to it, or can be restored with it, or is gone with it.
#[test]
fn a_purge_is_never_half_done() {
    let env = surroundings();
    let keep = |from: &Path, to: &Path| {
        for (file, bytes) in files(from) {
            let copy = to.join(file.strip_prefix(from).unwrap());
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::write(copy, bytes).unwrap();
        }
    };
    let (project, spare) = (project(&env), env.path("spare"));
    keep(&project, &spare);
    let whole = files(&project);
    let its = |path: &PathBuf| path.to_string_lossy().contains(MANY);
    let purge = ["rm", MANY, "--purge", "--yes", "--force"];
    let begin = Instant::now();
    exits(&env.run(&purge), 0, &[]);
    let most = usize::try_from(begin.elapsed().as_micros()).unwrap();
    assert!(!files(&project).keys().any(its) && entries(&env).is_empty());

    let (mut chance, mut seen) = (Rng::new(7), [0; 3]);
    for run in 0..40 {
        keep(&spare, &project);
        let mut command = env.command(&purge);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(chance.below(most) as u64));
        // One that has ended need not be.
        let _ = child.kill();
        child.wait().unwrap();
        // The next run completes it, whatever it changes.
        exits(&env.run(&["strip", SMALL, "--results", "--in-place", "--force"]), 0, &[]);
        exits(&env.run(&["undo", SMALL]), 0, &[]);
        assert_eq!(leftovers(&env), Vec::<PathBuf>::new(), "run {run}");
        let mut outcome = usize::from(files(&project) != whole);
        if outcome == 1 {
            assert!(!files(&project).keys().any(its), "run {run}");
            if entries(&env).is_empty() {
                outcome = 2;
            } else {
                exits(&env.run(&["undo"]), 0, &["undone"]);
                assert!(files(&project) == whole, "run {run}");
            }
        }
        seen[outcome] += 1;
    }
    println!("{} not begun, {} restored, {} gone", seen[0], seen[1], seen[2]);
    assert!(seen[0] > 0 && seen[0] < 40, "never killed in time: {seen:?}");
}
