//! Carries out a job: writes the result beside the session, proves it, and only then puts it in its
//! place.
//!
//! The result is written to a file under another name, in the folder where it belongs; if it is
//! only shown, returned or goes into a pipe or a device, to an unnamed temporary file. It is read
//! again and compared with the session before anything is renamed.

use std::fs::{self, File};
use std::io::{self, BufReader, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use files::Attributes;
use tempfile::TempPath;
use transcript::client::change::{Proof, Renames, Subject};
use transcript::client::check::Verdict;
use transcript::client::history::Rules;
use transcript::conversation::id::SessionId;
use transcript::conversation::preview::preview;
use transcript::format::secret::Cover;

use crate::copies::{self, Copies};
use crate::error::Error;
use crate::job::{Force, Job, Made, Mode, Place, Temp, Verb};
use crate::output::Output;
use crate::redact::{Fates, Others};
use crate::store::{self, Begun, Deed, KeptBy, Leftovers, Ready, Real};
use crate::title::{title, without_secrets};
use crate::{Workshop, live};

/// What a job did.
#[derive(Debug)]
pub struct Outcome {
    pub proof: Proof,
    pub done: Done,
    /// The id by which the result can be resumed, if it can be.
    pub session: Option<SessionId>,
    /// The new ids, and what is copied.
    pub copies: Option<Copies>,
    /// What belongs to the session and is not copied, and how many of each.
    pub left: Vec<(transcript::conversation::place::Thing, usize)>,
}

/// What became of the result.
#[derive(Debug)]
pub enum Done {
    /// Nothing was written, because the change was only to be shown.
    Shown,
    /// Nothing was written, because nothing would change.
    Unchanged,
    /// It is in this file; `entry` is its name in the journal.
    Written { path: PathBuf, entry: Option<String> },
    /// It is in this file, which has no name; its position is at the start.
    Returned(File),
}

/// What a user should know while a job is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// These changes can no longer be undone: they were too old, or too many.
    Pruned(Leftovers),
    /// The journal keeps a copy instead of the old file itself, so lines that another program
    /// writes to the old file from now on will not be in it.
    KeptCopy,
}

impl Workshop {
    /// Carries out a job, or shows what would be done.
    pub fn carry_out(
        &mut self,
        job: &mut Job<'_>,
        rules: Rules,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Outcome, Error> {
        let prepared = self.prepare(job)?;
        let deed = prepared.deed(job, self.now);
        let begun = match &prepared.output {
            Output::Session(path) => Some(self.begin(path, deed, &prepared.ready)?),
            _ => None,
        };
        let done = prepared.carry_out(job, rules, (begun.as_ref(), deed), notify);
        let (proof, done) = settled(begun, done)?;
        Ok(prepared.outcome(job, proof, done))
    }

    /// Carries out two jobs that make two sessions of one: both or neither, in one change of the
    /// journal. The first may be in place; the second makes a new session.
    pub fn carry_out_both(
        &mut self,
        [first, second]: [&mut Job<'_>; 2],
        rules: Rules,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<[Outcome; 2], Error> {
        // Both places are looked at before anything is written.
        let outputs = [Output::of(first)?, Output::of(second)?];
        if !outputs.iter().all(|output| matches!(output, Output::Session(_))) {
            let outcome = self.carry_out(first, rules, notify)?;
            return Ok([outcome, self.carry_out(second, rules, notify)?]);
        }
        let (one, other) = (self.prepare(first)?, self.prepare(second)?);
        let ready = [&one.ready[..], &other.ready[..]].concat();
        let [deed, second_deed] = [one.deed(first, self.now), other.deed(second, self.now)];
        let deed = Deed { made: deed.made.or(second_deed.made), ..deed };
        let begun = self.begin(&first.session.path, deed, &ready)?;
        let mut work = || -> Result<_, Error> {
            announce(first, &begun, notify)?;
            let staged = [one.stage(first, rules)?, other.stage(second, rules)?];
            let mut fates = Fates::default();
            for staged in &staged {
                fates.was.extend(&staged.fates.was);
                fates.leaving.extend_from_slice(&staged.fates.leaving);
            }
            put(first, (&begun, deed), &ready, &fates, notify)?;
            Ok(staged.map(|staged| (staged.proof, staged.temp.map(TempPath::keep))))
        };
        let done = work();
        let entry = Some(begun.name.clone());
        let [(proof, _), (second_proof, _)] = settled(Some(begun), done)?;
        let [done, second_done] =
            [&one, &other].map(|prepared| prepared.output.written(entry.clone()));
        Ok([one.outcome(first, proof, done), other.outcome(second, second_proof, second_done)])
    }

    /// Finds out where the result of a job goes, and which files are written along with it.
    fn prepare(&mut self, job: &mut Job<'_>) -> Result<Prepared, Error> {
        let policy = job.policy.clone();
        let output = Output::of(job)?;
        if policy.place == Place::InPlace && policy.mode == Mode::Write {
            self.lock(&job.session.path, policy.verb.name())?;
            if policy.force == Force::Never {
                self.refuse_if_live(job.session)?;
            }
        }
        let copies = job.copies()?;
        let new_ids = copies.as_ref().and_then(Copies::new_ids);
        if let Some(ids) = new_ids.filter(|_| !policy.place.is_alone()) {
            let mut found = preview(&job.session.path)?;
            if let Some(cover) = job.plan.change().cover() {
                found = without_secrets(found, cover);
            }
            let title = title(policy.verb, job.session, found);
            job.plan.change_mut().title(&title, ids.session());
        }
        let mut ready: Vec<Ready> = output.file().map(Ready::at).into_iter().collect();
        let is_session = matches!(output, Output::Session(_));
        ready.extend(copies.iter().filter(|_| is_session).flat_map(Copies::ready));
        let others = if is_session && policy.place == Place::InPlace {
            Others::of(job)?
        } else {
            Others::default()
        };
        ready.extend(others.ready());
        Ok(Prepared { output, copies, others, ready })
    }

    fn begin(&self, path: &Path, deed: Deed<'_>, ready: &[Ready]) -> Result<Begun, Error> {
        self.journal()?.begin(&mut Real, deed, ready).map_err(Error::unwritable(path))
    }
}

/// Ends the work on a change. If it failed, that matters more than what it left behind.
fn settled<T>(begun: Option<Begun>, done: Result<T, Error>) -> Result<T, Error> {
    if let Some(begun) = begun {
        let folder = begun.folder.clone();
        let settled = begun.settle(&mut Real);
        if done.is_ok() {
            settled.map_err(|source| Error::Unwritable { path: folder, source })?;
        }
    }
    done
}

/// Says what beginning a change has removed, and refuses a protected file.
fn announce(job: &Job<'_>, begun: &Begun, notify: &mut dyn FnMut(Notice)) -> Result<(), Error> {
    if begun.pruned.count > 0 {
        notify(Notice::Pruned(begun.pruned));
    }
    // Checked only now: a run that was killed may have left the file with a second name.
    if job.policy.place == Place::InPlace && job.policy.force != Force::Always {
        live::refuse_if_protected(&job.session.path)?;
    }
    Ok(())
}

/// Puts complete files in their places.
fn put(
    job: &Job<'_>,
    (begun, deed): (&Begun, Deed<'_>),
    ready: &[Ready],
    Fates { was, leaving }: &Fates,
    notify: &mut dyn FnMut(Notice),
) -> Result<(), Error> {
    let Some(first) = ready.first() else { return Ok(()) };
    let failed = || Error::unwritable(&first.path);
    if job.policy.place != Place::InPlace {
        return store::create(&mut Real, begun, deed, ready).map_err(failed());
    }
    let by = store::replace_and_remove(&mut Real, begun, deed, ready, was, leaving);
    let by = by.map_err(failed())?;
    if by == KeptBy::Copy {
        notify(Notice::KeptCopy);
    }
    let cover = job.plan.change().cover().map(|cover| &**cover);
    let late = take_late_lines(&job.read.subject, &first.path, cover).map_err(failed())?;
    if late > 0 {
        begun.amend(&mut Real, deed, late).map_err(failed())?;
    }
    Ok(())
}

/// What a job needs.
struct Prepared {
    output: Output,
    /// The new ids, and the files that are copied.
    copies: Option<Copies>,
    /// The other files of the session that are replaced with it.
    others: Others,
    /// The result, then the copies, then the others.
    ready: Vec<Ready>,
}

/// A result that is complete under its temporary name, with everything that goes with it.
struct Staged {
    proof: Proof,
    /// Removed, unless it was put in its place.
    temp: Option<TempPath>,
    fates: Fates,
}

impl Prepared {
    fn deed<'a>(&'a self, job: &'a Job<'_>, now: SystemTime) -> Deed<'a> {
        let is_made =
            matches!(self.output, Output::Session(_)) && job.policy.place == Place::Beside;
        let new_ids = self.copies.as_ref().and_then(Copies::new_ids);
        Deed {
            what: job.policy.verb.name(),
            session: &job.session.id,
            made: new_ids.filter(|_| is_made).map(Renames::session),
            now,
        }
    }

    fn carry_out(
        &self,
        job: &Job<'_>,
        rules: Rules,
        (begun, deed): (Option<&Begun>, Deed<'_>),
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(Proof, Done), Error> {
        if let Some(begun) = begun {
            announce(job, begun, notify)?;
        }
        let Made { proof, file, old } = self.make(job, rules)?;
        if let (Some(begun), Some(first), Some(old)) = (begun, self.ready.first(), old) {
            begun.hashed(&first.path, job.read.was, old);
        }
        let is_same = proof.written.dropped == 0 && proof.written.altered == 0;
        let is_optional = match job.policy.verb {
            Verb::Strip => true,
            Verb::Redact => {
                job.plan.change().cover().is_some_and(|cover| cover.values().is_empty())
            }
            _ => false,
        };
        if is_optional && is_same && !job.policy.place.is_alone() {
            return Ok((proof, Done::Unchanged));
        }
        let done = self.finish(job, file, (begun, deed), notify)?;
        Ok((proof, done))
    }

    /// Writes the result, and refuses one that resumes less well.
    fn make(&self, job: &Job<'_>, rules: Rules) -> Result<Made, Error> {
        let new_ids = self.copies.as_ref().and_then(Copies::new_ids);
        let made = job.make(self.ready.first(), new_ids, rules)?;
        // What a compaction had put out of sight comes back with what was wrong with it.
        let is_expected = job.policy.verb == Verb::Uncompress
            && (made.proof.after.verdict == Verdict::Loss || job.plan.change().restores());
        if made.proof.is_worse() && !is_expected {
            return Err(Error::worse(made.proof));
        }
        Ok(made)
    }

    fn stage(&self, job: &Job<'_>, rules: Rules) -> Result<Staged, Error> {
        let Made { proof, file, .. } = self.make(job, rules)?;
        let Temp::Named(named) = file else {
            return Ok(Staged { proof, temp: None, fates: Fates::default() });
        };
        let fates = self.complete(job, named.as_file())?;
        Ok(Staged { proof, temp: Some(named.into_temp_path()), fates })
    }

    /// Completes a result, and writes what goes with it, all under temporary names.
    fn complete(&self, job: &Job<'_>, file: &File) -> Result<Fates, Error> {
        let path = self.output.path().unwrap_or(Path::new(""));
        dress(job, file).map_err(Error::unwritable(path))?;
        let was = vec![(job.policy.place == Place::InPlace).then_some(job.read.was)];
        let mut fates = Fates { was, leaving: Vec::new() };
        let mut ready = &self.ready[1..];
        if let Some(copies) = &self.copies {
            copies.write(ready).map_err(Error::unwritable(path))?;
            let count = copies.ready().count();
            fates.was.resize(1 + count, None);
            ready = &ready[count..];
        }
        self.others.write(ready, &mut fates)?;
        Ok(fates)
    }

    /// Puts the result in its place.
    fn finish(
        &self,
        job: &Job<'_>,
        file: Temp,
        (begun, deed): (Option<&Begun>, Deed<'_>),
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Done, Error> {
        let named = match (&self.output, file) {
            (_, Temp::Named(named)) => named,
            (Output::Returned, Temp::Hidden(mut file)) => {
                file.rewind().map_err(Error::unwritable("a temporary file"))?;
                return Ok(Done::Returned(file));
            }
            (Output::Into(path), Temp::Hidden(mut file)) => {
                let copied = file.rewind().and_then(|()| {
                    io::copy(&mut BufReader::new(file), &mut files::open_special(path)?)
                });
                copied.map_err(Error::unwritable(path))?;
                return Ok(self.output.written(None));
            }
            (_, Temp::Hidden(_)) => return Ok(self.output.written(None)),
        };
        let Some(first) = self.ready.first() else { return Ok(self.output.written(None)) };
        let Some(begun) = begun else {
            dress(job, named.as_file()).map_err(Error::unwritable(&first.path))?;
            let kept = match job.policy.force {
                Force::Never => named.persist_noclobber(&first.path),
                Force::InUse | Force::Always => named.persist(&first.path),
            };
            kept.map_err(|error| Error::unwritable(&first.path)(error.error))?;
            // Leftovers of other runs are not a reason to fail.
            let _ = store::sweep_beside(&mut Real, &first.path, deed.now);
            return Ok(self.output.written(None));
        };
        let fates = self.complete(job, named.as_file())?;
        let temp = named.into_temp_path();
        put(job, (begun, deed), &self.ready, &fates, notify)?;
        // It is in its place: there is nothing left to clean up.
        let _ = temp.keep();
        Ok(self.output.written(Some(begun.name.clone())))
    }

    fn outcome(self, job: &Job<'_>, proof: Proof, done: Done) -> Outcome {
        let new_ids = self.copies.as_ref().and_then(Copies::new_ids);
        let is_all_left = new_ids.is_none() && job.policy.place.is_alone();
        let mut left = if is_all_left { copies::belongings_of(job.session) } else { Vec::new() };
        left.extend(self.copies.iter().flat_map(|copies| copies.left.clone()));
        let session = match (&done, &job.policy.place) {
            (Done::Written { .. }, Place::Beside) => new_ids.map(|ids| ids.session().into()),
            (Done::Written { .. }, Place::InPlace) => Some(job.session.id.clone()),
            _ => None,
        };
        Outcome { proof, done, session, copies: self.copies, left }
    }
}

/// Gives a result what the session's file has beside its bytes.
fn dress(job: &Job<'_>, file: &File) -> io::Result<()> {
    Attributes::of(&files::open(&job.session.path)?)?.give(file)?;
    file.sync_all()
}

impl Output {
    /// What became of a result that was put there.
    fn written(&self, entry: Option<String>) -> Done {
        match self.path() {
            Some(path) => Done::Written { path: path.to_owned(), entry },
            None => Done::Shown,
        }
    }
}

/// A process that had the old file open when it was replaced may have written to it since. Appends
/// those lines to the new file, and returns how many bytes they have.
fn take_late_lines(subject: &Subject, place: &Path, cover: Option<&Cover>) -> io::Result<u64> {
    let begin = subject.conversation().table.end;
    let mut end = begin;
    for pause in [Duration::ZERO, LATE] {
        thread::sleep(pause);
        let more = subject.rest(end)?;
        if !more.is_empty() {
            end += more.len() as u64;
            let lines = more.split_inclusive(|byte| *byte == b'\n');
            let more: Vec<u8> = match cover {
                Some(cover) => lines
                    .flat_map(|line| cover.line(line).unwrap_or_else(|| line.to_vec()))
                    .collect(),
                None => more,
            };
            fs::OpenOptions::new().append(true).open(place)?.write_all(&more)?;
        }
    }
    Ok(end - begin)
}

/// How long a client may take from opening a file to writing a line.
const LATE: Duration = Duration::from_millis(50);
