use std::fmt::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::*;

/// A document with three pages, of which the last two are in a folder of their own.
fn plain() -> Vec<u8> {
    let stream = |text: &str| format!("<< /Length {} >>\nstream\n{text}\nendstream", text.len());
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Count 3 /Kids [ 3 0 R 4 0 R ] /MediaBox [0 0 9 9] /Rotate 90 >>"
            .to_owned(),
        "<< /Type /Page /Parent 2 0 R /Contents 7 0 R /Annots [<< /Dest [6 0 R /Fit] >>] >>"
            .to_owned(),
        "<</Type/Pages/Parent 2 0 R/Count 2/Kids 10 0 R/Resources<</Font<</F1 11 0 R>>>>>>"
            .to_owned(),
        "<< /Type /Page /Parent 4 0 R /Contents [8 0 R] /Rotate 0 /Title (a \\) 9 0 R) >>"
            .to_owned(),
        "<< /Type /Page /Parent 4 0 R /Contents 9 0 R >>".to_owned(),
        stream("FIRST obj 5 0 obj"),
        stream("SECOND"),
        stream("THIRD"),
        "[5 0 R 6 0 R]".to_owned(),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> % a comment".to_owned(),
    ];
    let mut text = "%PDF-1.4\n".to_owned();
    for (number, object) in (1..).zip(objects) {
        write!(text, "{number} 0 obj\n{object}\nendobj\n").unwrap();
    }
    text.push_str("trailer\n<< /Root 1 0 R /Size 12 >>\nstartxref\n0\n%%EOF\n");
    text.into_bytes()
}

/// The same, with most objects compressed in another one.
fn packed() -> Vec<u8> {
    let (objects, _) = objects(&plain());
    let (mut head, mut body, mut count) = (String::new(), Vec::new(), 0);
    let mut out = b"%PDF-1.5\n".to_vec();
    for (number, object) in &objects {
        if object.stream.is_empty() {
            write!(head, "{number} {} ", body.len()).unwrap();
            body.extend([object.value.as_slice(), b" "].concat());
            count += 1;
        } else {
            let all = [object.value.as_slice(), &object.stream].concat();
            out.extend(format!("{number} 0 obj\n").bytes());
            out.extend(all);
            out.extend(b"\nendobj\n");
        }
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(head.as_bytes()).unwrap();
    encoder.write_all(&body).unwrap();
    let data = encoder.finish().unwrap();
    let first = head.len();
    out.extend(
        format!(
            "20 0 obj\n<< /Type /ObjStm /N {count} /First {first} /Filter /FlateDecode /Length {} >>\nstream\r\n",
            data.len()
        )
        .bytes(),
    );
    out.extend(data);
    out.extend(b"\nendstream\nendobj\n21 0 obj\n<< /Type /XRef /Root 1 0 R /Length 0 >>\nstream\n\nendstream\nendobj\n");
    out
}

#[test]
fn pages_are_taken_out_with_what_they_use() {
    for bytes in [plain(), packed()] {
        let pages = Pages::find(&bytes).unwrap();
        assert_eq!(pages.order, [3, 5, 6]);
        let part = pages.only(&[2]).unwrap();
        let text = String::from_utf8_lossy(&part);
        assert!(
            text.contains("SECOND") && !text.contains("FIRST") && !text.contains("THIRD"),
            "{text}"
        );
        // What it has from above stands in the page now, unless it has its own.
        assert!(
            text.contains("/MediaBox [0 0 9 9]") && text.contains("/Font<</F1 11 0 R>>"),
            "{text}"
        );
        assert!(text.contains("/Rotate 0") && !text.contains("/Rotate 90"), "{text}");
        assert!(text.contains("/Helvetica"), "{text}");
        let again = Pages::find(&part).unwrap();
        assert_eq!(again.order, [5]);
        // The table of the new document leads to its objects.
        let table = text.split_once("xref\n").unwrap().1;
        let lines: Vec<&str> = table.lines().collect();
        for pair in lines[2..].chunks(2).take_while(|pair| pair[0].ends_with(" 1")) {
            let number = pair[0].split_once(' ').unwrap().0;
            let place: usize = pair[1].split_once(' ').unwrap().0.parse().unwrap();
            assert!(part[place..].starts_with(format!("{number} 0 obj").as_bytes()), "{pair:?}");
        }
        // A link to a page that is not there takes nothing along.
        let first = pages.only(&[1, 3]).unwrap();
        let text = String::from_utf8_lossy(&first);
        assert!(text.contains("FIRST") && text.contains("THIRD") && !text.contains("SECOND"));
        assert_eq!(Pages::find(&first).unwrap().order, [3, 6]);
        let alone = pages.only(&[1]).unwrap();
        assert!(!String::from_utf8_lossy(&alone).contains("THIRD"));
    }
}

#[test]
fn pages_are_named_by_numbers() {
    assert_eq!(wanted("3", 9, 100), Some(vec![3]));
    assert_eq!(wanted("4-6, 2", 5, 100), Some(vec![2, 4, 5]));
    assert_eq!(wanted("8-", 9, 100), Some(vec![8, 9]));
    assert_eq!(wanted("1-999999999999", 9, 3).map(|pages| pages.len()), Some(4));
    for odd in ["", "0", "x", "3-2", "12", "1;2"] {
        assert_eq!(wanted(odd, 9, 100), None, "{odd}");
    }
}

#[test]
fn whatever_the_bytes_are_it_ends() {
    let whole = [plain(), packed()];
    for bytes in &whole {
        for cut in (0..bytes.len()).step_by(7) {
            let _ = Pages::find(&bytes[..cut]).map(|pages| pages.only(&[1, 2, 3]));
            let mut other = bytes.clone();
            other[cut] ^= 0x15;
            let _ = Pages::find(&other).map(|pages| pages.only(&[1, 2, 3]));
        }
    }
    for hostile in ["1 0 obj(", "1 0 obj<<", "1 0 obj<</A[", "trailer<</Root", "1 0 obj<<>>stream"]
    {
        assert!(Pages::find(hostile.repeat(50_000).as_bytes()).is_none());
    }
    let circle =
        "1 0 obj<</Pages 2 0 R>>endobj 2 0 obj<</Kids[2 0 R 2 0 R]>>endobj trailer<</Root 1 0 R>>";
    assert!(Pages::find(circle.as_bytes()).is_none());
}
