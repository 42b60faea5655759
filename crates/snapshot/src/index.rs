//! The marks of the last image of a folder, kept between processes: what has the same mark is not
//! read again.
//!
//! Invariant: an index that is damaged, or whose contents are not in the store any more, counts as
//! missing; then everything is read again.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::hash::Hash;
use crate::store::Store;
use crate::tree::{Folder, Item, What};

const MAGIC: &[u8] = b"qi1";
const MOST: u64 = 1 << 28;

fn file(store: &Store, root: &Path) -> PathBuf {
    let name = Hash::of(root.as_os_str().as_bytes()).to_string();
    store.folder().join("marks").join(name)
}

/// Writes the marks of an image.
pub(crate) fn save(store: &Store, root: &Path, image: &Arc<Folder>) -> io::Result<()> {
    fn add(folder: &Folder, bytes: &mut Vec<u8>) {
        for item in &folder.items {
            bytes.extend(item.mark.to_le_bytes());
            if let What::Folder(below) = &item.what {
                add(below, bytes);
            }
        }
    }
    let mut bytes = MAGIC.to_vec();
    bytes.extend(image.id.0);
    add(image, &mut bytes);
    bytes.extend(Hash::of(&bytes).0);
    (store.hook)("write the marks")?;
    files::put(&file(store, root), &bytes, files::Durability::Process)
}

/// The image that was saved last, with its marks. Where one thing is damaged, others may be: then
/// everything that is stored is looked at.
pub(crate) fn load(store: &Store, root: &Path) -> Option<Arc<Folder>> {
    let loaded = read(store, root);
    if loaded.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
        // What cannot be read now is found when it is needed.
        let _ = store.look_over(0, None);
    }
    loaded.ok()
}

fn read(store: &Store, root: &Path) -> io::Result<Arc<Folder>> {
    let bytes = files::read(file(store, root), MOST)?;
    let (id, marks) = parse(&bytes).ok_or(io::ErrorKind::InvalidData)?;
    let image = Folder::load(store, id)?;
    let mut marks = marks.chunks_exact(8);
    let image = marked(store, &image, &mut marks)?;
    if marks.next().is_none() { Ok(image) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn parse(bytes: &[u8]) -> Option<(Hash, &[u8])> {
    let (body, seal) = bytes.split_last_chunk::<{ Hash::LENGTH }>()?;
    let body = body.strip_prefix(MAGIC).filter(|_| Hash::of(body).0 == *seal)?;
    let (id, marks) = body.split_first_chunk::<{ Hash::LENGTH }>()?;
    Some((Hash(*id), marks))
}

fn marked(
    store: &Store,
    folder: &Folder,
    marks: &mut std::slice::ChunksExact<'_, u8>,
) -> io::Result<Arc<Folder>> {
    let mut items = Vec::with_capacity(folder.items.len());
    for item in &folder.items {
        let mark = marks.next().and_then(|mark| mark.first_chunk());
        let mark = u64::from_le_bytes(*mark.ok_or(io::ErrorKind::InvalidData)?);
        let what = match &item.what {
            What::Folder(below) => What::Folder(marked(store, below, marks)?),
            What::File { hash, .. } if !store.has(*hash) => {
                return Err(io::ErrorKind::NotFound.into());
            }
            what => what.clone(),
        };
        items.push(Item { name: item.name.clone(), mark, mode: item.mode, what });
    }
    Ok(Arc::new(Folder { mode: folder.mode, id: folder.id, items }))
}
