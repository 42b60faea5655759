//! `quipu turns`: the turns of a session, as a table or as JSON.

use std::io::Write;

use serde::Serialize;
use transcript::conversation::{Conversation, Turns};
use transcript::family::Family;
use transcript::file::Lines;
use transcript::turn::seed::{self, Seeds};
use transcript::turn::{Outcome, Tokens, Turn};

use super::as_json::{self, Place};
use super::{JSON_VERSION, damage, headline};
use crate::failure::Failure;
use crate::table::{Column, Table};
use crate::text::{local, short_number, span};
use crate::version::As;
use crate::world::World;

/// List the turns of a session: what was asked, and what came of it
///
/// A turn begins with what a person, another session or a finished task says, and holds everything up to the next. Answers are joined
/// by their ids, calls are paired with their results, and those that failed are marked `✗`. `>` before the tokens: the output is only a lower bound. With `--json` one object a line:
/// the session, its turns (the live ones, then those of dead branches), its sub-agents and their turns; exact, secrets included.
#[derive(clap::Args, Debug)]
pub(crate) struct TurnsArgs {
    /// The session
    session: String,
    /// Whose rules decide what a turn is
    #[arg(long, value_enum, default_value = "real")]
    mode: Mode,
    #[command(flatten)]
    r#as: As,
    /// One JSON object a line, with all that was said and done
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Those that fit genuine files
    Real,
    /// Those of the documents that the project began with, for comparison
    Seed,
}

pub(crate) fn turns(world: &mut World, args: &TurnsArgs) -> Result<(), Failure> {
    let rules = args.r#as.rules()?;
    let session = world.session(&args.session)?;
    let unreadable = |error| Failure::unreadable(&session.path, error);
    let mut family = Family::open(&session).map_err(unreadable)?;
    family.main.resume_as(rules);
    world.agents_unreadable(&family)?;
    let found = family.main.turns();
    if args.mode == Mode::Seed {
        let file = files::open(&session.path).map_err(unreadable)?;
        let seeds = seed::read(Lines::new(file)).map_err(unreadable)?;
        return if args.json {
            seeds_as_json(world, &seeds)
        } else {
            compare(world, &seeds, &family.main, &found)
        };
    }
    if args.json {
        world.out.json(&as_json::session(&session.id, &family, &found))?;
        return everything(world, &family, found);
    }
    table(world, &family.main, &found)
}

/// All turns there are, one a line, with their sub-agents.
fn everything(world: &mut World, family: &Family, found: Turns) -> Result<(), Failure> {
    let runs = as_json::runs(family, found);
    for run in &runs {
        if let Some(agent) = run.place.agent.filter(|_| run.place.chain.is_none()) {
            world.out.json(
                &as_json::agent(family, agent, &run.turns)
                    .map_err(|error| Failure::unreadable(&family.main.path, error))?,
            )?;
        }
        for (number, turn) in (1..).zip(&run.turns) {
            as_json::turn(family, turn, Place { number, ..run.place }, &mut world.out)?;
            world.out.write_all(b"\n")?;
        }
    }
    Ok(())
}

fn table(world: &mut World, conversation: &Conversation, found: &Turns) -> Result<(), Failure> {
    let mut table = Table::new(&[
        Column::right("turn"),
        Column::left("began"),
        Column::right("took"),
        Column::right("calls"),
        Column::right("in"),
        Column::right("out"),
        Column::left("end"),
        Column::left("asked"),
    ])
    .flexible(7);
    let mut row = |name: String, turn: &Turn| -> Result<(), Failure> {
        let tokens = turn.tokens(&conversation.table);
        let calls: Vec<_> = turn.calls(&conversation.table).collect();
        let failed = calls.iter().filter(|call| {
            conversation
                .pairs
                .of(**call)
                .is_some_and(|result| conversation.table.part(result).is_error)
        });
        table.row(&[
            name,
            turn.times.map(|[start, _]| local(start, "%m-%d %H:%M")).unwrap_or_default(),
            turn.times.map(|[start, end]| span(end.0.saturating_sub(start.0))).unwrap_or_default(),
            match failed.count() {
                0 => calls.len().to_string(),
                failed => format!("{} ({failed}✗)", calls.len()),
            },
            short_number(tokens.input + tokens.cache_read + tokens.cache_write),
            output(tokens),
            turn.outcome.name().to_owned(),
            headline::of(conversation, turn)?,
        ]);
        Ok(())
    };
    for (number, turn) in (1..).zip(&found.live) {
        row(number.to_string(), turn)?;
    }
    for (chain, turns) in &found.dead {
        for (number, turn) in (1..).zip(turns) {
            row(format!("dead {}.{number}", chain.0), turn)?;
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

/// Output tokens; marked if there were more.
pub(super) fn output(tokens: Tokens) -> String {
    let more = if tokens.at_least && tokens.total() > 0 { ">" } else { "" };
    format!("{more}{}", short_number(tokens.output))
}

/// What the seeds count beside what we count.
fn compare(
    world: &mut World,
    seeds: &Seeds,
    conversation: &Conversation,
    found: &Turns,
) -> Result<(), Failure> {
    let mut table = Table::new(&[
        Column::left("what"),
        Column::right("001"),
        Column::right("002"),
        Column::right("004"),
        Column::right("quipu"),
    ]);
    let Seeds { one, two, four } = seeds;
    let rounds = four.iter().filter(|round| round.round != "continue").count();
    let all = || found.live.iter().chain(found.dead.iter().flat_map(|(_, turns)| turns));
    let complete = all().filter(|turn| turn.outcome.is_complete()).count();
    let answers = conversation.table.answers().len();
    let calls =
        conversation.table.parts().iter().filter(|part| part.kind.is_call() && !part.is_repeat);
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
enum SeedLine<'a> {
    #[serde(rename = "seed-001-turn")]
    OneTurn {
        start: &'a Option<String>,
        responses: &'a [Option<String>],
        calls: &'a [(String, Option<String>)],
    },
    #[serde(rename = "seed-001-message")]
    OneMessage {
        id: &'a Option<String>,
        kept: &'a Option<String>,
        records_left_out: u64,
        blocks_lost: u64,
        output: i64,
    },
    #[serde(rename = "seed-001")]
    One { calls: u64, paired: usize, blocks_lost: u64 },
    #[serde(rename = "seed-002-turn")]
    TwoTurn { line: u64, answers: &'a [Option<String>], results: u64 },
    #[serde(rename = "seed-002")]
    Two { turns: usize, consumed: u64, last_line: u64 },
    #[serde(rename = "seed-004-round")]
    Round { line: u64, round: &'static str, input: &'static str },
}

#[derive(Serialize)]
struct Versioned<T> {
    v: u32,
    #[serde(flatten)]
    value: T,
}

fn seeds_as_json(world: &mut World, seeds: &Seeds) -> Result<(), Failure> {
    let Seeds { one, two, four } = seeds;
    let turns = one.turns.iter().map(|turn| SeedLine::OneTurn {
        start: &turn.start,
        responses: &turn.responses,
        calls: &turn.calls,
    });
    let messages = one.messages.iter().map(|message| SeedLine::OneMessage {
        id: &message.id,
        kept: &message.kept,
        records_left_out: message.left_out[0],
        blocks_lost: message.left_out[1],
        output: message.output,
    });
    let sum = SeedLine::One { calls: one.calls, paired: one.pairs.len(), blocks_lost: one.lost() };
    let second = two.turns.iter().map(|turn| SeedLine::TwoTurn {
        line: turn.line,
        answers: &turn.answers,
        results: turn.results,
    });
    let (count, consumed, last_line) = (two.turns.len(), two.consumed, two.last_line);
    let second = second.chain([SeedLine::Two { turns: count, consumed, last_line }]);
    let rounds = four.iter().map(|round| SeedLine::Round {
        line: round.line,
        round: round.round,
        input: round.input,
    });
    for value in turns.chain(messages).chain([sum]).chain(second).chain(rounds) {
        world.out.json(&Versioned { v: JSON_VERSION, value })?;
    }
    Ok(())
}
