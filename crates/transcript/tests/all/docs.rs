//! `docs/format.md` says what `known.txt` says.
//!
//! `QUIPU_BLESS=1 cargo test -p transcript docs` writes the tables anew.

use std::fmt::Write;
use std::fs;

use transcript::known::{Place, places};

const BEGIN: &str = "<!-- made from known.txt: begin -->\n";
const END: &str = "<!-- made from known.txt: end -->\n";

fn section(title: &str, names: &[&Place], text: &mut String) {
    writeln!(text, "\n### {title}\n").unwrap();
    for place in names {
        write!(text, "**`{}`**", place.name).unwrap();
        if let Some(base) = place.base {
            write!(text, ", and all of `{base}`").unwrap();
        }
        if !place.note.is_empty() {
            write!(text, ". {}", place.note).unwrap();
        }
        text.push('\n');
        if !place.fields.is_empty() {
            text.push_str("\n| member | first | holds | |\n|---|---|---|---|\n");
        }
        for field in &place.fields {
            let holds = match field.into {
                "-" => String::new(),
                "~" => "anything".to_owned(),
                into if into.ends_with('.') => format!("`{into}…`"),
                into => match into.strip_prefix('*') {
                    Some(inner) => format!("by name: `{inner}`"),
                    None => format!("`{into}`"),
                },
            };
            writeln!(text, "| `{}` | {} | {holds} | {} |", field.name, field.first, field.note)
                .unwrap();
        }
        text.push('\n');
    }
}

fn tables() -> String {
    let mut text = String::new();
    let is_record = |place: &Place| {
        transcript::entry::Kind::named(place.name) != transcript::entry::Kind::Other
    };
    let family = |name: &str| name.split_once('.').map(|parts| parts.0.to_owned());
    let pick =
        |wanted: &dyn Fn(&Place) -> bool| places().iter().filter(|p| wanted(p)).collect::<Vec<_>>();
    section("Records", &pick(&|p| p.name == "envelope" || is_record(p)), &mut text);
    for (title, of) in [
        ("`system` records by subtype", "system"),
        ("Attachments", "attachment"),
        ("Progress", "progress"),
        ("Content blocks", "block"),
    ] {
        section(title, &pick(&|p| family(p.name).as_deref() == Some(of)), &mut text);
    }
    let rest = pick(&|p| p.name != "envelope" && !is_record(p) && family(p.name).is_none());
    section("What stands inside", &rest, &mut text);
    text
}

#[test]
#[allow(clippy::disallowed_methods, reason = "blessing writes the document")]
fn the_format_document_is_up_to_date() {
    let path = testkit::root().join("docs/format.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the begin mark");
    let (inside, after) = rest.split_once(END).expect("the end mark");
    if std::env::var("QUIPU_BLESS").is_ok() {
        fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", tables())).unwrap();
    } else {
        assert!(inside == tables(), "run: QUIPU_BLESS=1 cargo test -p transcript docs");
    }
}
