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
use std::time::Duration;

use files::Attributes;
use transcript::client::change::{Proof, Subject};
use transcript::client::check::Verdict;
use transcript::client::history::Rules;
use transcript::conversation::id::SessionId;
use transcript::conversation::preview::preview;
use transcript::format::secret::Cover;

use crate::copies::{self, Copies};
use crate::error::Error;
use crate::job::{Force, Job, Made, Mode, Place, Temp, Verb};
use crate::output::Output;
use crate::redact::Others;
use crate::store::{self, Begun, Deed, KeptBy, Leftovers, Ready, Real};
use crate::title::title;
use crate::{Workshop, live};

/// What a job did.
#[derive(Debug)]
pub struct Outcome {
    pub proof: Proof,
    pub done: Done,
    /// The id by which the result can be resumed, if it can be.
    pub session: Option<SessionId>,
    /// The new ids, and what is copied; `None` if the result keeps its ids.
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
        let policy = job.policy.clone();
        let output = Output::of(job)?;
        if policy.place == Place::InPlace && policy.mode == Mode::Write {
            self.lock(&job.session.path, policy.verb.name())?;
            if policy.force == Force::Never {
                live::refuse_if_live(job.session, self.now)?;
            }
        }
        let copies = job.copies()?;
        if let Some(copies) = copies.as_ref().filter(|_| !policy.place.is_alone()) {
            let mut found = preview(&job.session.path)?;
            if let Some(cover) = job.plan.change().cover() {
                // A prompt is cut off there, and a part of a secret is not recognized.
                found.prompt = None;
                found.title = found.title.map(|title| cover.text(&title).unwrap_or(title));
            }
            let title = title(policy.verb, job.session, found);
            job.plan.change_mut().title(&title, copies.ids.session());
        }
        let mut ready: Vec<Ready> = output.file().map(Ready::at).into_iter().collect();
        let made = copies
            .as_ref()
            .filter(|_| matches!(output, Output::Session(_)) && policy.place == Place::Beside);
        ready.extend(made.into_iter().flat_map(Copies::ready));
        let others = match (&output, &policy.place) {
            (Output::Session(_), Place::InPlace) => Others::of(job)?,
            _ => Others::default(),
        };
        ready.extend(others.ready());
        let deed = Deed {
            what: policy.verb.name(),
            session: &job.session.id,
            made: made.map(|copies| copies.ids.session()),
            now: self.now,
        };
        let begun = match &output {
            Output::Session(path) => {
                let begun = self.journal()?.begin(&mut Real, deed, &ready);
                Some(begun.map_err(Error::unwritable(path))?)
            }
            _ => None,
        };
        let work = Work {
            output: &output,
            ready: &ready,
            copies: copies.as_ref(),
            others: &others,
            deed,
            begun: begun.as_ref(),
        };
        let outcome = work.carry_out(job, rules, notify);
        if let Some(begun) = begun {
            let folder = begun.folder.clone();
            let settled = begun.settle(&mut Real);
            if outcome.is_ok() {
                settled.map_err(|source| Error::Unwritable { path: folder, source })?;
            }
        }
        let (proof, done) = outcome?;
        let left = match &copies {
            Some(copies) => copies.left.clone(),
            None if policy.place.is_alone() => copies::belongings_of(job.session),
            None => Vec::new(),
        };
        let session = match (&done, &policy.place) {
            (Done::Written { .. }, Place::Beside) => {
                copies.as_ref().map(|copies| copies.ids.session().into())
            }
            (Done::Written { .. }, Place::InPlace) => Some(job.session.id.clone()),
            _ => None,
        };
        Ok(Outcome { proof, done, session, copies, left })
    }
}

/// A job with everything that it needs.
struct Work<'a> {
    output: &'a Output,
    /// The result, and the files that are copied with it.
    ready: &'a [Ready],
    copies: Option<&'a Copies>,
    /// The other files of the session that are replaced with it.
    others: &'a Others,
    deed: Deed<'a>,
    /// The change in the journal.
    begun: Option<&'a Begun>,
}

impl Work<'_> {
    fn carry_out(
        &self,
        job: &Job<'_>,
        rules: Rules,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(Proof, Done), Error> {
        let policy = &job.policy;
        if let Some(begun) = self.begun {
            if begun.pruned.count > 0 {
                notify(Notice::Pruned(begun.pruned));
            }
            // Checked only now: a run that was killed may have left the file with a second name.
            if policy.place == Place::InPlace && policy.force != Force::Always {
                live::refuse_if_protected(&job.session.path)?;
            }
        }
        let Made { proof, file } =
            job.make(self.ready.first(), self.copies.map(|copies| &copies.ids), rules)?;
        // What a compaction had put out of sight comes back with what was wrong with it.
        let is_expected = policy.verb == Verb::Uncompress && proof.after.verdict == Verdict::Loss;
        if proof.is_worse() && !is_expected {
            let (before, after) = (proof.before.verdict, proof.after.verdict);
            return Err(Error::Worse { before, after });
        }
        let is_same = proof.written.dropped == 0 && proof.written.altered == 0;
        let is_optional = match policy.verb {
            Verb::Strip => true,
            Verb::Redact => {
                job.plan.change().cover().is_some_and(|cover| cover.values().is_empty())
            }
            _ => false,
        };
        if is_optional && is_same && !policy.place.is_alone() {
            return Ok((proof, Done::Unchanged));
        }
        let done = self.finish(job, file, notify)?;
        Ok((proof, done))
    }

    /// Puts the result in its place.
    fn finish(
        &self,
        job: &Job<'_>,
        file: Temp,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Done, Error> {
        let written = |entry| match self.output.path() {
            Some(path) => Done::Written { path: path.to_owned(), entry },
            None => Done::Shown,
        };
        let named = match (self.output, file) {
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
                return Ok(written(None));
            }
            (_, Temp::Hidden(_)) => return Ok(written(None)),
        };
        let Some(first) = self.ready.first() else { return Ok(written(None)) };
        let failed = || Error::unwritable(&first.path);
        let attributes = files::open(&job.session.path).and_then(|file| Attributes::of(&file));
        attributes.and_then(|kept| kept.give(named.as_file())).map_err(failed())?;
        named.as_file().sync_all().map_err(failed())?;
        let Some(begun) = self.begun else {
            let kept = match job.policy.force {
                Force::Never => named.persist_noclobber(&first.path),
                Force::InUse | Force::Always => named.persist(&first.path),
            };
            kept.map_err(|error| failed()(error.error))?;
            // Leftovers of other runs are not a reason to fail.
            let _ = store::sweep_beside(&mut Real, &first.path, self.deed.now);
            return Ok(written(None));
        };
        let temp = named.into_temp_path();
        if job.policy.place == Place::InPlace {
            let mut was = vec![job.read.was];
            was.extend(self.others.write(&self.ready[1..])?);
            let by = store::replace(&mut Real, begun, self.deed, self.ready, &was);
            if by.map_err(failed())? == KeptBy::Copy {
                notify(Notice::KeptCopy);
            }
            let cover = job.plan.change().cover().map(|cover| &**cover);
            let late = take_late_lines(&job.read.subject, &first.path, cover);
            let late = late.map_err(failed())?;
            if late > 0 {
                begun.amend(&mut Real, self.deed, late).map_err(failed())?;
            }
        } else {
            let along = self.copies.map_or(Ok(()), |copies| copies.write(&self.ready[1..]));
            let made = along.and_then(|()| store::create(&mut Real, begun, self.deed, self.ready));
            made.map_err(failed())?;
        }
        // It is in its place: there is nothing left to clean up.
        let _ = temp.keep();
        Ok(written(Some(begun.name.clone())))
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
