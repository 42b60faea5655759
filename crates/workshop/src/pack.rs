//! Packs: one file that carries sessions to another machine or another person.
//!
//! A pack is a page of HTML and a ZIP archive at once (`docs/decisions/0005-pack-format.md`). Its
//! manifest lists the members with their hashes. [`pack`] writes one; [`Pack`] is one that was
//! opened, and [`Workshop::unpack`](crate::Workshop::unpack) puts its sessions into a home.
//! Invariants: a pack holds sessions and what belongs to them, never settings, hooks or anything
//! else that a client runs; the files are streamed, so memory does not grow with them.

mod deflate;
mod git;
mod hashes;
mod manifest;
mod redacted;
mod unpack;
mod zip;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;

use sha2::{Digest, Sha256};
use transcript::conversation::place::{Session, Thing, working_directory};
use transcript::conversation::preview::preview;
use transcript::format::secret::{Mask, Redactor};
use transcript::format::threads;

pub use git::repository;
pub use hashes::MessageHashes;
pub use manifest::{Manifest, PACK_VERSION, PackedFile, PackedSession, Repository};
pub use unpack::{Became, Pack, Unpacked, UnpackedSession, Unpacking};

use crate::all_files::{AllFiles, SessionFile};
use crate::error::Error;
use deflate::Pool;
use redacted::redacted_copy;
use zip::Writer;

const PAGE: &str = include_str!("pack/page.html");
/// The end of the page: the comment of the archive.
const END_OF_PAGE: &str = "\n</script>\n</body>\n</html>\n";

/// What is packed.
#[derive(Debug)]
pub struct Packing<'a> {
    pub sessions: &'a [Session],
    /// Finds the secrets that are removed; `None`: nothing is.
    pub redactor: Option<&'a Redactor>,
    /// The name and version of the program.
    pub made_by: &'a str,
    /// The page that the pack begins with.
    pub page: PackPage,
}

/// The page that a pack begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackPage {
    /// One that says what a pack is.
    OfPacks,
    /// Another one, of so many bytes, which was written before; its body is still open.
    Written(u64),
}

/// The beginning of the element that holds the archive.
const ELEMENT: &[u8] = b"<script type=\"application/zip\" id=\"pack\">\n";

/// What was packed.
#[derive(Debug)]
pub struct Packed {
    pub manifest: Manifest,
    /// The size of the pack.
    pub bytes: u64,
    /// The files that are not in it, and why.
    pub left: Vec<(PathBuf, &'static str)>,
}

/// Writes a pack.
pub fn pack(packing: &Packing<'_>, out: &mut dyn Write) -> Result<Packed, Error> {
    let mut all = Vec::new();
    for session in packing.sessions {
        if !manifest::is_id(&session.id) {
            let source = io::Error::other("its name cannot be in a pack");
            return Err(Error::Unreadable { path: session.path.clone(), source });
        }
        all.push((session, AllFiles::of(session)?));
    }
    let unwritable = || Error::unwritable(PathBuf::from("the pack"));
    thread::scope(|scope| {
        let pool = Pool::start(scope, threads::count());
        let mut left = Vec::new();
        let mut manifest = Manifest::new(packing.made_by, packing.redactor.is_some());
        let (page, before) = match packing.page {
            PackPage::OfPacks => (PAGE.as_bytes(), 0),
            PackPage::Written(bytes) => (ELEMENT, bytes),
        };
        let mut writer = Writer::new(out, page, before).map_err(unwritable())?;
        for (session, files) in &all {
            let packed =
                one(packing, session, files, (&mut writer, &pool), &mut manifest, &mut left)?;
            manifest.sessions.push(packed);
        }
        let json =
            serde_json::to_vec_pretty(&manifest).map_err(|error| unwritable()(error.into()))?;
        let written = writer.member(manifest::NAME, &pool, |out| out.write_all(&json));
        let bytes = written.and_then(|()| writer.finish(END_OF_PAGE.as_bytes()));
        Ok(Packed { manifest, bytes: bytes.map_err(unwritable())?, left })
    })
}

/// Adds the files of a session.
fn one(
    packing: &Packing<'_>,
    session: &Session,
    files: &AllFiles,
    (writer, pool): (&mut Writer<'_>, &Pool),
    manifest: &mut Manifest,
    left: &mut Vec<(PathBuf, &'static str)>,
) -> Result<PackedSession, Error> {
    let seen = preview(&session.path)?;
    let mut mask = packing.redactor.map_or_else(Mask::none, Mask::new);
    let mut shown = |text: Option<String>| text.map(|text| mask.text(&text).into_owned());
    let cwd = working_directory(session)?;
    let git = cwd.as_ref().and_then(|cwd| repository(Path::new(cwd)));
    let mut packed = PackedSession {
        id: session.id.to_string(),
        title: shown(seen.title.or(seen.prompt)),
        tag: shown(seen.tag),
        project: session.project.clone(),
        cwd,
        git,
        members: Vec::new(),
    };
    left.extend(files.skipped.iter().cloned());
    for file in &files.files {
        let name = name_of(session, file);
        let thing = file.thing.name().to_owned();
        let named = name.map(|name| PackedFile { name, thing, size: 0, sha256: String::new() });
        let named = named.filter(|named| manifest::place(&session.id, named).is_some());
        let Some(mut member) = named else {
            left.push((file.path.clone(), "nothing of this kind or name goes into a pack"));
            continue;
        };
        let open = || files::open(&file.path).map_err(Error::unreadable(&file.path));
        let unreadable = || Error::unreadable(&file.path);
        if let Some(redactor) = packing.redactor.filter(|_| is_free_form(file.thing)) {
            let tried = redacted_copy(file.thing, &open()?, redactor, &mut io::sink());
            if tried.map_err(unreadable())?.is_none() {
                left.push((file.path.clone(), "it is not text, and seems to contain a secret"));
                continue;
            }
        }
        let source = open()?;
        let made = writer.member(&member.name, pool, |out| {
            let mut out = Hashed { out, hash: Sha256::new(), size: 0 };
            let hidden = match packing.redactor {
                Some(redactor) => redacted_copy(file.thing, &source, redactor, &mut out)?,
                None => copy(&source, &mut out)?,
            };
            Ok((hidden.unwrap_or_default(), out.size, format!("{:x}", out.hash.finalize())))
        });
        let (hidden, size, sha256) = made.map_err(Error::unwritable("the pack"))?;
        for (kind, count) in hidden {
            *manifest.secrets.entry(kind).or_default() += count;
        }
        (member.size, member.sha256) = (size, sha256);
        packed.members.push(member);
    }
    Ok(packed)
}

/// Whether a file can contain anything, also what is not text.
fn is_free_form(thing: Thing) -> bool {
    !matches!(thing, Thing::Transcript | Thing::Agent | Thing::AgentMeta | Thing::Todos)
}

fn copy(mut source: &File, out: &mut dyn Write) -> io::Result<Option<redacted::Hidden>> {
    io::copy(&mut source, out)?;
    Ok(Some(redacted::Hidden::new()))
}

/// The name of a file in a pack; `None` if it does not go there.
fn name_of(session: &Session, file: &SessionFile) -> Option<String> {
    let text = |path: &Path| Some(path.to_str()?.replace(std::path::MAIN_SEPARATOR, "/"));
    let below = |folder: &Path| file.path.strip_prefix(folder).ok().and_then(text);
    let last = || file.path.file_name()?.to_str().map(str::to_owned);
    let name = match file.thing {
        Thing::Transcript => return Some(manifest::transcript_name(&session.id)),
        Thing::FileHistory => format!("file-history/{}", last()?),
        Thing::Todos => format!("todos/{}", last()?),
        _ => match below(&session.folder()) {
            Some(inside) => format!("files/{inside}"),
            None => format!("beside/{}", below(session.path.parent()?)?),
        },
    };
    Some(format!("sessions/{}/{name}", session.id))
}

/// Hashes and counts what goes through.
struct Hashed<'a> {
    out: &'a mut dyn Write,
    hash: Sha256,
    size: u64,
}

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
#[path = "pack_tests.rs"]
mod tests;
