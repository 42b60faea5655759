//! A line of a hundred megabytes.

use std::fs::File;
use std::io::Write;

use crate::env::Env;

#[test]
fn a_line_far_too_long_to_hold_is_a_line_like_others() {
    let env = Env::bare();
    let path = env.path("long.jsonl");
    let mut file = File::create(&path).unwrap();
    let front = "{\"type\":\"user\",\"uuid\":\"u\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{\"data\":\"";
    let back = "\"}}]}}";
    let block = "QUJD".repeat(1 << 18);
    write!(file, "{{\"type\":\"mode\"}}\n{front}").unwrap();
    for _ in 0..100 {
        file.write_all(block.as_bytes()).unwrap();
    }
    // Glued to the next record, for good measure.
    writeln!(file, "{back}{{\"type\":\"user\",\"uuid\":\"glued\"}}").unwrap();
    drop(file);
    let name = path.to_str().unwrap();
    let text = env.run(&["inventory", name]);
    assert!(text.contains("2 lines, 3 records") && text.contains("2 recovered"), "{text}");
    assert!(text.contains("image"), "{text}");
    let output = env.output(&["cat", name, "--kind", "recovered"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let length = front.len() + 100 * block.len() + back.len();
    let first = format!(
        "{{\"v\":1,\"line\":2,\"offset\":16,\"len\":{length},\"state\":\"recovered\",\"kind\":\"user\",\"entry\":{{"
    );
    assert!(lines[0].starts_with(&first) && lines[0].len() > 100 << 20, "{}", &lines[0][..200]);
    assert!(lines[0].ends_with("\"}}]}}}") && lines[1].contains("\"uuid\":\"glued\""));
}
