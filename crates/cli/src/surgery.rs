//! Carries out every change of a session: shows it, writes the result beside the session, proves
//! it, and only then puts it in its place.
//!
//! The result is written to a file under another name (in the folder where it belongs; for
//! `--dry-run`, the standard output, pipes and devices, to an unnamed temporary file), read again
//! and compared with the session. A result that resumes less well than the session is not put
//! anywhere. Invariants: without `--in-place`, the session's own file is not opened for writing;
//! with `-o`, nothing else is written; while a session is changed in place, no other quipu writes
//! to it.

mod before_resume;
mod carry;
pub(crate) mod live;
mod place;
mod proof;

pub(crate) use before_resume::before_resume;

use std::fs::{self, File};
use std::io::{self, BufReader, Seek, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use files::Attributes;
use transcript::change::{self, Change, Proof, Renames, Repaired, Subject};
use transcript::check::Verdict;
use transcript::history::Rules;
use transcript::place::Session;
use transcript::preview::preview;

use crate::failure::Failure;
use crate::store::{self, Begun, Deed, KeptBy, Mark, Ready, Real};
use crate::text::{count, size};
use crate::world::World;
use place::Place;

/// Where the result goes.
#[derive(clap::Args, Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags")]
pub(crate) struct Target {
    /// Write the result only to this file; `-` is the standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Show what would be done, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Overwrite the file given by `-o`; write into it if it is a pipe or a device
    #[arg(long)]
    pub(crate) force: bool,
    /// Print the proof as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing: the caller reports the change itself.
    #[arg(skip)]
    pub(crate) is_silent: bool,
}

/// The help text of `--force` for commands that can change a session in place.
pub(crate) const FORCE_IN_PLACE: &str = "Overwrite the file given by `-o`, or write into it if it is a pipe \
    or a device; with `--in-place`, even if the session seems to be in use, has other names (hard \
    links), is write-protected or belongs to another user";

/// A change that is ready to be carried out.
pub(crate) struct Job<'a> {
    /// The command.
    pub(crate) verb: &'a str,
    pub(crate) session: &'a Session,
    pub(crate) read: Read,
    pub(crate) plan: Plan,
    pub(crate) in_place: bool,
    /// Whether the ids stay; otherwise a result that is not in place gets new ones.
    pub(crate) keep_ids: bool,
    /// Whether the files of sub-agents are not copied.
    pub(crate) without_agents: bool,
}

/// What to do.
pub(crate) enum Plan {
    /// A change of the session itself.
    Change(Change),
    /// A repair, which may take several passes.
    Repaired(Box<Repaired>),
}

impl Plan {
    pub(crate) fn change(&self) -> &Change {
        match self {
            Plan::Change(change) => change,
            Plan::Repaired(repaired) => &repaired.change,
        }
    }

    fn change_mut(&mut self) -> &mut Change {
        match self {
            Plan::Change(change) => change,
            Plan::Repaired(repaired) => &mut repaired.change,
        }
    }

    /// What the result is written from: the session (`None`), unless the repair took several
    /// passes.
    fn source(&self) -> Option<&Subject> {
        match self {
            Plan::Change(_) => None,
            Plan::Repaired(repaired) => repaired.source.as_ref(),
        }
    }
}

/// A session as it was read, and the state of its file at that time.
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

/// The outcome of a job, after it was written and compared.
pub(crate) struct Made {
    pub(crate) proof: Proof,
    file: Temp,
}

/// A result that is not in its place yet.
enum Temp {
    /// A rename will put it in its place.
    Named(tempfile::NamedTempFile),
    /// An unnamed file, invisible to other processes.
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
    /// The new ids of the result; `None` if it keeps its ids.
    fn ids(&self, target: &Target, id: &str) -> io::Result<Option<carry::WithAgents>> {
        let is_same = self.in_place
            || self.keep_ids
            || (target.output.is_some() && self.verb != "clone" && self.verb != "fork");
        if is_same {
            return Ok(None);
        }
        let mut ids = Renames::new(&self.session.id, id);
        ids.learn(&self.plan.source().unwrap_or(&self.read.subject).conversation().table);
        let is_alone = target.output.is_some();
        carry::WithAgents::new(self, ids, is_alone).map(Some)
    }

    /// The proof of what the job would do.
    pub(crate) fn proof(&self, rules: Rules) -> Result<Proof, Failure> {
        self.make(None, None, rules).map(|made| made.proof)
    }

    /// Writes the result to a temporary file, and compares.
    fn make(
        &self,
        ready: Option<&Ready>,
        ids: Option<&Renames>,
        rules: Rules,
    ) -> Result<Made, Failure> {
        let path = ready.map_or(Path::new("a temporary file"), |ready| ready.path.as_path());
        let unwritable = |error| Failure::unwritable(path, error);
        let mut file = match ready {
            Some(ready) => Temp::Named(named(&ready.temp).map_err(unwritable)?),
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
        // The disk syncs while the result is read; `finish` waits for the rest.
        let after = thread::scope(|scope| {
            if let Temp::Named(named) = &file {
                scope.spawn(|| named.as_file().sync_data());
            }
            Subject::of_file(again, &self.session.path, rules)
        });
        let after = after.map_err(unwritable)?;
        let written = match &self.plan {
            Plan::Change(_) => written,
            Plan::Repaired(repaired) => repaired.total(written),
        };
        let proof = change::prove(&self.read.subject, self.plan.change(), written, &after);
        let proof = proof.map_err(unwritable)?;
        Ok(Made { proof, file })
    }
}

/// A new file with exactly this name, which is removed unless it is kept.
fn named(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    fs::metadata(folder)?;
    let name = path.file_name().unwrap_or_default();
    let named = tempfile::Builder::new().prefix(name).suffix("").rand_bytes(0).tempfile_in(folder);
    // Leaves out the name of the temporary file, which the user does not know.
    named.map_err(|error| error.kind().into())
}

/// Carries out a job, or shows what would be done.
pub(crate) fn carry_out(
    world: &mut World,
    mut job: Job<'_>,
    target: &Target,
    rules: Rules,
) -> Result<Verdict, Failure> {
    let id = world.new_id();
    let place = Place::of(&job, target, &id)?;
    if job.in_place && !target.dry_run {
        world.lock_session(&job.session.path, job.verb)?;
        if !target.force {
            live::refuse_if_live(world, job.session)?;
        }
    }
    let unreadable = |error| Failure::unreadable(&job.session.path, error);
    let family = job.ids(target, &id).map_err(unreadable)?;
    if let Some(family) = family.as_ref().filter(|_| target.output.is_none()) {
        let title = title(&job)?;
        job.plan.change_mut().title(&title, family.ids.session());
    }
    let mut ready: Vec<Ready> = place.file().map(Ready::at).into_iter().collect();
    let made = match &place {
        Place::Session(_) if !job.in_place => family.as_ref(),
        _ => None,
    };
    ready.extend(made.into_iter().flat_map(|family| family.along.iter().map(carry::Along::ready)));
    let deed = Deed {
        what: job.verb,
        session: &job.session.id,
        made: made.map(|family| family.ids.session()),
        now: world.now,
    };
    let begun = match &place {
        Place::Session(path) => {
            let begun = world.journal()?.begin(&mut Real, deed, &ready);
            Some(begun.map_err(|error| unwritable(path, error))?)
        }
        _ => None,
    };
    let work = Work { place, ready: &ready, family: family.as_ref(), deed, begun: begun.as_ref() };
    let outcome = work.carry_out(world, &job, target, rules);
    if let Some(begun) = begun {
        let folder = begun.folder.clone();
        let settled = begun.settle(&mut Real);
        if outcome.is_ok() {
            settled.map_err(|error| Failure::unwritable(&folder, error))?;
        }
    }
    let outcome = outcome?;
    // The program ends here: freeing the memory of a long session piece by piece would take longer
    // than exiting.
    mem::forget(job);
    Ok(outcome)
}

/// The failure to put a file in its place: in use by another process, or another reason.
fn unwritable(path: &Path, error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::ResourceBusy => Failure::in_use(path, &error.to_string()),
        _ => Failure::unwritable(path, error),
    }
}

/// A job with everything that it needs.
struct Work<'a> {
    place: Place,
    /// The result, and the files that are copied with it.
    ready: &'a [Ready],
    family: Option<&'a carry::WithAgents>,
    deed: Deed<'a>,
    /// The change in the journal.
    begun: Option<&'a Begun>,
}

impl Work<'_> {
    fn carry_out(
        &self,
        world: &mut World,
        job: &Job<'_>,
        target: &Target,
        rules: Rules,
    ) -> Result<Verdict, Failure> {
        if let Some(begun) = self.begun {
            tell_pruned(world, begun)?;
            // Checked only now: a run that was killed may have left the file with a second name.
            if job.in_place && (!target.force || target.is_silent) {
                live::refuse_if_protected(&job.session.path)?;
            }
        }
        let ids = self.family.map(|family| &family.ids);
        let made = job.make(self.ready.first(), ids, rules)?;
        if made.proof.is_worse() {
            return Err(Failure::worse(
                made.proof.before.verdict.words(),
                made.proof.after.verdict.words(),
            ));
        }
        let verdict = made.proof.after.verdict;
        let is_same = made.proof.written.dropped == 0 && made.proof.written.altered == 0;
        if job.verb == "strip" && is_same && target.output.is_none() {
            nothing(world, job, target, &made.proof, "nothing to strip")?;
            return Ok(verdict);
        }
        self.finish(world, job, target, made)?;
        Ok(verdict)
    }

    /// Puts the result in its place, and reports it.
    fn finish(
        &self,
        world: &mut World,
        job: &Job<'_>,
        target: &Target,
        made: Made,
    ) -> Result<(), Failure> {
        let Made { proof, file } = made;
        let mut report =
            proof::Told::new(world, job, target, &proof, self.place.path(), self.family);
        let named = match (&self.place, file) {
            (_, Temp::Named(named)) => named,
            (Place::Output, Temp::Hidden(mut file)) => {
                file.rewind()?;
                io::copy(&mut BufReader::new(file), &mut world.out)?;
                world.out.flush()?;
                return report.beside(world);
            }
            (Place::Into(path), Temp::Hidden(mut file)) => {
                let written = file.rewind().and_then(|()| {
                    io::copy(&mut BufReader::new(file), &mut files::open_special(path)?)
                });
                written.map_err(|error| Failure::unwritable(path, error))?;
                return report.say(world);
            }
            (_, Temp::Hidden(_)) => return report.say(world),
        };
        let Some(first) = self.ready.first() else { return report.say(world) };
        let failed = |error| unwritable(&first.path, error);
        let attributes = files::open(&job.session.path).and_then(|file| Attributes::of(&file));
        attributes.and_then(|kept| kept.give(named.as_file())).map_err(failed)?;
        named.as_file().sync_all().map_err(failed)?;
        let Some(begun) = self.begun else {
            let kept = if target.force {
                named.persist(&first.path)
            } else {
                named.persist_noclobber(&first.path)
            };
            kept.map_err(|error| failed(error.error))?;
            // Leftovers of other runs are not a reason to fail.
            let _ = store::sweep_beside(&mut Real, &first.path, world.now);
            return report.say(world);
        };
        let temp = named.into_temp_path();
        if job.in_place {
            let by = store::replace(&mut Real, begun, self.deed, first, job.read.was);
            if by.map_err(failed)? == KeptBy::Copy {
                world.out.note(
                    "the journal is on another file system, so it keeps a copy: lines that another \
                     program writes to the old file from now on will not be in it",
                )?;
            }
            let late = take_late_lines(&job.read.subject, &first.path).map_err(failed)?;
            if late > 0 {
                begun.amend(&mut Real, self.deed, late).map_err(failed)?;
            }
        } else {
            let along = self.family.map_or(Ok(()), |family| family.write(&self.ready[1..]));
            let made = along.and_then(|()| store::create(&mut Real, begun, self.deed, self.ready));
            made.map_err(failed)?;
        }
        report.entry = Some(begun.name.clone());
        // It is in its place: there is nothing left to clean up.
        let _ = temp.keep();
        if target.is_silent { Ok(()) } else { report.say(world) }
    }
}

/// Reports changes that can no longer be undone.
pub(crate) fn tell_pruned(world: &mut World, begun: &Begun) -> Result<(), Failure> {
    if begun.pruned.count == 0 {
        return Ok(());
    }
    let (changes, bytes) = (count(begun.pruned.count, "old change"), size(begun.pruned.bytes));
    let note = format!(
        "{changes} ({bytes}) can no longer be undone: `[undo]` in the configuration sets how long \
         changes are kept"
    );
    Ok(world.out.note(&note)?)
}

/// Reports that there is nothing to do; with `--json`, prints the proof.
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

/// A title that begins with the origin of the session; at the end, lists would cut it off.
fn title(job: &Job<'_>) -> Result<String, Failure> {
    let found = preview(&job.session.path);
    let found = found.map_err(|error| Failure::unreadable(&job.session.path, error))?;
    let name = crate::text::one_line(&found.title.or(found.prompt).unwrap_or_default());
    let base: String = unmarked(&name).chars().take(LONGEST_TITLE).collect();
    let short: String = job.session.id.chars().take(8).collect();
    let mark = format!("{} of {short}", job.verb);
    Ok(if base.is_empty() { mark } else { format!("{mark}: {base}") })
}

/// A title without its origin; the first version of quipu put that at the end.
fn unmarked(title: &str) -> &str {
    let is_mark = |text: &str| {
        text.split_once(" of ").is_some_and(|(verb, id)| {
            ["clone", "fork", "repair", "strip"].contains(&verb) && !id.contains(' ')
        })
    };
    if let Some((_, rest)) = title.split_once(": ").filter(|(mark, _)| is_mark(mark)) {
        return rest;
    }
    let last = title.strip_suffix(')').and_then(|title| title.rsplit_once(" ("));
    last.filter(|(_, mark)| is_mark(mark)).map_or(title, |(base, _)| base)
}

const LONGEST_TITLE: usize = 80;

/// A process that had the old file open when it was replaced may have written to it since. Appends
/// those lines to the new file, and returns how many bytes they have.
fn take_late_lines(subject: &Subject, place: &Path) -> io::Result<u64> {
    let begin = subject.conversation().table.end;
    let mut end = begin;
    for pause in [Duration::ZERO, LATE] {
        thread::sleep(pause);
        let more = subject.rest(end)?;
        if !more.is_empty() {
            end += more.len() as u64;
            fs::OpenOptions::new().append(true).open(place)?.write_all(&more)?;
        }
    }
    Ok(end - begin)
}

/// How long a client may take from opening a file to writing a line.
const LATE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::unmarked;

    #[test]
    fn a_title_is_marked_once() {
        for (title, base) in [
            ("Add tests", "Add tests"),
            ("repair of 5eed0001: Add tests", "Add tests"),
            ("Add tests (strip of 5eed0001)", "Add tests"),
            ("list of bugs: one", "list of bugs: one"),
            ("Add tests (most of them)", "Add tests (most of them)"),
            ("", ""),
        ] {
            assert_eq!(unmarked(title), base);
        }
    }
}
