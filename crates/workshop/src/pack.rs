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
mod unpack;
mod zip;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use transcript::conversation::place::{Session, Thing, slug, working_directory};
use transcript::conversation::preview::preview;
use transcript::format::secret::{Cover, Redactor};
use transcript::format::threads;

pub use git::repository;
pub use hashes::MessageHashes;
pub use manifest::{Manifest, PACK_VERSION, PackedFile, PackedSession, Repository};
pub use unpack::{Became, Pack, Unpacked, UnpackedSession, Unpacking};

use crate::all_files::{AllFiles, SessionFile};
use crate::copies::is_lock;
use crate::error::Error;
use crate::redact::{self, Looked, Unreadable, look_through, name_without, shown_path};
use crate::sum::Sum;
use crate::title::without_secrets;
use deflate::Pool;
use zip::Writer;

const PAGE: &str = include_str!("pack/page.html");
/// The end of the page: the comment of the archive.
const END_OF_PAGE: &str = "\n</script>\n</body>\n</html>\n";

/// What is packed.
#[derive(Debug)]
pub struct Packing<'a> {
    pub sessions: &'a [Session],
    /// Finds the secrets that are removed; `None`: nothing is.
    pub redactor: Option<&'a Arc<Redactor>>,
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
    let mut seen = preview(&session.path)?;
    let hiding = packing.redactor.map(|redactor| Hiding::of(session, redactor)).transpose()?;
    if let Some(hiding) = &hiding {
        for (kind, count) in hiding.looked.times() {
            *manifest.secrets.entry(kind).or_default() += count;
        }
        seen = without_secrets(seen, &hiding.cover);
    }
    let shown = |text: Option<String>| match &hiding {
        Some(hiding) => text.map(|text| hiding.cover.text(&text).unwrap_or(text)),
        None => text,
    };
    let cwd = working_directory(session)?;
    let git = cwd.as_ref().and_then(|cwd| repository(Path::new(cwd)));
    let git = git.map(|git| Repository {
        root: shown(Some(git.root)).unwrap_or_default(),
        remote: shown(git.remote),
    });
    let mut packed = PackedSession {
        id: session.id.to_string(),
        title: seen.title.or(seen.prompt),
        tag: seen.tag,
        project: project_name(session, cwd.as_deref(), hiding.as_ref().map(|one| &*one.cover)),
        cwd: shown(cwd),
        git,
        members: Vec::new(),
    };
    let path = |path: &Path| match &hiding {
        Some(hiding) => shown_path(path, &hiding.cover),
        None => path.to_owned(),
    };
    left.extend(files.skipped.iter().map(|(skipped, why)| (path(skipped), *why)));
    let mut taken = HashSet::new();
    for file in files.files.iter().filter(|file| !is_lock(file.thing, &file.path)) {
        let name = name_of(session, file).map(|name| match &hiding {
            Some(hiding) => name_without(Path::new(&name), &hiding.cover).to_string_lossy().into(),
            None => name,
        });
        let thing = file.thing.name().to_owned();
        let named = name.map(|name| PackedFile { name, thing, size: 0, sha256: String::new() });
        let named = named.filter(|named| manifest::place(&session.id, named).is_some());
        let Some(mut member) = named else {
            left.push((path(&file.path), "nothing of this kind or name goes into a pack"));
            continue;
        };
        // Without secrets, two names may be one, and some systems do not tell `a` from `A`.
        if !taken.insert(member.name.to_lowercase()) {
            left.push((path(&file.path), "another file in the pack has that name"));
            continue;
        }
        let open = || files::open(&file.path).map_err(Error::unreadable(path(&file.path)));
        let mut source = match &hiding {
            Some(hiding) => hiding.copy(file)?,
            None => open()?,
        };
        let made = writer.member(&member.name, pool, |out| {
            let mut out = Hashed { out, sum: Sum::new(), size: 0 };
            io::copy(&mut source, &mut out)?;
            Ok((out.size, out.sum.finish()))
        });
        (member.size, member.sha256) = made.map_err(Error::unwritable("the pack"))?;
        packed.members.push(member);
    }
    Ok(packed)
}

/// The name of the folder of a session's project. It is made from the path of a directory, and says
/// what that says.
fn project_name(session: &Session, cwd: Option<&str>, cover: Option<&Cover>) -> String {
    let shown = |text: &str| cover.and_then(|cover| cover.text(text));
    match cwd.and_then(shown) {
        Some(cwd) => slug(&cwd),
        None => shown(&session.project).unwrap_or_else(|| session.project.clone()),
    }
}

/// What is hidden in the files of a session: exactly what `redact` hides.
struct Hiding {
    looked: Looked,
    cover: Arc<Cover>,
}

impl Hiding {
    fn of(session: &Session, redactor: &Arc<Redactor>) -> Result<Hiding, Error> {
        let mut looked = look_through(session, redactor, Unreadable::Refuse)?;
        let cover = Arc::new(Cover::new(redactor.clone(), mem::take(&mut looked.values)));
        Ok(Hiding { looked, cover })
    }

    /// A copy of a file without secrets, which was searched again. It has no name, so nothing is
    /// left of it.
    fn copy(&self, file: &SessionFile) -> Result<File, Error> {
        let known = self.looked.files.iter().find(|(_, path, _)| *path == file.path);
        let lines = known.map(|(.., found)| found.lines.as_slice());
        let mut copy = tempfile::tempfile().map_err(Error::unwritable("a temporary file"))?;
        redact::write_to(file.thing, (&file.path, lines), &self.cover, &mut copy)?;
        copy.rewind().map_err(Error::unwritable("a temporary file"))?;
        Ok(copy)
    }
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
        Thing::Task => format!("tasks/{}", last()?),
        Thing::PastedImage => format!("image-cache/{}", last()?),
        thing if !thing.goes_along() => return None,
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
    sum: Sum,
    size: u64,
}

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.sum.write_all(&bytes[..count])?;
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
