//! Going back to an earlier prompt while the session runs: as in the scenario `i_rewind`.

use super::host::Host;
use super::*;
use crate::env::NOW;

const FREE: [&str; 3] = ["--dangerously-skip-permissions", "--sandbox", "off"];

fn id(number: u32) -> String {
    format!("aaaaaaaa-0000-4000-8000-00000000000{number}")
}

/// A session of three prompts: the second writes a file, the third edits it and runs a command.
fn three(lab: &mut Lab) -> Host {
    let path = lab.path("notes.txt");
    let write = json!({"file_path": path, "content": "one\n"});
    let edit = json!({"file_path": path, "old_string": "one", "new_string": "two"});
    lab.server = Server::start(vec![
        vec![text("ANSWER-ONE is here.")],
        vec![text("Writing."), call("c1", "Write", &write)],
        vec![text("ANSWER-TWO is here.")],
        vec![
            call("c2", "Edit", &edit),
            call("c3", "Bash", &json!({"command": "rm -rf src; echo more >> README.md"})),
        ],
        vec![text("ANSWER-THREE is here.")],
        vec![text("ANSWER-FOUR is here.")],
        vec![text("ANSWER-FIVE is here.")],
    ])
    .unwrap();
    let mut host = Host::start(lab, &FREE);
    for (number, words) in
        (1..).zip(["Prompt one", "Prompt two, write a note", "Prompt three, edit the note"])
    {
        host.say(words, &id(number));
        host.result();
    }
    host
}

fn record<'a>(lines: &'a [Value], id: &str) -> &'a Value {
    lines.iter().find(|line| line["uuid"] == *id).unwrap()
}

#[test]
fn the_next_prompt_hangs_on_the_line_before() {
    let mut lab = Lab::says(&[]);
    let mut host = three(&mut lab);
    let before = fs::read(lab.file(SESSION)).unwrap();
    let points = host.ask(&json!({"subtype": "rewind_points"}));
    let points = &points["response"]["response"]["points"];
    assert_eq!(points.as_array().unwrap().len(), 3);
    assert_eq!(points[2], json!({"user_message_id": id(3), "text": "Prompt three, edit the note"}));
    let mut wish = json!({"subtype": "rewind", "user_message_id": id(3), "dry_run": true});
    let shown = host.ask(&wish)["response"]["response"].clone();
    let diff = shown["diff"].as_str().unwrap();
    assert!(diff.contains("-two\n+one\n") && diff.contains("src/widget.py"), "{diff}");
    assert_eq!(fs::read_to_string(lab.path("notes.txt")).unwrap(), "two\n");
    wish["dry_run"] = false.into();
    let done = host.ask(&wish)["response"]["response"].clone();
    assert_eq!(done["prompt"], "Prompt three, edit the note");
    // The files are back, whoever changed them, and nothing was written.
    assert_eq!(fs::read_to_string(lab.path("notes.txt")).unwrap(), "one\n");
    assert!(lab.cwd().join("src/widget.py").exists());
    assert!(!fs::read_to_string(lab.path("README.md")).unwrap().contains("more"));
    assert_eq!(fs::read(lab.file(SESSION)).unwrap(), before);
    host.say("Prompt three again, other words", &id(4));
    assert_eq!(host.result()["result"], "ANSWER-FOUR is here.");
    assert_eq!(host.end(), Some(0));
    let lines = lab.lines(SESSION);
    assert_eq!(record(&lines, &id(4))["parentUuid"], record(&lines, &id(3))["parentUuid"]);
    let requests = lab.server.requests();
    let sent = requests[5]["messages"].to_string();
    assert!(sent.contains("ANSWER-TWO") && sent.contains("other words"), "{sent}");
    assert!(!sent.contains("ANSWER-THREE") && !sent.contains("edit the note"), "{sent}");
    // A resume sends the same, and then what is new.
    let output = lab.run(&["-r", SESSION, "go on", "--sandbox", "off"]);
    assert!(output.status.success(), "{}", lab.env.show(&output));
    let resumed = lab.server.requests()[6]["messages"].clone();
    let texts = |messages: &Value| -> Vec<String> {
        let blocks = messages.as_array().unwrap().iter();
        let blocks = blocks.flat_map(|message| message["content"].as_array().unwrap());
        blocks.map(|block| block["text"].to_string() + &block["content"].to_string()).collect()
    };
    let (sent, resumed) = (texts(&requests[5]["messages"]), texts(&resumed));
    assert_eq!(resumed[..sent.len()], sent[..]);
    assert!(lab.check(SESSION).starts_with("full"), "{}", lab.check(SESSION));
    // `undo` takes back what was done to files.
    let undone = lab.env.output(&["undo"]);
    assert!(undone.status.success(), "{}", lab.env.show(&undone));
    assert_eq!(fs::read_to_string(lab.path("notes.txt")).unwrap(), "two\n");
}

#[test]
fn each_alone_goes_back_and_others_are_respected() {
    let mut lab = Lab::says(&[]);
    // Images have the real time: no prompt of a clock that stands still may be older than they are.
    lab.now = 2 * NOW;
    let mut host = three(&mut lab);
    let wish = |what: &str, number: u32| json!({"subtype": "rewind", "user_message_id": id(number), "what": what});
    // Someone else changed the file since.
    fs::write(lab.path("notes.txt"), "mine\n").unwrap();
    let refused = host.ask(&wish("both", 2))["response"]["response"].clone();
    assert_eq!(refused["canRewind"], false);
    assert!(refused["error"].as_str().unwrap().contains("notes.txt"), "{refused}");
    assert_eq!(fs::read_to_string(lab.path("notes.txt")).unwrap(), "mine\n");
    // The conversation was not rewound either; alone it is.
    host.ask(&wish("conversation", 1));
    assert_eq!(fs::read_to_string(lab.path("notes.txt")).unwrap(), "mine\n");
    host.say("Begin again", &id(5));
    host.result();
    let mut forced = wish("files", 5);
    forced["force"] = true.into();
    let nothing = host.ask(&forced)["response"]["response"].clone();
    assert_eq!(nothing["canRewind"], true);
    assert_eq!(fs::read_to_string(lab.path("notes.txt")).unwrap(), "mine\n");
    let unknown = host.ask(&wish("both", 9));
    assert_eq!(unknown["response"]["subtype"], "error");
    assert_eq!(host.end(), Some(0));
    let lines = lab.lines(SESSION);
    assert_eq!(record(&lines, &id(5))["parentUuid"], Value::Null);
    let sent = lab.server.requests()[5]["messages"].to_string();
    assert!(sent.contains("Begin again") && !sent.contains("Prompt one"), "{sent}");
}

#[test]
fn a_resumed_session_goes_back_too() {
    let mut lab = Lab::says(&[]);
    let host = three(&mut lab);
    assert_eq!(host.end(), Some(0));
    let args: Vec<&str> = ["-r", SESSION].into_iter().chain(FREE).collect();
    let mut host = Host::resume(&mut lab, &args);
    let wish = json!({"subtype": "rewind", "user_message_id": id(3)});
    assert_eq!(host.ask(&wish)["response"]["response"]["canRewind"], true);
    assert_eq!(fs::read_to_string(lab.path("notes.txt")).unwrap(), "one\n");
    assert!(lab.cwd().join("src/widget.py").exists());
    host.say("Prompt three again", &id(4));
    host.result();
    assert_eq!(host.end(), Some(0));
    let lines = lab.lines(SESSION);
    assert_eq!(record(&lines, &id(4))["parentUuid"], record(&lines, &id(3))["parentUuid"]);
    let sent = lab.server.requests()[5]["messages"].to_string();
    assert!(sent.contains("ANSWER-TWO") && !sent.contains("ANSWER-THREE"), "{sent}");
}
