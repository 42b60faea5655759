//! How every change of a session is carried out: shown, written beside, proved, and only then put in its place.
//!
//! The result is written to a file under another name (in the folder where it is to be; for `--dry-run` and the standard output to one that nobody sees), read again and compared with the
//! session. A result that resumes less well than the session is not put anywhere. Invariants: without `--in-place` the session's own file is not opened for writing; with `-o` nothing else is written.

mod carry;
pub(crate) mod live;
mod proof;

use std::fs::{self, File};
use std::io::{self, BufReader, Seek, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use transcript::change::{self, Change, Mended, Proof, Renames, Subject};
use transcript::check::Verdict;
use transcript::glance::glance;
use transcript::history::Rules;
use transcript::place::Session;

use crate::failure::Failure;
use crate::store::{self, Deed, Mark, Ready, Real};
use crate::world::World;

/// Where the result goes.
#[derive(clap::Args, Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags")]
pub(crate) struct Target {
    /// Write the result to that file and do nothing else; `-` is the standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Overwrite the file that `-o` names; with `--in-place`, even if the session seems to be in use
    #[arg(long)]
    pub(crate) force: bool,
    /// The proof as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Nothing is said: whoever asked for it says it.
    #[arg(skip)]
    pub(crate) is_silent: bool,
}

/// A change that is ready to be carried out.
pub(crate) struct Job<'a> {
    /// The command.
    pub(crate) verb: &'a str,
    pub(crate) session: &'a Session,
    pub(crate) read: Read,
    pub(crate) plan: Plan,
    pub(crate) in_place: bool,
    /// The ids stay; else a result that is not in place gets new ones.
    pub(crate) keep_ids: bool,
    /// Sub-agents are left behind.
    pub(crate) without_agents: bool,
}

/// What is to be done.
pub(crate) enum Plan {
    /// To the session itself.
    Change(Change),
    /// Perhaps in several goes.
    Mended(Box<Mended>),
}

impl Plan {
    pub(crate) fn change(&self) -> &Change {
        match self {
            Plan::Change(change) => change,
            Plan::Mended(mended) => &mended.change,
        }
    }

    fn change_mut(&mut self) -> &mut Change {
        match self {
            Plan::Change(change) => change,
            Plan::Mended(mended) => &mut mended.change,
        }
    }

    /// What the result is written from: the session, unless that took several goes.
    fn source(&self) -> Option<&Subject> {
        match self {
            Plan::Change(_) => None,
            Plan::Mended(mended) => mended.source.as_ref(),
        }
    }
}

/// A session as it was read, and what its file was then.
pub(crate) struct Read {
    pub(crate) subject: Subject,
    was: Mark,
}

/// Reads a session that is to be changed.
pub(crate) fn read(session: &Session, rules: Rules) -> Result<Read, Failure> {
    let unreadable = |error| Failure::unreadable(&session.path, error);
    let file = files::open(&session.path).map_err(unreadable)?;
    let was = Mark::of_metadata(&file.metadata().map_err(unreadable)?);
    let subject = Subject::of_file(file, &session.path, rules).map_err(unreadable)?;
    Ok(Read { subject, was })
}

/// What came of a job, once it is written and compared.
pub(crate) struct Made {
    pub(crate) proof: Proof,
    file: Temp,
}

/// A result that has no place yet.
enum Temp {
    /// It goes where it is to be by a rename.
    Named(tempfile::NamedTempFile),
    /// Nobody sees it.
    Hidden(File),
}

impl Temp {
    fn file(&mut self) -> &mut File {
        match self {
            Temp::Named(file) => file.as_file_mut(),
            Temp::Hidden(file) => file,
        }
    }
}

impl Job<'_> {
    /// Where the result is to be; nothing if that is nowhere.
    fn place(&self, target: &Target, id: &str) -> Option<PathBuf> {
        match &target.output {
            _ if target.dry_run => None,
            Some(path) if path == Path::new("-") => None,
            Some(path) => Some(path.clone()),
            // Of a link what it leads to.
            None if self.in_place => Some(
                fs::canonicalize(&self.session.path).unwrap_or_else(|_| self.session.path.clone()),
            ),
            None => Some(self.session.path.with_file_name(format!("{id}.jsonl"))),
        }
    }

    /// The ids that the result gets; nothing if it keeps them.
    fn ids(&self, target: &Target, id: &str) -> io::Result<Option<carry::Family>> {
        let is_same = self.in_place
            || self.keep_ids
            || (target.output.is_some() && self.verb != "clone" && self.verb != "fork");
        if is_same {
            return Ok(None);
        }
        let mut ids = Renames::new(&self.session.id, id);
        ids.learn(&self.plan.source().unwrap_or(&self.read.subject).own().table);
        let is_alone = target.output.is_some();
        carry::Family::new(self, ids, is_alone).map(Some)
    }

    /// What would come of it.
    pub(crate) fn proof(&self, rules: Rules) -> Result<Proof, Failure> {
        self.make(None, None, rules).map(|made| made.proof)
    }

    /// Writes the result to a file without a place, and compares.
    fn make(
        &self,
        place: Option<&Path>,
        ids: Option<&Renames>,
        rules: Rules,
    ) -> Result<Made, Failure> {
        let folder = place.map(|place| match place.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        });
        let unwritable =
            |error| Failure::unwritable(place.unwrap_or(Path::new("a temporary file")), error);
        let mut file = match &folder {
            Some(folder) => {
                fs::metadata(folder).map_err(unwritable)?;
                let named =
                    tempfile::Builder::new().prefix(".quipu-").suffix(".tmp").tempfile_in(folder);
                // Without the name of a file that nobody knows.
                Temp::Named(named.map_err(|error| unwritable(error.kind().into()))?)
            }
            None => Temp::Hidden(tempfile::tempfile().map_err(unwritable)?),
        };
        let source = self.plan.source().unwrap_or(&self.read.subject);
        let written = change::write(source, self.plan.change(), ids, file.file());
        let written = written.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                Failure::unreadable(&self.session.path, error)
            }
            _ => unwritable(error),
        })?;
        let again = file.file().try_clone().map_err(unwritable)?;
        // The disk is at work while the result is read: `finish` waits for what is left.
        let after = thread::scope(|scope| {
            if let Temp::Named(named) = &file {
                scope.spawn(|| named.as_file().sync_data());
            }
            Subject::of_file(again, &self.session.path, rules)
        });
        let after = after.map_err(unwritable)?;
        let written = match &self.plan {
            Plan::Change(_) => written,
            Plan::Mended(mended) => mended.total(written),
        };
        let proof = change::prove(&self.read.subject, self.plan.change(), written, &after);
        let proof = proof.map_err(unwritable)?;
        Ok(Made { proof, file })
    }
}

/// Carries a job out, or says what would be done.
pub(crate) fn carry_out(
    world: &mut World,
    mut job: Job<'_>,
    target: &Target,
    rules: Rules,
) -> Result<Verdict, Failure> {
    let id = world.new_id();
    let place = job.place(target, &id);
    let same =
        |path: &PathBuf| fs::canonicalize(path).ok() == fs::canonicalize(&job.session.path).ok();
    if target.output.as_ref().is_some_and(|path| path.exists() && same(path)) {
        let hint = "give another name, or `--in-place` (of `strip` and `repair`)";
        return Err(Failure::usage("that is the session's own file", Some(hint)));
    }
    if let Some(path) = target.output.as_ref().filter(|_| place.is_some())
        && path.exists()
        && !target.force
    {
        let hint = "give another name, or `--force` to overwrite it";
        return Err(Failure::usage(format!("`{}` is there already", path.display()), Some(hint)));
    }
    if job.in_place && !target.force && !target.dry_run {
        live::refuse_if_live(world, job.session)?;
    }
    let unreadable = |error| Failure::unreadable(&job.session.path, error);
    let family = job.ids(target, &id).map_err(unreadable)?;
    if let Some(family) = family.as_ref().filter(|_| target.output.is_none()) {
        let title = title(&job)?;
        job.plan.change_mut().title(&title, family.ids.session());
    }
    let ids = family.as_ref().map(|family| &family.ids);
    let made = job.make(place.as_deref(), ids, rules)?;
    if made.proof.is_worse() {
        return Err(Failure::worse(
            made.proof.before.verdict.words(),
            made.proof.after.verdict.words(),
        ));
    }
    let verdict = made.proof.after.verdict;
    let is_same = made.proof.written.dropped == 0 && made.proof.written.altered == 0;
    if job.verb == "strip" && is_same && target.output.is_none() {
        nothing(world, &job, target, &made.proof, "there is nothing to strip")?;
        return Ok(verdict);
    }
    finish(world, &job, target, made, place.as_deref(), family.as_ref())?;
    // The program ends here: giving a long session's memory back bit by bit would take longer than that.
    mem::forget(job);
    Ok(verdict)
}

/// Says that there is nothing to do: to a program, what there is.
pub(crate) fn nothing(
    world: &mut World,
    job: &Job<'_>,
    target: &Target,
    proof: &Proof,
    text: &str,
) -> Result<(), Failure> {
    if target.json {
        return proof::Told::new(world, job, target, proof, None, None).say(world);
    }
    Ok(world.out.note(text)?)
}

/// A title that says where the session came from.
fn title(job: &Job<'_>) -> Result<String, Failure> {
    let found = glance(&job.session.path);
    let found = found.map_err(|error| Failure::unreadable(&job.session.path, error))?;
    let name = found.title.or(found.prompt).unwrap_or_default();
    let name = crate::text::one_line(&name);
    // One that says so already is not made longer.
    let base = match name.rfind(" (") {
        Some(at) if name[at..].contains(" of ") && name.ends_with(')') => &name[..at],
        _ => &name,
    };
    let base: String = base.chars().take(LONGEST_TITLE).collect();
    let short: String = job.session.id.chars().take(8).collect();
    Ok(format!("{base} ({} of {short})", job.verb).trim_start().to_owned())
}

const LONGEST_TITLE: usize = 80;

fn finish(
    world: &mut World,
    job: &Job<'_>,
    target: &Target,
    made: Made,
    place: Option<&Path>,
    family: Option<&carry::Family>,
) -> Result<(), Failure> {
    let Made { proof, mut file } = made;
    let mut told = proof::Told::new(world, job, target, &proof, place, family);
    let Some(place) = place else {
        if target.output.is_some() && !target.dry_run {
            let file = file.file();
            file.rewind()?;
            io::copy(&mut BufReader::new(file), &mut world.out)?;
            world.out.flush()?;
            return told.beside(world);
        }
        return told.say(world);
    };
    let unwritable = |error| Failure::unwritable(place, error);
    let Temp::Named(named) = file else { return told.say(world) };
    let found = fs::metadata(&job.session.path).map_err(unwritable)?;
    store::take_after(named.as_file(), &found).map_err(unwritable)?;
    named.as_file().sync_all().map_err(unwritable)?;
    if target.output.is_some() {
        named.persist(place).map_err(|error| unwritable(error.error))?;
        return told.say(world);
    }
    let temp = named.into_temp_path();
    let ready = Ready { temp: temp.to_path_buf(), path: place.to_owned() };
    let deed = Deed { what: job.verb, session: &job.session.id, now: world.now };
    let journal = world.journal()?;
    told.entry = Some(if job.in_place {
        let replaced = store::replace(&mut Real, &journal, deed, &ready, job.read.was);
        let name = replaced.map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => Failure::in_use(&job.session.path, &error.to_string()),
            _ => unwritable(error),
        })?;
        take_late_lines(&job.read.subject, place).map_err(unwritable)?;
        name
    } else {
        let mut all = vec![ready];
        let made = family.map_or(Ok(Vec::new()), carry::Family::write).and_then(|others| {
            all.extend(others);
            store::create(&mut Real, &journal, deed, &all)
        });
        made.map_err(|error| {
            store::discard(&all[1..]);
            unwritable(error)
        })?
    });
    // It has its place: there is nothing left to clean up.
    let _ = temp.keep();
    if target.is_silent { Ok(()) } else { told.say(world) }
}

/// Whoever had the old file open when it was replaced may have written to it since: that goes behind the new one.
fn take_late_lines(subject: &Subject, place: &Path) -> io::Result<()> {
    let mut end = subject.own().table.end;
    for pause in [Duration::ZERO, LATE] {
        thread::sleep(pause);
        let more = subject.rest(end)?;
        if !more.is_empty() {
            end += more.len() as u64;
            fs::OpenOptions::new().append(true).open(place)?.write_all(&more)?;
        }
    }
    Ok(())
}

/// How long a client may take from opening a file to writing a line.
const LATE: Duration = Duration::from_millis(50);
