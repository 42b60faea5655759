//! `quipu turns`: the turns of a session, as a table or as JSON.

use std::io::Write;

use serde::Serialize;
use transcript::conversation::agents::WithAgents;
use transcript::conversation::turn::reference::{
    self, CcLangfuseTurn, Reference, Round, StopReasonMessage, StopReasonTurn,
};
use transcript::conversation::turn::{Outcome, Turn};
use transcript::conversation::view::{self, AgentView, SessionView, TurnPlace};
use transcript::conversation::{Conversation, Turns};
use transcript::format::file::Lines;

use crate::as_json::{self, Versioned};
use crate::damage;
use crate::failure::Failure;
use crate::headline::headline;
use crate::prices;
use crate::select;
use crate::table::{Column, Table};
use crate::text::{dollars, local, output, short_number, span};
use crate::version::As;
use crate::world::World;

/// List the turns of a session: what was asked, and what came of it
///
/// A turn begins with the input of a person, another session or a finished task, and contains
/// everything up to the next one. Answers are joined by their ids. Calls are paired with their
/// results; failed calls are marked `✗`. `>` before output tokens: the number is only a lower
/// bound. `--json` prints one object per line: the session, its turns (first the live ones, then
/// those of abandoned branches), its sub-agents and their turns; exact, secrets included.
#[derive(clap::Args, Debug)]
pub(crate) struct TurnsArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    /// Compare with how other programs count turns, answers and calls (docs/format.md)
    #[arg(long)]
    compare: bool,
    #[command(flatten)]
    r#as: As,
    /// Print one JSON object per line, with everything that was said and done
    #[arg(long)]
    json: bool,
}

pub(crate) fn turns(world: &mut World, args: &TurnsArgs) -> Result<(), Failure> {
    let rules = args.r#as.asked(world)?.rules;
    let session = select::session(world, &args.session)?;
    let mut family = WithAgents::open(&session)?;
    family.main.resume_as(rules);
    world.agents_unreadable(&family)?;
    let found = family.main.turns();
    if args.compare {
        let file = files::open(&session.path)
            .map_err(|error| Failure::unreadable(&session.path, error))?;
        let reference = reference::read(Lines::new(file))
            .map_err(|error| Failure::unreadable(&session.path, error))?;
        return if args.json {
            reference_as_json(world, &reference)
        } else {
            compare(world, &reference, &family.main, &found)
        };
    }
    if args.json {
        world.out.json(&Versioned::new(SessionView::new(&session.id, &family, &found)))?;
        return everything(world, &family, found);
    }
    table(world, &family.main, &found)
}

/// All turns, one per line, with their sub-agents.
fn everything(world: &mut World, family: &WithAgents, found: Turns) -> Result<(), Failure> {
    let runs = view::runs(family, found);
    for run in &runs {
        if let Some(agent) = run.place.agent.filter(|_| run.place.chain.is_none()) {
            let view = AgentView::new(family, agent, &run.turns)
                .map_err(|error| Failure::unreadable(&family.main.path, error))?;
            world.out.json(&Versioned::new(view))?;
        }
        for (number, turn) in (1..).zip(&run.turns) {
            as_json::turn(family, turn, TurnPlace { number, ..run.place }, &mut world.out)?;
            world.out.write_all(b"\n")?;
        }
    }
    Ok(())
}

fn table(world: &mut World, conversation: &Conversation, found: &Turns) -> Result<(), Failure> {
    let prices = prices::in_force(world, None)?;
    world.page()?;
    let mut table = Table::new(&[
        Column::right("turn"),
        Column::left("began"),
        Column::right("took"),
        Column::right("calls"),
        Column::right("in"),
        Column::right("out"),
        Column::right("cost"),
        Column::left("end"),
        Column::left("asked"),
    ])
    .flexible(8);
    let mut row = |name: String, turn: &Turn| -> Result<(), Failure> {
        let tokens = turn.tokens(&conversation.table);
        let spent = turn.spending(&conversation.table, &prices);
        let calls: Vec<_> = turn.calls(&conversation.table).collect();
        let failed = calls.iter().filter(|call| {
            conversation
                .pairs
                .of(**call)
                .is_some_and(|result| conversation.table.block(result).is_error)
        });
        table.row(&[
            name,
            turn.times.map(|[start, _]| local(start, "%m-%d %H:%M")).unwrap_or_default(),
            turn.times.map(|[start, end]| span(end.0.saturating_sub(start.0))).unwrap_or_default(),
            match failed.count() {
                0 => calls.len().to_string(),
                failed => format!("{} ({failed}✗)", calls.len()),
            },
            short_number(tokens.read()),
            output(tokens),
            if spent.messages > 0 { dollars(&spent) } else { String::new() },
            turn.outcome.name().to_owned(),
            headline(conversation, turn)?,
        ]);
        Ok(())
    };
    for (number, turn) in (1..).zip(&found.live) {
        row(number.to_string(), turn)?;
    }
    for (chain, turns) in &found.dead {
        for (number, turn) in (1..).zip(turns) {
            row(format!("branch {}, turn {number} (abandoned)", chain.0), turn)?;
        }
    }
    table.write(&mut world.out)?;
    if let Some(text) = damage::describe(conversation.table.damaged) {
        world.out.note(&text)?;
    }
    let open = conversation.pairs.open(&conversation.table).len();
    let orphans = conversation.pairs.orphans(&conversation.table).len();
    if open + orphans > 0 {
        world
            .out
            .note(&format!("calls without a result: {open}; results without a call: {orphans}"))?;
    }
    Ok(())
}

/// What other programs count, beside what we count.
fn compare(
    world: &mut World,
    reference: &Reference,
    conversation: &Conversation,
    found: &Turns,
) -> Result<(), Failure> {
    let mut table = Table::new(&[
        Column::left("what"),
        Column::right("stop-reason"),
        Column::right("cc-langfuse"),
        Column::right("rounds"),
        Column::right("quipu"),
    ]);
    let Reference { stop_reason: one, cc_langfuse: two, rounds: four } = reference;
    let rounds = four.iter().filter(|round| round.round != "continue").count();
    let all = || found.live.iter().chain(found.dead.iter().flat_map(|(_, turns)| turns));
    let complete = all().filter(|turn| turn.outcome.is_complete()).count();
    let answers = conversation.table.answers().len();
    let calls =
        conversation.table.blocks().iter().filter(|part| part.kind.is_call() && !part.is_repeat);
    let calls = calls.count();
    let open = conversation.pairs.open(&conversation.table).len();
    let answered = all().filter(|turn| turn.outcome != Outcome::Unanswered).count();
    let two_answers: usize = two.turns.iter().map(|turn| turn.answers.len()).sum();
    let none = String::new;
    let mut row = |what: &str, cells: [String; 4]| {
        let [one, two, four, ours] = cells;
        table.row(&[what.to_owned(), one, two, four, ours]);
    };
    row(
        "turns",
        [one.turns.len().to_string(), none(), rounds.to_string(), all().count().to_string()],
    );
    row(
        "turns with an answer",
        [none(), two.turns.len().to_string(), none(), answered.to_string()],
    );
    row("complete turns", [none(), none(), none(), complete.to_string()]);
    row(
        "answers",
        [one.messages.len().to_string(), two_answers.to_string(), none(), answers.to_string()],
    );
    row("calls", [one.calls.to_string(), none(), none(), calls.to_string()]);
    row(
        "calls with a result",
        [one.pairs.len().to_string(), none(), none(), (calls - open).to_string()],
    );
    row("blocks lost", [one.lost().to_string(), none(), none(), "0".to_owned()]);
    row(
        "consumed up to line",
        [none(), two.last_line.to_string(), none(), found.consumed.to_string()],
    );
    Ok(table.write(&mut world.out)?)
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum ReferenceLine<'a> {
    StopReasonTurn(&'a StopReasonTurn),
    StopReasonMessage(&'a StopReasonMessage),
    StopReason { calls: u64, paired: usize, blocks_lost: u64 },
    CcLangfuseTurn(&'a CcLangfuseTurn),
    CcLangfuse { turns: usize, consumed: u64, last_line: u64 },
    Round(&'a Round),
}

fn reference_as_json(world: &mut World, reference: &Reference) -> Result<(), Failure> {
    use ReferenceLine as Line;
    let Reference { stop_reason: one, cc_langfuse: two, rounds } = reference;
    let (calls, paired, blocks_lost) = (one.calls, one.pairs.len(), one.lost());
    let (turns, consumed, last_line) = (two.turns.len(), two.consumed, two.last_line);
    let first = one.turns.iter().map(Line::StopReasonTurn);
    let first = first.chain(one.messages.iter().map(Line::StopReasonMessage));
    let first = first.chain([Line::StopReason { calls, paired, blocks_lost }]);
    let second = two.turns.iter().map(Line::CcLangfuseTurn);
    let second = second.chain([Line::CcLangfuse { turns, consumed, last_line }]);
    for value in first.chain(second).chain(rounds.iter().map(Line::Round)) {
        world.out.json(&Versioned::new(value))?;
    }
    Ok(())
}
