//! `quipu edit`: a plan for the turns of a session, in the user's editor.
//!
//! Invariants: nothing is written before the whole plan is understood; what the user typed is never
//! lost: a plan that is refused stays where it is, and the message says where.

mod plan;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use files::Durability;
use transcript::client::change::{self, Rework, Subject, TurnAction};
use transcript::client::history::Rules;
use transcript::conversation::place::Session;
use workshop::{Place, Plan, Read, Verb};

use crate::failure::Failure;
use crate::headline::headline;
use crate::select;
use crate::surgery::{self, Target, Waited, turns};
use crate::text::{fit, grouped, local};
use crate::world::World;
use plan::{PlanVerb, parse};

/// Edit the turns of a session in your editor: keep, drop, strip, squash or reword each
///
/// Opens a plan with one line for each turn in `$VISUAL` or `$EDITOR`; the plan itself says what
/// can be done. Nothing changes if you leave it as it is, or empty it. A plan that cannot be
/// carried out is kept, and the message says where. Writes a new session beside the original,
/// unless `-o` or `--in-place` says otherwise.
#[derive(clap::Args, Debug)]
#[command(mut_arg("force", |arg| arg.help(surgery::FORCE_IN_PLACE)))]
pub(crate) struct EditArgs {
    /// The session
    session: String,
    /// Carry out the plan in this file, without an editor
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Change the session's own file; a backup is kept first, and `quipu undo` restores it
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    #[command(flatten)]
    target: Target,
}

/// Longer plans are refused: no session has that many turns.
const LONGEST: u64 = 16 << 20;

pub(crate) fn edit(world: &mut World, args: &EditArgs) -> Result<(), Failure> {
    let session = select::session_to_change(world, &args.session)?;
    let rules = Rules::newest();
    let mut read = Read::open(&session, rules)?;
    let mut count = turns::count(&read)?;
    // Nobody should edit a plan that is refused then.
    let is_edited = args.plan.is_none();
    if is_edited && surgery::when_cold(world, &session, &args.target)? == Waited::Yes {
        read = Read::open(&session, rules)?;
        count = turns::count(&read)?;
    }
    let made = written_plan(&read.subject)?;
    let draft = if args.plan.is_some() {
        None
    } else {
        editor(world)?;
        Some(Draft::new(world, "plan", &made)?)
    };
    let text = match (&args.plan, &draft) {
        (Some(path), _) => {
            let hint = "without `--plan`, your editor opens a plan";
            files::read_text(path, LONGEST)
                .map_err(|error| Failure::named_file(path, error, hint))?
        }
        (None, Some(draft)) => draft.edited(world)?,
        (None, None) => made.clone(),
    };
    if text == made {
        return nothing(world, args, (&session, read), draft, "the plan is unchanged");
    }
    let kept = |failure: Failure| match &draft {
        Some(draft) => failure.with_hint(&format!(
            "your plan is in `{0}`: correct it, and run `quipu edit {1} --plan {0}`",
            draft.0.display(),
            session.id.short()
        )),
        None => failure,
    };
    let verbs = parse(&text, count).map_err(|error| {
        let name = args.plan.as_deref().unwrap_or(Path::new("the plan")).display();
        kept(Failure::usage(format!("{name}, line {}: {}", error.line, error.text), None))
    })?;
    let Some(verbs) = verbs else {
        return nothing(world, args, (&session, read), draft, "the plan is empty");
    };
    if verbs.iter().all(|verb| *verb == PlanVerb::Keep) {
        return nothing(world, args, (&session, read), draft, "every turn is kept");
    }
    let mut actions = Vec::new();
    for (number, verb) in (1..).zip(verbs) {
        actions.push(match verb {
            PlanVerb::Keep => TurnAction::Keep,
            PlanVerb::Drop => TurnAction::Drop,
            PlanVerb::Strip => TurnAction::Strip,
            PlanVerb::Squash => TurnAction::Squash,
            PlanVerb::Reword(Some(text)) => TurnAction::Reword(text),
            PlanVerb::Reword(None) if args.plan.is_some() => {
                let message = format!("`reword {number}` has no text");
                let hint = format!("write it behind a colon: `reword {number}: …`");
                return Err(Failure::usage(message, Some(&hint)));
            }
            PlanVerb::Reword(None) => {
                let old = change::prompt_text(&read.subject, number);
                let old = old.map_err(|error| kept(turns::refused(error)))?;
                let prompt = Draft::new(world, &format!("prompt-{number}"), &old)?;
                let new = prompt.edited(world).map_err(&kept)?;
                prompt.remove();
                // Editors end the last line.
                let new = if old.ends_with('\n') { &new } else { new.trim_end_matches('\n') };
                if new == old { TurnAction::Keep } else { TurnAction::Reword(new.to_owned()) }
            }
        });
    }
    let plan = Rework { turns: actions, branches: Vec::new() };
    let place = if args.in_place { Place::InPlace } else { Place::Beside };
    let rework = |read: &Read| {
        change::rework(&read.subject, &plan).map_err(|error| kept(turns::refused(error)))
    };
    let mut change = rework(&read)?;
    if !is_edited && surgery::when_cold(world, &session, &args.target)? == Waited::Yes {
        read = Read::open(&session, rules)?;
        change = rework(&read)?;
    }
    let policy = args.target.policy(Verb::Edit, place);
    let job = surgery::job(world, &session, read, Plan::Change(change), policy);
    surgery::carry_out(world, job, &args.target, rules).map_err(kept)?;
    if let Some(draft) = draft {
        draft.remove();
    }
    Ok(())
}

/// Reports that the plan changes nothing; with `--json`, prints the proof.
fn nothing(
    world: &mut World,
    args: &EditArgs,
    (session, read): (&Session, Read),
    draft: Option<Draft>,
    why: &str,
) -> Result<(), Failure> {
    if let Some(draft) = draft {
        draft.remove();
    }
    let text = format!("nothing to do: {why}");
    if !args.target.json {
        return Ok(world.out.note(&text)?);
    }
    let plan = Plan::Change(change::clone(&read.subject));
    let policy = args.target.policy(Verb::Edit, Place::Beside);
    let job = surgery::job(world, session, read, plan, policy);
    let proof = job.proof(Rules::newest())?;
    surgery::nothing(world, &job, &args.target, proof, &text)
}

/// The user's editor.
fn editor(world: &World) -> Result<String, Failure> {
    world.editor().ok_or_else(|| {
        let hint = "set EDITOR, or give a plan with `--plan FILE`";
        Failure::usage("there is no terminal, and no editor is set", Some(hint))
    })
}

/// A file that only the user can read, for the editor.
struct Draft(PathBuf);

impl Draft {
    fn new(world: &World, name: &str, text: &str) -> Result<Draft, Failure> {
        let path = world.draft(name)?;
        files::put(&path, text.as_bytes(), Durability::Process)
            .map_err(|error| Failure::unwritable(&path, error))?;
        Ok(Draft(path))
    }

    /// Opens the file in the user's editor, and returns what it contains then.
    fn edited(&self, world: &World) -> Result<String, Failure> {
        let editor = editor(world)?;
        // As git does it: the variable is a command line for the shell.
        let status = Command::new("sh")
            .args(["-c", &format!("{editor} \"$@\""), "editor"])
            .arg(&self.0)
            .status()
            .map_err(|error| Failure::not_started(Path::new("sh"), error))?;
        if !status.success() {
            let hint = format!("nothing was changed; the text is in `{}`", self.0.display());
            return Err(Failure::usage(format!("the editor `{editor}` failed"), Some(&hint)));
        }
        files::read_text(&self.0, LONGEST).map_err(|error| Failure::unreadable(&self.0, error))
    }

    fn remove(self) {
        // A leftover draft is only a nuisance.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The plan that changes nothing.
fn written_plan(subject: &Subject) -> Result<String, Failure> {
    let conversation = subject.conversation();
    let found = conversation.turns_in(&conversation.live());
    let mut tokens = vec![0; found.len()];
    if let Ok(context) = subject.context()? {
        for part in &context.parts {
            if let Some(sum) = part.turn.and_then(|turn| tokens.get_mut(turn.checked_sub(1)?)) {
                *sum += part.tokens;
            }
        }
    }
    let mut text = String::new();
    let digits = found.len().to_string().len();
    for ((number, turn), tokens) in (1..).zip(&found).zip(tokens) {
        let began = turn.times.map(|[began, _]| local(began, "%H:%M")).unwrap_or_default();
        let tokens = match tokens {
            0 => "not sent".to_owned(),
            tokens => format!("{} tok", grouped(tokens)),
        };
        let words = fit(&headline(conversation, turn)?, 80);
        let _ = writeln!(text, "keep {number:>digits$} {began} {tokens:>11}  {words}");
    }
    text.push_str(HELP);
    Ok(text)
}

/// What a plan can say.
const HELP: &str = "\
\n# One line for each turn, oldest first. Change the word at the start of a line:
#
# k, keep    leave the turn as it is
# d, drop    remove it: the prompt, the answers, calls and results
# s, strip   remove its calls, results and thinking; prompt and texts stay
# q, squash  join it with the turn above: both prompts become one, and only the answers of this
#            turn stay
# r, reword  change its prompt: the editor opens it; or write it here, after a colon (\\n is a new
#            line): reword 3: another text
#
# A line that is removed drops its turn. Turns cannot be reordered, because each answer follows from
# what came before it. What stands after the number is not read. An empty plan changes nothing.
";
