//! `quipu export`: a whole session as one document.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use files::NewAccess;
use transcript::conversation::agents::{Owner, WithAgents};
use transcript::conversation::markdown::Writer;
use transcript::conversation::place::Session;
use transcript::conversation::preview::preview;
use transcript::conversation::view::{self, AgentView, SessionView, TurnPlace};
use transcript::format::secret::{Cover, JsonMask, Mask, Redactor};
use viewer::file::FileError;
use viewer::{FileWish, Source, write_end, write_file};
use workshop::pack::{PackPage, Packing, pack};
use workshop::{DocumentFile, Force};

use crate::as_json::{self, Versioned};
use crate::document::write_document;
use crate::failure::Failure;
use crate::out::{HarmlessJson, JSON_VERSION, Visible, write_json};
use crate::outside::outside_of_homes;
use crate::prices;
use crate::redact::{HidingArgs, hidden, secrets_of};
use crate::select;
use crate::text::count;
use crate::turn_list::TurnList;
use crate::view_args::ViewArgs;
use crate::world::World;

/// Write a session to stdout as one document
#[derive(clap::Args, Debug)]
pub(crate) struct ExportArgs {
    #[command(subcommand)]
    form: ExportFormat,
}

#[derive(Debug, Subcommand)]
enum ExportFormat {
    Md(MdArgs),
    Json(JsonArgs),
    Html(HtmlArgs),
}

/// The live conversation as Markdown
///
/// Prompts are quotes, answers are unchanged, calls are list items, changes are diffs. Secrets are
/// redacted.
#[derive(clap::Args, Debug)]
struct MdArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    #[command(flatten)]
    view: ViewArgs,
    /// Write to this file; `-` is the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file given by `-o`; write into it if it is a pipe or a device
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    hiding: HidingArgs,
}

/// Everything as one JSON document: `session`, `turns`, `agents`
///
/// The objects are those of `quipu turns --json`, except that secrets are redacted.
#[derive(clap::Args, Debug)]
struct JsonArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    #[command(flatten)]
    hiding: HidingArgs,
}

/// One HTML file that opens in a browser, without a server
///
/// The page that `quipu view` shows, with everything inside: it requests nothing, and can be read
/// without scripts. Secrets are redacted.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "switches of a command line")]
struct HtmlArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    /// Write to this file; `-` is the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file given by `-o`; write into it if it is a pipe or a device
    #[arg(long)]
    force: bool,
    /// Only these turns of the live branch: `3`, `3-7`, `5-`, and lists of these
    #[arg(long, value_name = "TURNS")]
    turns: Option<TurnList>,
    /// Leave out the model's thinking
    #[arg(long)]
    no_thinking: bool,
    /// Leave out calls and their results
    #[arg(long)]
    no_tools: bool,
    /// Put the session itself into the file too, so that `quipu unpack` can restore it
    #[arg(long, conflicts_with_all = ["turns", "no_thinking", "no_tools"])]
    with_session: bool,
    #[command(flatten)]
    hiding: HidingArgs,
}

const MADE_BY: &str = concat!("quipu ", env!("CARGO_PKG_VERSION"));

pub(crate) fn export(world: &mut World, args: &ExportArgs) -> Result<(), Failure> {
    match &args.form {
        ExportFormat::Md(args) => markdown(world, args),
        ExportFormat::Json(args) => json(world, args),
        ExportFormat::Html(args) => html(world, args),
    }
}

fn markdown(world: &mut World, args: &MdArgs) -> Result<(), Failure> {
    let session = select::session(world, &args.session)?;
    let family = WithAgents::open(&session)?;
    world.agents_unreadable(&family)?;
    let cover = args.hiding.cover(world.redact_config(), &session)?;
    let mask = cover.as_ref().map_or_else(Mask::none, Mask::of);
    args.view.check(family.main.turns().live.len())?;
    let note = match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let force = if args.force { Force::Always } else { Force::Never };
            let place = DocumentFile::at(path, &session.path, force)?;
            write_document(&place, force, NewAccess::Usual, |file| {
                write_markdown(args, &session, &family, mask, Visible(file))
            })?
        }
        None => write_markdown(args, &session, &family, mask, Visible(&mut world.out))?,
    };
    Ok(note.map_or(Ok(()), |note| world.out.note(&note))?)
}

/// Writes the document. Returns what to say about secrets.
fn write_markdown(
    args: &MdArgs,
    session: &Session,
    family: &WithAgents,
    mask: Mask<'_>,
    out: impl Write,
) -> Result<Option<String>, Failure> {
    let seen = preview(&session.path)?;
    let turns = family.main.turns().live;
    let mut writer = Writer::new(family, args.view.show(), mask, out);
    let failed = |error| Failure::mixed(&session.path, error);
    writer.head(&session.id, &seen).map_err(failed)?;
    for (number, turn) in
        (1..).zip(&turns).filter(|(number, _)| args.view.has(*number, turns.len()))
    {
        writer.turn(Owner::Main, turn, number).map_err(failed)?;
    }
    Ok(hidden(writer.hidden()))
}

fn html(world: &mut World, args: &HtmlArgs) -> Result<(), Failure> {
    let session = select::session(world, &args.session)?;
    let hiding = args.hiding.redactor(world.redact_config())?;
    let (source, cover) = match &hiding {
        Some(redactor) => {
            let (source, cover) = searched(&session, redactor)?;
            (source, Some(cover))
        }
        None => (Source::open(&session, &world.redactor())?, None),
    };
    let redactor = hiding.unwrap_or_else(|| world.redactor());
    let prices = prices::in_force(world, None)?;
    let turns = match &args.turns {
        Some(list) => Some(list.among(source.count_turns())?),
        None => None,
    };
    let wish = FileWish {
        turns,
        has_thinking: !args.no_thinking,
        has_tools: !args.no_tools,
        has_session: args.with_session,
        cover: cover.as_ref(),
        redactor: &redactor,
        prices: &prices,
    };
    let write = |out: &mut dyn Write| write_html(&session, &source, &wish, out);
    let redacted = match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => {
            outside_of_homes(world, path, "write the file to any other folder")?;
            let force = if args.force { Force::Always } else { Force::Never };
            let place = DocumentFile::at(path, &session.path, force)?;
            write_document(&place, force, NewAccess::Usual, write)?
        }
        None => write(&mut world.out)?,
    };
    let note = redacted.note();
    // The program ends here, and the system takes its memory back at once.
    std::mem::forget((source, cover));
    Ok(note.map_or(Ok(()), |note| world.out.note(&note))?)
}

/// A session that was read and checked, and its secrets, which are looked for only once.
fn searched(session: &Session, redactor: &Arc<Redactor>) -> Result<(Source, Cover), Failure> {
    // Neither needs the other, and parts of both are work for one thread.
    let (source, found) = std::thread::scope(|scope| {
        let source = scope.spawn(|| Source::open_unsearched(session));
        let found = secrets_of(redactor, session);
        let panicked = |_| Err(std::io::Error::other("a worker thread panicked").into());
        (source.join().unwrap_or_else(panicked), found)
    });
    let (mut source, found) = (source?, found?);
    source.add_secrets(&found);
    Ok((source, Cover::new(Arc::clone(redactor), found.values)))
}

/// How many secrets were redacted, by kind.
#[derive(Debug)]
struct Redacted {
    page: BTreeMap<String, u64>,
    /// In the session that the page carries.
    session: Option<BTreeMap<String, u64>>,
}

impl Redacted {
    /// In words. What is on the page may be in the session more or less often.
    fn note(&self) -> Option<String> {
        let Some(session) = &self.session else { return hidden(&self.page) };
        let [page, session] = [&self.page, session].map(|by_kind| by_kind.values().sum::<u64>());
        let secrets = count(page, "secret");
        let text = format!(
            "{secrets} redacted on the page, {session} in the session that it carries; \
             `--no-redact` shows them"
        );
        (page + session > 0).then_some(text)
    }
}

/// Writes the page, and behind it the session if that is wanted.
fn write_html(
    session: &Session,
    source: &Source,
    wish: &FileWish<'_>,
    out: &mut dyn Write,
) -> Result<Redacted, Failure> {
    let failed = |error| match error {
        FileError::Read(error) => Failure::from(error),
        FileError::Write(error) => Failure::from(error),
    };
    if !wish.has_session {
        let page = write_file(source, wish, out).map_err(failed)?;
        write_end(out)?;
        return Ok(Redacted { page, session: None });
    }
    let mut counted = CountedWriter { out, bytes: 0 };
    let redacted = write_file(source, wish, &mut counted).map_err(failed)?;
    let page = PackPage::Written(counted.bytes);
    let redactor = wish.cover.is_some().then_some(wish.redactor);
    let sessions = std::slice::from_ref(session);
    let packed = pack(&Packing { sessions, redactor, made_by: MADE_BY, page }, out)?;
    Ok(Redacted { page: redacted, session: Some(packed.manifest.secrets) })
}

/// Counts what goes through.
struct CountedWriter<'a> {
    out: &'a mut dyn Write,
    bytes: u64,
}

impl Write for CountedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

fn json(world: &mut World, args: &JsonArgs) -> Result<(), Failure> {
    let session = select::session(world, &args.session)?;
    let family = WithAgents::open(&session)?;
    world.agents_unreadable(&family)?;
    let cover = args.hiding.cover(world.redact_config(), &session)?;
    let mut mask = cover.as_ref().map_or_else(Mask::none, Mask::of);
    let mut out = JsonMask::new(&mut mask, HarmlessJson(&mut world.out));
    document(&session, &family, &mut out)?;
    out.finish()?;
    let note = hidden(mask.hidden());
    Ok(note.map_or(Ok(()), |note| world.out.note(&note))?)
}

fn document(session: &Session, family: &WithAgents, out: &mut impl Write) -> Result<(), Failure> {
    let found = family.main.turns();
    write!(out, "{{\"v\":{JSON_VERSION},\"session\":")?;
    write_json(&mut *out, &Versioned::new(SessionView::new(&session.id, family, &found)))?;
    out.write_all(b"\n")?;
    let runs = view::runs(family, found);
    out.write_all(b",\"turns\":[")?;
    let mut between: &[u8] = b"";
    for run in &runs {
        for (number, turn) in (1..).zip(&run.turns) {
            out.write_all(std::mem::replace(&mut between, b",\n"))?;
            as_json::turn(family, turn, TurnPlace { number, ..run.place }, out)?;
        }
    }
    out.write_all(b"],\"agents\":[")?;
    between = b"";
    for run in runs.iter().filter(|run| run.place.chain.is_none()) {
        if let Some(agent) = run.place.agent {
            out.write_all(std::mem::replace(&mut between, b","))?;
            let head = AgentView::new(family, agent, &run.turns)?;
            write_json(&mut *out, &Versioned::new(head))?;
            out.write_all(b"\n")?;
        }
    }
    Ok(out.write_all(b"]}\n")?)
}
