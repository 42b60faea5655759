use super::*;

#[test]
fn what_git_prints() {
    let found = |text| Commit::of(text).map(|one| [one.branch, one.hash, one.subject]);
    let some = |parts: [&str; 3]| Some(parts.map(str::to_owned));
    assert_eq!(found("[main 1a2b3c4] Fix it"), some(["main", "1a2b3c4", "Fix it"]));
    let first = found("[main (root-commit) 1a2b3c4d] One");
    assert_eq!(first, some(["main", "1a2b3c4d", "One"]));
    let detached = found("[detached HEAD 1a2b3c4d] One [two] three");
    assert_eq!(detached, some(["detached HEAD", "1a2b3c4d", "One [two] three"]));
    for none in ["[info] done", "[main 1a2b3c] short", "[a b c 1a2b3c4] x", "[main 1a2b3cz] x", ""]
    {
        assert_eq!(found(none), None, "{none}");
    }
}
