//! Tests what sessions become as spans: on real files, and on the transcript of the reference
//! captures.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests may"
)]

mod grow;
mod nest;
mod tell;

use std::collections::BTreeMap;
use std::path::Path;

use export::id::Ids;
use export::plan::Plan;
use export::span::Span;
use transcript::conversation::agents::WithAgents;
use transcript::conversation::ingest::{Closing, Copied};
use transcript::conversation::place::Session;

/// The plan of the session in a file.
fn plan(path: &Path, closing: &Closing) -> Plan {
    let session = Session::at(path).unwrap();
    let family = WithAgents::open(&session).unwrap();
    Plan::new(family, &session.id, &Ids::default(), closing, &Copied::default())
}

/// The spans of finished units, by unit.
fn spans(plan: &Plan) -> BTreeMap<String, Vec<Span>> {
    let mut found = BTreeMap::new();
    for unit in plan.shipments().filter(|one| one.unit.is_finished) {
        let mut unit_spans = Vec::new();
        plan.spans(unit, &mut |span| {
            unit_spans.push(span);
            Ok(())
        })
        .unwrap();
        assert!(found.insert(unit.key.to_owned(), unit_spans).is_none(), "two units have one key");
    }
    found
}

fn ended() -> Closing {
    Closing::ended()
}
