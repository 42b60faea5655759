use std::io::Write as _;

use testkit::session::Script;

use super::*;

/// Everything of a table that can be compared.
pub(crate) fn shown(table: &Table) -> String {
    let ids: Vec<&str> = table.ids.all().collect();
    format!(
        "{:?}\n{:?}\n{:?}\n{ids:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
        table.rows,
        table.parts,
        table.answers,
        table.boundaries,
        table.started,
        table.prompts,
        (&table.unsaid, &table.waiting),
        table.durations,
        table.forked_from,
        (table.named_leaf, table.is_agent, table.null_line),
        (table.damaged, table.bare, table.lines, table.end),
    )
}

fn compare(bytes: &[u8], name: &str) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let end = bytes.len() as u64;
    let whole = shown(&Table::read(Lines::new(bytes)).unwrap());
    for count in [1, 2, 3, 7] {
        let parts = Table::read_parts(&file, [0, end], count, 2, &mut ()).unwrap();
        assert_eq!(shown(&parts), whole, "{name} in {count} parts");
    }
}

#[test]
fn parts_are_the_whole() {
    for file in testkit::own_files() {
        compare(&file.bytes, &file.path.display().to_string());
    }
}

#[test]
fn damaged_parts_are_the_whole() {
    let files = testkit::own_files();
    let mut rng = testkit::Rng::new(3);
    for round in 0..150 {
        let whole = &rng.pick(&files).bytes;
        let cut = &whole[..whole.len().min(60_000)];
        compare(&testkit::damage::damage(cut, &mut rng).bytes, &format!("round {round}"));
    }
}

/// Things that span parts: an answer, one without an id, a repeated id, a prompt in the queue,
/// progress of an agent.
#[test]
fn what_lies_across_parts_comes_together() {
    let queue = |operation: &str| {
        format!(r#"{{"type":"queue-operation","operation":"{operation}","content":"one"}}"#)
    };
    let progress = r#""data":{"type":"agent_progress","agentId":"a1"},"parentToolUseID":"c""#;
    let nameless = r#""message":{"role":"assistant","content":[{"type":"text","text":"x"}]}"#;
    let mut script = Script::new().raw(&queue("enqueue")).prompt("p", "-", "one");
    for round in 0..40 {
        let under = if round == 0 { "p".to_owned() } else { format!("a{}", round - 1) };
        script = script.says(&format!("a{round}"), &under, "m", "part of one answer");
        script = script.record("progress", &format!("g{round}"), "p", progress);
    }
    script = script.raw(&queue("remove")).prompt("p", "-", "one");
    for round in 0..40 {
        script = script.record("assistant", &format!("n{round}"), "p", nameless);
    }
    compare(script.text().as_bytes(), "made by hand");
}
