//! `quipu resume`: goes on with a session in Claude Code.

use transcript::client::check::{Severity, Verdict, check_with};
use transcript::client::history::Rules;
use transcript::conversation::place::agents;
use transcript::conversation::preview::preview;

use crate::failure::Failure;
use crate::resume_command::{Client, Ready, Resumption};
use crate::select;
use crate::text::quoted;
use crate::version;
use crate::world::World;

/// Resume a session in Claude Code, or in the console, in the session's folder
///
/// Runs `claude --resume` in the folder that the session belongs to, in place of this program; with
/// `CLAUDE_CONFIG_DIR` if the session is in another home than the usual one. `claude` is looked for
/// in the absolute folders of `PATH` only. First checks the session by the rules of the installed
/// version: loss is reported, and a session that the client does not resume is not opened (exit
/// code 12). `--with quipu` runs `quipu chat --resume` in the same way.
#[derive(clap::Args, Debug)]
pub(crate) struct ResumeArgs {
    /// The session
    session: String,
    /// The program that resumes it
    #[arg(long, value_enum, value_name = "CLIENT", default_value_t = Client::Claude)]
    with: Client,
}

pub(crate) fn resume(world: &mut World, args: &ResumeArgs) -> Result<(), Failure> {
    let session = select::session_to_change(world, &args.session)?;
    let seen = preview(&session.path)?;
    let resumption = Resumption::new(world, &session.path, &session.id, seen.cwd.as_deref());
    let resumption = resumption.with(args.with);
    // Before the session is checked: these are quick to see, and the same for every session.
    let ready = resumption.ready(world)?;
    if args.with == Client::Quipu {
        // It judges the session by its own rules.
        return start(world, &resumption, ready);
    }
    let installed = version::installed(world.programs()).as_deref().and_then(Rules::of);
    let rules = installed.unwrap_or_else(Rules::newest);
    let report = check_with(&session, agents(&session), rules, None, &world.redactor())?;
    let name = quoted(&session.id);
    match report.verdict {
        Verdict::Full => {}
        Verdict::Refused => {
            let worst = report.findings.iter().find(|one| one.severity == Severity::Refused);
            let why = worst.map_or("see `quipu check`", |one| one.text.as_str());
            let hint = format!("`quipu check {name}` says more, and whether it can be repaired");
            return Err(Failure::refused(why, &rules.name()).with_hint(&hint));
        }
        Verdict::Loss | Verdict::Rejected => world.out.note(&format!(
            "{}: `quipu check {name}` says more, `quipu repair {name}` repairs it",
            report.verdict.words()
        ))?,
    }
    start(world, &resumption, ready)
}

/// Says what is run, and runs it in place of this program.
fn start(world: &mut World, resumption: &Resumption, ready: Ready) -> Result<(), Failure> {
    world.out.note(&resumption.text())?;
    world.out.finish()?;
    Err(ready.run())
}
