use super::*;

const OWN: &str = "/opt/my tools/it's/knots";

#[test]
fn what_is_written_is_known_again() {
    let paths =
        [OWN, "/usr/bin/quipu", "/a  b/quipu", "/with\"quotes\\and\\more/quipu", "/é/quipu"];
    for path in paths {
        let command = command(path);
        let found = of_ours(&command, OWN);
        assert_eq!(found, Some((path.to_owned(), " hook stop")), "{command}");
    }
    assert_eq!(command("/usr/bin/quipu"), "/usr/bin/quipu hook stop");
    assert_eq!(command(OWN), "'/opt/my tools/it'\\''s/knots' hook stop");
}

#[test]
fn commands_that_people_write() {
    for (command, program) in [
        ("quipu hook stop", "quipu"),
        ("~/bin/quipu hook stop", "~/bin/quipu"),
        ("\"$HOME/my bin/quipu\"  hook  stop ", "$HOME/my bin/quipu"),
        ("/my\\ bin/quipu --home /h hook stop", "/my bin/quipu"),
    ] {
        assert_eq!(of_ours(command, OWN).map(|found| found.0).as_deref(), Some(program));
    }
    for command in [
        "",
        "quipu",
        "'quipu hook stop",
        "quipu hook",
        "quipu hook stopped",
        "quipu hookstop",
        "quipu hook stop; rm x",
        "quipu ls && my hook stop",
        "cd /x && quipu hook stop",
        "not-quipu hook stop",
        "quipu/other hook stop",
        "echo quipu hook stop",
        "knots hook stop",
    ] {
        assert_eq!(of_ours(command, OWN), None, "{command}");
    }
}
