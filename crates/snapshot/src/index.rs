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

/// The image that was saved last, with its marks.
pub(crate) fn load(store: &Store, root: &Path) -> Option<Arc<Folder>> {
    let bytes = files::read(file(store, root), MOST).ok()?;
    let (body, seal) = bytes.split_last_chunk::<{ Hash::LENGTH }>()?;
    if Hash::of(body).0 != *seal {
        return None;
    }
    let (id, marks) = body.strip_prefix(MAGIC)?.split_first_chunk::<{ Hash::LENGTH }>()?;
    let image = Folder::load(store, Hash(*id)).ok()?;
    let mut marks = marks.chunks_exact(8);
    let image = marked(store, &image, &mut marks)?;
    marks.next().is_none().then_some(image)
}

fn marked(
    store: &Store,
    folder: &Folder,
    marks: &mut std::slice::ChunksExact<'_, u8>,
) -> Option<Arc<Folder>> {
    let mut items = Vec::with_capacity(folder.items.len());
    for item in &folder.items {
        let mark = u64::from_le_bytes(*marks.next()?.first_chunk()?);
        let what = match &item.what {
            What::Folder(below) => What::Folder(marked(store, below, marks)?),
            What::File { hash, .. } if !store.has(*hash) => return None,
            what => what.clone(),
        };
        items.push(Item { name: item.name.clone(), mark, mode: item.mode, what });
    }
    Some(Arc::new(Folder { mode: folder.mode, id: folder.id, items }))
}
