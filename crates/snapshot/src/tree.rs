//! An image of a folder: what stands at every name in it, and in the folders below.
//!
//! A folder's listing is a content like that of a file, with a name of its own; a listing names
//! those of the folders below. So an image is one name, what did not change is shared between
//! images, and two images are compared without looking into what is equal. Invariants: what is
//! encoded decodes to the same; a listing that is not exactly what `Folder::encode` writes is
//! refused; no name in it leads out of its folder.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crate::hash::Hash;
use crate::store::Store;

/// Folders below folders, at most: deeper ones are damage.
pub(crate) const DEEPEST: usize = 400;
const MAGIC: &[u8] = b"qt1";

/// A folder, and what is below it.
#[derive(Debug)]
pub struct Folder {
    /// The permission bits.
    pub mode: u32,
    /// The name of its listing.
    pub id: Hash,
    /// Sorted by name.
    pub items: Vec<Item>,
}

/// What stands at a name.
#[derive(Clone, Debug)]
pub struct Item {
    pub name: Box<[u8]>,
    /// Changes when the file may have; 0 if that cannot be known.
    pub(crate) mark: u64,
    pub mode: u32,
    pub what: What,
}

/// The kinds of things.
#[derive(Clone, Debug)]
pub enum What {
    File {
        size: u64,
        hash: Hash,
    },
    /// A symbolic link, and what is in it.
    Link(Box<[u8]>),
    Folder(Arc<Folder>),
    /// A file that git names after its content; the vault has it.
    Object,
    /// Not covered.
    Outside(Why, u64),
}

/// Why something is not covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// A folder that git ignores.
    Ignored,
    /// A file over the limit.
    Large,
    /// A pipe, a socket or a device.
    Special,
    /// It cannot be read.
    Unreadable,
}

impl Why {
    const ALL: [Why; 4] = [Why::Ignored, Why::Large, Why::Special, Why::Unreadable];

    /// A few words for people.
    pub fn words(self) -> &'static str {
        match self {
            Why::Ignored => "a folder that git ignores",
            Why::Large => "over the size limit",
            Why::Special => "a pipe, socket or device",
            Why::Unreadable => "cannot be read",
        }
    }
}

/// What stands at one path, without what is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    File { mode: u32, size: u64, hash: Hash },
    Link(Box<[u8]>),
    Folder { mode: u32 },
    Object,
    Outside(Why, u64),
}

impl Item {
    /// Its state, without what is below it.
    pub fn state(&self) -> State {
        match &self.what {
            What::File { size, hash } => State::File { mode: self.mode, size: *size, hash: *hash },
            What::Link(target) => State::Link(target.clone()),
            What::Folder(folder) => State::Folder { mode: folder.mode },
            What::Object => State::Object,
            What::Outside(why, size) => State::Outside(*why, *size),
        }
    }

    /// Whether there may be something below it that is not known.
    fn hides(&self) -> bool {
        matches!(self.what, What::Outside(Why::Ignored | Why::Unreadable, _))
    }
}

impl PartialEq for What {
    fn eq(&self, other: &What) -> bool {
        match (self, other) {
            (What::File { size, hash }, What::File { size: other_size, hash: other_hash }) => {
                (size, hash) == (other_size, other_hash)
            }
            (What::Link(one), What::Link(other)) => one == other,
            (What::Folder(one), What::Folder(other)) => one.id == other.id,
            (What::Object, What::Object) => true,
            (What::Outside(why, size), What::Outside(other_why, other_size)) => {
                (why, size) == (other_why, other_size)
            }
            _ => false,
        }
    }
}

impl Folder {
    /// The item with this name.
    pub fn get(&self, name: &[u8]) -> Option<&Item> {
        let at = self.items.binary_search_by(|item| (*item.name).cmp(name)).ok()?;
        self.items.get(at)
    }

    /// The listing as bytes.
    pub(crate) fn encode(mode: u32, items: &[Item]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(short(mode));
        for item in items {
            let kind = match &item.what {
                What::File { .. } => 1,
                What::Link(_) => 2,
                What::Folder(_) => 3,
                What::Object => 4,
                What::Outside(..) => 5,
            };
            bytes.push(kind);
            bytes.extend(short(item.mode));
            bytes.extend(long(&item.name));
            match &item.what {
                What::File { size, hash } => {
                    bytes.extend(size.to_le_bytes());
                    bytes.extend(hash.0);
                }
                What::Link(target) => bytes.extend(long(target)),
                What::Folder(folder) => bytes.extend(folder.id.0),
                What::Object => {}
                What::Outside(why, size) => {
                    let at = Why::ALL.iter().position(|one| one == why).unwrap_or(0);
                    bytes.push(u8::try_from(at).unwrap_or(0));
                    bytes.extend(size.to_le_bytes());
                }
            }
        }
        bytes
    }

    /// Reads an image from the store.
    pub fn load(store: &Store, id: Hash) -> io::Result<Arc<Folder>> {
        Folders::new(store).load(id)
    }
}

/// Images of a store: a folder is read once, however many of them have it.
#[derive(Debug)]
pub struct Folders<'a> {
    store: &'a Store,
    known: RefCell<HashMap<Hash, Arc<Folder>>>,
}

impl Folders<'_> {
    /// Nothing is read yet.
    pub fn new(store: &Store) -> Folders<'_> {
        Folders { store, known: RefCell::default() }
    }

    /// Reads an image.
    pub fn load(&self, id: Hash) -> io::Result<Arc<Folder>> {
        self.below(id, 0)
    }

    /// What is in this image need not be read.
    pub fn know(&self, image: &Arc<Folder>) {
        if self.known.borrow_mut().insert(image.id, Arc::clone(image)).is_none() {
            for item in &image.items {
                if let What::Folder(below) = &item.what {
                    self.know(below);
                }
            }
        }
    }

    fn below(&self, id: Hash, depth: usize) -> io::Result<Arc<Folder>> {
        if let Some(folder) = self.known.borrow().get(&id) {
            return Ok(Arc::clone(folder));
        }
        if depth > DEEPEST {
            return Err(damaged(id));
        }
        let bytes = self.store.get(id)?;
        let (mode, listed) = decode(&bytes).ok_or_else(|| damaged(id))?;
        let mut items = Vec::with_capacity(listed.len());
        for (item, below) in listed {
            let what = match below {
                Some(below) => What::Folder(self.below(below, depth + 1)?),
                None => item.what,
            };
            items.push(Item { what, ..item });
        }
        let folder = Arc::new(Folder { mode, id, items });
        self.known.borrow_mut().insert(id, Arc::clone(&folder));
        Ok(folder)
    }
}

fn short(number: u32) -> [u8; 2] {
    u16::try_from(number & 0o7777).unwrap_or_default().to_le_bytes()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    let mut all = length.to_le_bytes().to_vec();
    all.extend(&bytes[..usize::from(length)]);
    all
}

pub(crate) fn damaged(id: Hash) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the listing {id} is damaged"))
}

/// Items, and for folders the names of their listings.
type Listed = Vec<(Item, Option<Hash>)>;

/// Reads a listing: the mode of the folder, and its items.
pub(crate) fn decode(bytes: &[u8]) -> Option<(u32, Listed)> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mode = u32::from(u16::from_le_bytes(take(&mut rest)?));
    let mut items: Listed = Vec::new();
    while !rest.is_empty() {
        let [kind] = take(&mut rest)?;
        let mode = u32::from(u16::from_le_bytes(take(&mut rest)?));
        let name: Box<[u8]> = taken(&mut rest)?.into();
        let is_name = !name.is_empty() && &*name != b"." && &*name != b"..";
        if !is_name || name.contains(&b'/') || name.contains(&0) {
            return None;
        }
        if items.last().is_some_and(|(last, _)| last.name >= name) {
            return None;
        }
        let mut below = None;
        let what = match kind {
            1 => {
                let size = u64::from_le_bytes(take(&mut rest)?);
                What::File { size, hash: Hash(take(&mut rest)?) }
            }
            2 => What::Link(taken(&mut rest)?.into()),
            3 => {
                below = Some(Hash(take(&mut rest)?));
                What::Object
            }
            4 => What::Object,
            5 => {
                let [why] = take(&mut rest)?;
                let why = *Why::ALL.get(usize::from(why))?;
                What::Outside(why, u64::from_le_bytes(take(&mut rest)?))
            }
            _ => return None,
        };
        items.push((Item { name, mark: 0, mode, what }, below));
    }
    Some((mode, items))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*first)
}

fn taken<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::from(u16::from_le_bytes(take(rest)?));
    let (first, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(first)
}

/// A path below a root, as bytes, with `/` between names.
pub type Place = Vec<u8>;

/// A path that has changed: before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub place: Place,
    pub before: Option<State>,
    pub after: Option<State>,
}

/// What differs between two images, in the order of paths; a folder comes before what is below it.
/// The root itself has an empty path. Of a folder that one of them does not cover nothing is known
/// but that: what is in it is neither new nor gone.
pub fn differences(before: &Arc<Folder>, after: &Arc<Folder>) -> Vec<Change> {
    let mut found = Vec::new();
    if before.mode != after.mode {
        found.push(Change {
            place: Vec::new(),
            before: Some(State::Folder { mode: before.mode }),
            after: Some(State::Folder { mode: after.mode }),
        });
    }
    compare(&[], Some(before), Some(after), &mut found);
    found
}

fn compare(
    place: &[u8],
    before: Option<&Arc<Folder>>,
    after: Option<&Arc<Folder>>,
    found: &mut Vec<Change>,
) {
    if let (Some(one), Some(other)) = (before, after)
        && one.id == other.id
    {
        return;
    }
    let none: &[Item] = &[];
    let mut left = before.map_or(none, |folder| &folder.items).iter().peekable();
    let mut right = after.map_or(none, |folder| &folder.items).iter().peekable();
    loop {
        let (one, other) = match (left.peek(), right.peek()) {
            (None, None) => return,
            (Some(_), None) => (left.next(), None),
            (None, Some(_)) => (None, right.next()),
            (Some(one), Some(other)) => match one.name.cmp(&other.name) {
                std::cmp::Ordering::Less => (left.next(), None),
                std::cmp::Ordering::Greater => (None, right.next()),
                std::cmp::Ordering::Equal => (left.next(), right.next()),
            },
        };
        let name = one.or(other).map(|item| &item.name[..]).unwrap_or_default();
        let here = join(place, name);
        let (was, is) = (one.map(Item::state), other.map(Item::state));
        if was != is {
            found.push(Change { place: here.clone(), before: was, after: is });
        }
        if [one, other].into_iter().flatten().any(Item::hides) {
            continue;
        }
        let below = |item: Option<&Item>| match item.map(|item| &item.what) {
            Some(What::Folder(folder)) => Some(Arc::clone(folder)),
            _ => None,
        };
        let (was, is) = (below(one), below(other));
        if was.is_some() || is.is_some() {
            compare(&here, was.as_ref(), is.as_ref(), found);
        }
    }
}

/// A name in a folder.
pub(crate) fn join(place: &[u8], name: &[u8]) -> Place {
    if place.is_empty() {
        return name.to_vec();
    }
    let mut all = Vec::with_capacity(place.len() + 1 + name.len());
    all.extend(place);
    all.push(b'/');
    all.extend(name);
    all
}

/// What stands at a path of an image. A path below a folder that is not covered is not covered.
pub fn find(root: &Arc<Folder>, place: &[u8]) -> Option<State> {
    let mut folder = Arc::clone(root);
    if place.is_empty() {
        return Some(State::Folder { mode: folder.mode });
    }
    let mut names = place.split(|byte| *byte == b'/').peekable();
    while let Some(name) = names.next() {
        let item = folder.get(name)?;
        let next = match &item.what {
            _ if names.peek().is_none() => return Some(item.state()),
            What::Folder(next) => Arc::clone(next),
            _ if item.hides() => return Some(item.state()),
            _ => return None,
        };
        folder = next;
    }
    None
}

/// Everything that is not covered, with its path.
pub fn outside(root: &Arc<Folder>) -> Vec<(Place, Why, u64)> {
    fn walk(place: &[u8], folder: &Folder, found: &mut Vec<(Place, Why, u64)>) {
        for item in &folder.items {
            match &item.what {
                What::Folder(below) => walk(&join(place, &item.name), below, found),
                What::Outside(why, size) => found.push((join(place, &item.name), *why, *size)),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    walk(&[], root, &mut found);
    found
}
