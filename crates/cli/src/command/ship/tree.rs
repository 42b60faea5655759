//! `quipu ship --dry-run`: what would be sent, as a tree.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write as _};

use export::id::SpanId;
use export::plan::Plan;
use export::profile::{Told, Value};
use export::ship::Known;
use export::span::{Generation, Level, Span, What};
use ratatui::style::Style;
use serde_json::{Map, json};
use transcript::conversation::agents::WithAgents;
use transcript::conversation::ingest::{Closing, Origins};
use transcript::conversation::place::Session;
use transcript::format::time::Time;

use super::ShipArgs;
use crate::failure::Failure;
use crate::out::JSON_VERSION;
use crate::out::{BAD, BOLD, DIM, WARN};
use crate::receiver::{ids, look_for, telling_nobody};
use crate::text::{count, fit, one_line, printable, short_number, span as length};
use crate::world::World;

pub(super) fn tree(
    world: &mut World,
    args: &ShipArgs,
    sessions: &[Session],
    since: Option<Time>,
) -> Result<(), Failure> {
    let receiver = look_for(world, &args.receiver)?;
    let nobody = telling_nobody(world, &args.receiver);
    let telling = receiver.as_ref().map_or(&nobody, |receiver| &receiver.telling);
    let mut known = Known::new(receiver.as_ref().map(|receiver| &receiver.dir), args.repeat());
    let ids = ids(world, &args.receiver);
    let (mut origins, mut quiet, mut has_spans) = (Origins::default(), 0, false);
    for session in sessions {
        let agents = origins.agents(session);
        let closing = Closing::by_time(session, &agents, world.now);
        let failed = |error| Failure::mixed(&session.path, error);
        let family = WithAgents::open_with(session, agents.clone()).map_err(failed)?;
        let copied = origins.of(session, &family.main.table);
        let plan = Plan::new(family, &session.id, &ids, &closing, &copied);
        let mut with_secrets = None;
        let mut drawn = Tree::default();
        let (mut unfinished, mut elsewhere, mut there) = (0, 0, 0);
        for shipment in plan.shipments() {
            let unit = shipment.unit;
            if unit.is_copy {
                elsewhere += 1;
                continue;
            }
            if since.is_some_and(|since| plan.opened(unit) < since) {
                continue;
            }
            if !unit.is_finished {
                unfinished += 1;
                continue;
            }
            if known.has(shipment) {
                there += 1;
                continue;
            }
            known.add(shipment);
            let telling = match &with_secrets {
                Some(telling) => telling,
                None => with_secrets.insert(telling.of_session(session, &agents).map_err(failed)?),
            };
            let read = plan.spans(shipment, &mut |span| {
                match telling.tell(&span) {
                    Some(profiled) if args.json => world.out.json(&as_json(&span, &profiled))?,
                    Some(profiled) => drawn.add(&span, &profiled),
                    None => {}
                }
                Ok(())
            });
            read.map_err(failed)?;
        }
        if !args.json {
            if drawn.nodes.is_empty() && unfinished == 0 && sessions.len() > 1 {
                quiet += 1;
                continue;
            }
            has_spans |= !drawn.nodes.is_empty();
            drawn.draw(world, &session.id)?;
            let rest = [
                (there, "already there"),
                (unfinished, "not finished yet"),
                (elsewhere, "sent with the session that they were copied from"),
            ];
            for (number, what) in rest.into_iter().filter(|(number, _)| *number > 0) {
                let text = format!("{} {what}", count(number, "turn or run|turns or runs"));
                writeln!(world.out, "{}", world.out.style(DIM, &text))?;
            }
        }
    }
    if quiet > 0 {
        world.out.note(&format!("nothing to send of {}", count(quiet, "session")))?;
    }
    // Samples are not sent.
    if has_spans && !world.has_samples() {
        let to = if receiver.is_none() { " and with `--to URL`" } else { "" };
        let text = format!("nothing was sent: run it again without `--dry-run`{to} to send this");
        world.out.note(&text)?;
    }
    Ok(())
}

/// A span as it would be sent.
fn as_json(span: &Span, profiled: &Told) -> serde_json::Value {
    let attributes = profiled.attributes.iter().map(|(name, value)| {
        let value = match value {
            Value::Text(text) => json!(text),
            Value::Texts(texts) => json!(texts),
            Value::Number(number) => json!(number),
            Value::Float(number) => json!(number),
        };
        (name.to_string(), value)
    });
    let events =
        profiled.events.iter().map(|(time, name)| json!({"time": time.to_string(), "name": name}));
    json!({
        "v": JSON_VERSION, "trace": span.turn.trace.to_string(), "span": span.id.to_string(),
        "parent": span.parent.map(|id| id.to_string()), "name": profiled.name,
        "start": profiled.times[0].to_string(), "end": profiled.times[1].to_string(),
        "error": profiled.error, "attributes": attributes.collect::<Map<_, _>>(),
        "events": events.collect::<Vec<_>>(),
    })
}

/// The spans of a session, in a few words each.
#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
    below: HashMap<SpanId, Vec<usize>>,
    roots: Vec<usize>,
}

struct Node {
    id: SpanId,
    name: String,
    facts: Vec<String>,
    level: Level,
    about: String,
}

/// How much of a text is shown, in columns.
const ABOUT: usize = 60;

impl Tree {
    fn add(&mut self, span: &Span, profiled: &Told) {
        let at = self.nodes.len();
        match span.parent {
            Some(parent) => self.below.entry(parent).or_default().push(at),
            None => self.roots.push(at),
        }
        let [start, end] = profiled.times;
        let mut facts = vec![length(end.0 - start.0)];
        match &span.what {
            What::Generation(made) => generation(made, &mut facts),
            What::Turn { outcome, .. } if *outcome != "answered" => {
                facts.push((*outcome).to_owned());
            }
            What::Agent { is_background: true, .. } => facts.push("in the background".to_owned()),
            What::Compaction { is_auto, .. } => {
                facts.push(if *is_auto { "automatic" } else { "manual" }.to_owned());
            }
            What::Turn { .. } | What::Agent { .. } | What::Tool { .. } => {}
        }
        // Only what is sent is shown.
        let sent = |names: [&str; 2]| {
            let mut found = profiled.attributes.iter().filter(|(name, _)| names.contains(&&**name));
            found.find_map(|(_, value)| match value {
                Value::Text(text) => Some(Cow::Borrowed(text.as_str())),
                _ => None,
            })
        };
        let input = sent(["input.value", "langfuse.observation.input"]);
        let output = sent(["output.value", "langfuse.observation.output"]);
        let about = if matches!(span.what, What::Generation(_)) { None } else { input.or(output) };
        let about = fit(&one_line(&about.unwrap_or_default()), ABOUT);
        // An error text that is not sent is not shown either.
        let level = match &span.level {
            Level::Error(kind, _) => {
                Level::Error(kind.clone(), profiled.error.clone().unwrap_or_default())
            }
            other => other.clone(),
        };
        self.nodes.push(Node { id: span.id, name: profiled.name.clone(), facts, level, about });
    }

    fn draw(&self, world: &mut World, session: &str) -> io::Result<()> {
        let title = world.out.style(BOLD, &printable(session));
        let none = if self.nodes.is_empty() { "  nothing to send" } else { "" };
        writeln!(world.out, "{title}{none}")?;
        for root in &self.roots {
            self.node(world, *root, "", "")?;
        }
        // Spans whose parent is not sent with them.
        let known: HashSet<SpanId> = self.nodes.iter().map(|node| node.id).collect();
        let lost = self.below.iter().filter(|(id, _)| !known.contains(id));
        let mut lost: Vec<&usize> = lost.flat_map(|(_, list)| list).collect();
        lost.sort_unstable();
        lost.into_iter().try_for_each(|at| self.node(world, *at, "… ", "  "))
    }

    fn node(&self, world: &mut World, at: usize, first: &str, rest: &str) -> io::Result<()> {
        let node = &self.nodes[at];
        let out = &mut world.out;
        let (style, message): (Style, String) = match &node.level {
            Level::Default => (DIM, String::new()),
            Level::Warning(why) => (WARN, format!("  {why}")),
            Level::Error(kind, why) if why.is_empty() => (BAD, format!("  {kind}")),
            Level::Error(_, why) => (BAD, format!("  {why}")),
        };
        let name = out.style(BOLD, &printable(&node.name));
        let facts = out.style(DIM, &printable(&node.facts.join(", ")));
        let message = out.style(style, &fit(&printable(&message), ABOUT));
        let about = printable(&node.about);
        let line = format!("{first}{name}  {facts}{message}  {about}");
        writeln!(out, "{}", line.trim_end())?;
        let below = self.below.get(&node.id).map_or(&[][..], Vec::as_slice);
        for (place, child) in below.iter().enumerate() {
            let (branch, line) =
                if place + 1 == below.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.node(world, *child, &format!("{rest}{branch}"), &format!("{rest}{line}"))?;
        }
        Ok(())
    }
}

fn generation(made: &Generation, facts: &mut Vec<String>) {
    if let Some(spent) = made.spent {
        let cached = spent.cache_read + spent.cache_5m + spent.cache_1h;
        let input = short_number(spent.input + cached);
        let least = if made.is_final { "" } else { "at least " };
        facts.push(format!("{input} in, {least}{} out", short_number(spent.output)));
        if let Some(cost) = made.cost() {
            facts.push(format!("${:.4}", cost.total()));
        }
    }
    facts.extend(made.stop.clone());
}
