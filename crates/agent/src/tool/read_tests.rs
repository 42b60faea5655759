//! `Read` as it was recorded, and what it refuses.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::write::test_site::TestSite;
use super::run;
use crate::freshness::State;

/// The header of a picture of 16 by 9 pixels.
fn png() -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    png.extend([0, 0, 0, 16, 0, 0, 0, 9, 8, 2, 0, 0, 0, 1, 2, 3, 4]);
    png
}

fn input(name: &str) -> Value {
    json!({"file_path": format!("/demo/{name}")})
}

fn part(name: &str, offset: u64, limit: u64) -> Value {
    json!({"file_path": format!("/demo/{name}"), "offset": offset, "limit": limit})
}

#[test]
fn a_text_with_line_numbers() {
    let bench = TestSite::new();
    let path = bench.file("README.md", "# Demo\n\nA small widget counter.\n");
    let (output, detail) = bench.run(run, &input("README.md"));
    assert_eq!(output, "     1→# Demo\n     2→\n     3→A small widget counter.\n     4→");
    assert_eq!(
        detail,
        concat!(
            r##"{"type":"text","file":{"filePath":"/demo/README.md","##,
            r##""content":"# Demo\n\nA small widget counter.\n","numLines":4,"startLine":1,"##,
            r##""totalLines":4}}"##,
        )
    );
    assert_eq!(bench.site.seen.state(&path), State::Known);
}

#[test]
fn some_lines_of_a_large_text() {
    let bench = TestSite::new();
    bench.file("big.txt", "row lorem ipsum\n".repeat(40_000));
    let (output, detail) = bench.run(run, &part("big.txt", 100, 2));
    assert_eq!(output, "   100→row lorem ipsum\n   101→row lorem ipsum");
    assert_eq!(
        detail,
        concat!(
            r#"{"type":"text","file":{"filePath":"/demo/big.txt","#,
            r#""content":"row lorem ipsum\nrow lorem ipsum","numLines":2,"startLine":100,"#,
            r#""totalLines":40001}}"#,
        )
    );
    let (output, detail) =
        bench.run(run, &json!({"file_path": "/demo/big.txt", "offset": 40_001.0}));
    assert_eq!(output, " 40001→");
    assert!(detail.contains(r#""numLines":1,"startLine":40001"#), "{detail}");
    assert_eq!(
        bench.refusal(run, &input("big.txt")),
        (
            false,
            "File is too large to read whole (625 KB, at most 256 KB). Use offset and \
                limit to read a part, or Grep to search it."
                .into()
        )
    );
    assert_eq!(
        bench.refusal(run, &part("big.txt", 1, 20_000)),
        (
            false,
            "That is more than 100000 characters. Use offset and limit to read a smaller part, or Grep.".into()
        )
    );
}

#[test]
fn two_thousand_lines_are_shown() {
    let bench = TestSite::new();
    bench.file("long.txt", "x\n".repeat(2_500));
    let (output, detail) = bench.run(run, &input("long.txt"));
    let more = "\n  2000→x\n\n<system-reminder>These are lines 1 to 2000 of 2501: use offset for \
        more.</system-reminder>";
    assert!(output.ends_with(more), "{output}");
    assert!(detail.ends_with(r#""numLines":2000,"startLine":1,"totalLines":2501}}"#), "{detail}");
}

#[test]
fn long_lines_are_cut() {
    let bench = TestSite::new();
    let long = "é".repeat(9_000);
    bench.file("wide.txt", format!("{long}\nend"));
    let (output, detail) = bench.run(run, &input("wide.txt"));
    let cut = "é".repeat(2_000);
    assert_eq!(output, format!("     1→{cut}… [line cut]\n     2→end"));
    assert!(detail.contains(&format!(r#""content":"{cut}… [line cut]\nend","#)));
    bench.file("exact.txt", "x".repeat(2_000));
    let (output, _) = bench.run(run, &input("exact.txt"));
    assert_eq!(output.len(), "     1→".len() + 2_000);
}

#[test]
fn line_ends_and_odd_bytes() {
    let bench = TestSite::new();
    bench.file("dos.txt", b"\xef\xbb\xbfcaf\xe9\r\ntwo\r\n");
    let (output, _) = bench.run(run, &input("dos.txt"));
    assert_eq!(output, "     1→caf\u{fffd}\n     2→two\n     3→");
}

#[test]
fn there_may_be_nothing_to_show() {
    let bench = TestSite::new();
    bench.file("empty.txt", "");
    let (output, detail) = bench.run(run, &input("empty.txt"));
    assert_eq!(output, "<system-reminder>The file is empty.</system-reminder>");
    assert_eq!(
        detail,
        concat!(
            r#"{"type":"text","file":{"filePath":"/demo/empty.txt","content":"","numLines":1,"#,
            r#""startLine":1,"totalLines":1}}"#,
        )
    );
    bench.file("short.txt", "a\nb\n");
    let (output, detail) = bench.run(run, &part("short.txt", 9, 5));
    assert_eq!(output, "<system-reminder>The file has only 3 lines.</system-reminder>");
    assert!(
        detail.contains(r#""content":"","numLines":0,"startLine":9,"totalLines":3"#),
        "{detail}"
    );
}

#[test]
fn what_is_not_there() {
    let bench = TestSite::new();
    assert_eq!(bench.refusal(run, &input("missing.txt")), (false, "File does not exist.".into()));
    bench.file("src/widget.py", "");
    assert_eq!(
        bench.refusal(run, &input("src/widgets.py")),
        (false, "File does not exist. Did you mean /demo/src/widget.py?".into())
    );
    assert_eq!(
        bench.refusal(run, &input("src/widget.py/x")),
        (false, "File does not exist.".into())
    );
}

#[test]
fn what_is_no_text() {
    let bench = TestSite::new();
    bench.file("src/a", "");
    assert_eq!(
        bench.refusal(run, &input("src")),
        (false, "/demo/src is a folder. List it with Bash (`ls`) or Glob.".into())
    );
    bench.file("a.out", b"\x7fELF\0\0\0");
    assert_eq!(
        bench.refusal(run, &input("a.out")),
        (false, "/demo/a.out is a binary file.".into())
    );
    #[cfg(unix)]
    assert_eq!(
        bench.refusal(run, &json!({"file_path": "/dev/null"})),
        (false, "/dev/null is not a regular file.".into())
    );
}

#[test]
fn a_picture() {
    let bench = TestSite::new();
    // The name does not matter.
    bench.file("plot.jpg", png());
    let (output, detail) = bench.run(run, &input("plot.jpg"));
    let data = STANDARD.encode(png());
    assert_eq!(
        output,
        format!(
            r#"[{{"type":"image","source":{{"type":"base64","data":"{data}","media_type":"image/png"}}}}]"#
        )
    );
    assert_eq!(
        detail,
        format!(
            concat!(
                r#"{{"type":"image","file":{{"base64":"{data}","type":"image/png","#,
                r#""originalSize":33,"dimensions":{{"originalWidth":16,"originalHeight":9,"#,
                r#""displayWidth":16,"displayHeight":9}}}}}}"#,
            ),
            data = data
        )
    );
}

#[test]
fn a_picture_that_the_api_would_refuse() {
    let bench = TestSite::new();
    let mut huge = png();
    huge.resize(4_000_000, 0);
    bench.file("huge.png", huge);
    assert_eq!(
        bench.refusal(run, &input("huge.png")),
        (false, "The picture is too large: 3.8MB, at most 3.7MB can be read.".into())
    );
    let mut wide = png();
    wide[18] = 0x80;
    bench.file("wide.png", wide);
    assert_eq!(
        bench.refusal(run, &input("wide.png")),
        (false, "The picture has 32784x9 pixels, at most 8000x8000 can be read.".into())
    );
    bench.file("torn.png", &png()[..18]);
    let (_, message) = bench.refusal(run, &input("torn.png"));
    assert!(message.starts_with("The picture is broken: "), "{message}");
}

#[test]
fn a_document() {
    let bench = TestSite::new();
    bench.file("paper.pdf", "%PDF-1.7\n%%EOF\n");
    let (output, detail) = bench.run(run, &input("paper.pdf"));
    let data = STANDARD.encode("%PDF-1.7\n%%EOF\n");
    assert_eq!(
        output,
        format!(
            concat!(
                r#"[{{"type":"text","text":"PDF file read: /demo/paper.pdf (0KB)"}},"#,
                r#"{{"type":"document","source":{{"type":"base64","#,
                r#""media_type":"application/pdf","data":"{data}"}}}}]"#,
            ),
            data = data
        )
    );
    assert_eq!(
        detail,
        format!(
            r#"{{"type":"pdf","file":{{"filePath":"/demo/paper.pdf","base64":"{data}","originalSize":15}}}}"#
        )
    );
    let mut huge = b"%PDF-1.7\n".to_vec();
    huge.resize((20 << 20) + 1, b' ');
    bench.file("huge.pdf", huge);
    assert_eq!(
        bench.refusal(run, &input("huge.pdf")),
        (false, "The document is too large: 20.0MB, at most 20.0MB can be read.".into())
    );
}

#[test]
fn a_notebook() {
    let bench = TestSite::new();
    let notebook = json!({
        "cells": [
            {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Title\n", "text"]},
            {"cell_type": "code", "metadata": {}, "source": "1/0", "execution_count": 3, "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["hello\n"]},
                {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": ["<Figure>"]}},
                {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division",
                 "traceback": ["line 1", "line 2"]},
            ]},
        ],
        "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5,
    });
    bench.file("a.ipynb", notebook.to_string());
    let (output, detail) = bench.run(run, &input("a.ipynb"));
    assert_eq!(
        output,
        "<cell id=\"intro\"><cell_type>markdown</cell_type># Title\ntext</cell \
            id=\"intro\">\n<cell id=\"cell-1\">1/0</cell id=\"cell-1\">\nhello\n<Figure>\n\
            [image/png]\nZeroDivisionError: division\nline 1\nline 2"
    );
    assert_eq!(
        detail,
        concat!(
            r##"{"type":"notebook","file":{"filePath":"/demo/a.ipynb","##,
            r##""cells":[{"cellType":"markdown","source":"# Title\ntext","cell_id":"intro"},"##,
            r##"{"cellType":"code","source":"1/0","execution_count":3,"cell_id":"cell-1","##,
            r##""language":"python","outputs":[{"output_type":"stream","text":"hello\n"},"##,
            r##"{"output_type":"display_data","text":"<Figure>\n[image/png]"},"##,
            r##"{"output_type":"error","##,
            r##""text":"ZeroDivisionError: division\nline 1\nline 2"}]}]}}"##,
        )
    );
    bench.file("b.ipynb", "{}");
    let (_, message) = bench.refusal(run, &input("b.ipynb"));
    assert!(message.starts_with("/demo/b.ipynb is not a notebook: "), "{message}");
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_read() {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    let bench = TestSite::new();
    let path = bench.file("secret.txt", "x");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&path).is_ok() {
        return; // root reads all
    }
    assert_eq!(
        bench.refusal(run, &input("secret.txt")),
        (false, "No permission to read /demo/secret.txt.".into())
    );
}

#[test]
fn what_has_no_size_is_not_empty() {
    let bench = TestSite::new();
    if std::path::Path::new("/proc/self/status").exists() {
        let (output, _) = bench.run(run, &json!({"file_path": "/proc/self/status"}));
        assert!(output.starts_with("     1→Name:"), "{output}");
    }
}

#[test]
fn what_changes_after_it_was_read_is_not_seen() {
    let bench = TestSite::new();
    let path = bench.file("a.txt", "one");
    bench.run(run, &input("a.txt"));
    bench.file("a.txt", "two");
    assert_eq!(bench.site.seen.state(&path), State::Changed);
    // If a part was read, the whole file counts.
    bench.file("a.txt", "1\n2\n3\n");
    bench.run(run, &json!({"file_path": "/demo/a.txt", "offset": 1, "limit": 1}));
    assert_eq!(bench.site.seen.state(&path), State::Known);
    bench.file("a.txt", "1\n2\n4\n");
    assert_eq!(bench.site.seen.state(&path), State::Changed);
}

#[test]
fn documents_that_the_api_would_refuse() {
    let bench = TestSite::new();
    let page = "1 0 obj <</Type /Page /Parent 2 0 R>> endobj\n2 0 obj <</Type\n/Pages>> endobj\n";
    bench.file("long.pdf", format!("%PDF-1.4\n{}", page.repeat(100)));
    bench.run(run, &input("long.pdf"));
    bench.file("longer.pdf", format!("%PDF-1.4\n{}<</Type/Page>>", page.repeat(100)));
    let (is_tagged, message) = bench.refusal(run, &input("longer.pdf"));
    assert!(
        !is_tagged && message.starts_with("The document has 101 pages, at most 100 can be read.")
    );
    bench.file("secret.pdf", "%PDF-1.4\ntrailer <</Root 1 0 R /Encrypt 5 0 R>>");
    let expected = "The document is encrypted. Decrypt it with Bash and qpdf.".to_owned();
    assert_eq!(bench.refusal(run, &input("secret.pdf")), (false, expected));
}

/// A grey picture that can be decoded, without compression.
fn grey(width: u32, height: u32) -> Vec<u8> {
    let crc = |bytes: &[u8]| {
        let step = |crc: u32, byte: &u8| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 }
            })
        };
        !bytes.iter().fold(u32::MAX, step)
    };
    let rows: Vec<u8> =
        (0..height).flat_map(|_| std::iter::once(0).chain((0..width).map(|_| 128))).collect();
    let adler = rows.iter().fold((1_u32, 0_u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    let mut data = vec![0x78, 0x01];
    let len = u16::try_from(rows.len()).unwrap();
    data.push(1);
    data.extend(len.to_le_bytes());
    data.extend((!len).to_le_bytes());
    data.extend(rows);
    data.extend(((adler.1 << 16) | adler.0).to_be_bytes());
    let mut head = [width.to_be_bytes(), height.to_be_bytes()].concat();
    head.extend([8, 0, 0, 0, 0]);
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, content) in [(b"IHDR", head), (b"IDAT", data), (b"IEND", Vec::new())] {
        out.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
        let part = [name.as_slice(), &content].concat();
        out.extend(&part);
        out.extend(crc(&part).to_be_bytes());
    }
    out
}

#[test]
fn a_picture_that_is_too_large_is_made_smaller() {
    let bench = TestSite::new();
    bench.file("wide.png", grey(9_000, 6));
    let (output, detail) = bench.run(run, &input("wide.png"));
    let detail: serde_json::Value = serde_json::from_str(&detail).unwrap();
    let sizes = &detail["file"]["dimensions"];
    assert_eq!((&sizes["originalWidth"], &sizes["displayWidth"]), (&json!(9_000), &json!(2_000)));
    let blocks: serde_json::Value = serde_json::from_str(&output).unwrap();
    let data = STANDARD.decode(blocks[0]["source"]["data"].as_str().unwrap()).unwrap();
    let size = imagesize::blob_size(&data).unwrap();
    assert_eq!((size.width, size.height), (2_000, 1));
}
