use super::*;

#[test]
fn entries_are_written_and_read_in_the_form_of_the_client() {
    let folder = std::env::temp_dir().join(format!("quipu-history-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("history.jsonl");
    std::fs::write(&file, concat!(
        r#"{"display":"First prompt","pastedContents":{},"timestamp":1794701817440,"project":"/home/dev/demo","sessionId":"d4"}"#, "\n",
        "damaged\n",
        r#"{"display":"see [Pasted text #1 +3 lines]","pastedContents":{"1":{"id":1,"type":"text","content":"a\nb"}},"timestamp":1,"project":"/home/dev/demo"}"#, "\n",
        r#"{"display":"elsewhere","pastedContents":{},"timestamp":1,"project":"/other"}"#, "\n",
    )).unwrap();
    let mut history = History::open(Some(&file), "/home/dev/demo", "s1");
    assert_eq!(history.older(Prompt::typed("draft")).unwrap().text, "see a\nb");
    assert_eq!(history.older(Prompt::default()).unwrap().display, "First prompt");
    assert_eq!(history.older(Prompt::default()), None);
    assert_eq!(history.newer().unwrap().display, "see [Pasted text #1 +3 lines]");
    assert_eq!(history.newer().unwrap().display, "draft");
    assert_eq!(history.newer(), None);
    assert_eq!(history.search("SEE", 5).len(), 1);
    history.add(&Prompt::typed("new"), 7).unwrap();
    history.add(&Prompt::typed("new"), 8).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        text.lines().last().unwrap(),
        r#"{"display":"new","pastedContents":{},"timestamp":7,"project":"/home/dev/demo","sessionId":"s1"}"#
    );
    assert_eq!(text.lines().count(), 5);
    std::fs::remove_dir_all(folder).unwrap();
}
