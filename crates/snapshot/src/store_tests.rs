use proptest::prelude::*;

use super::*;
use crate::tree::{Item, What, decode};

fn put(store: &Store, contents: &[&[u8]]) {
    let (mut raw, mut parts) = (Vec::new(), Vec::new());
    for content in contents {
        parts.push((Hash::of(content), raw.len() as u64, content.len() as u64));
        raw.extend_from_slice(content);
    }
    store.put(&parts, &raw).unwrap();
}

#[test]
fn what_is_stored_is_read_again_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), no_hook()).unwrap();
    put(&store, &[b"one", b"", b"three"]);
    put(&store, &[b"alone"]);
    let other = Store::open(folder.path(), no_hook()).unwrap();
    for content in [&b"one"[..], b"", b"three", b"alone"] {
        assert_eq!(other.get(Hash::of(content)).unwrap(), content);
    }
    assert_eq!(other.get(Hash::of(b"x")).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_half_written_end_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), no_hook()).unwrap();
    put(&store, &[b"first"]);
    put(&store, &[b"second"]);
    drop(store);
    let packs = folder.path().join("packs");
    let find = |ending: &str| {
        let mut found = fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path());
        found.find(|path| path.extension().unwrap() == ending).unwrap()
    };
    let (index, pack) = (fs::read(find("idx")).unwrap(), fs::read(find("pack")).unwrap());
    for length in 0..index.len() {
        fs::write(find("idx"), &index[..length]).unwrap();
        let store = Store::open(folder.path(), no_hook()).unwrap();
        assert_eq!(store.has(Hash::of(b"first")), length >= index.len() / 2);
        assert!(!store.has(Hash::of(b"second")));
    }
    fs::write(find("idx"), &index).unwrap();
    for length in 0..pack.len() {
        fs::write(find("pack"), &pack[..length]).unwrap();
        let store = Store::open(folder.path(), no_hook()).unwrap();
        assert!(!store.has(Hash::of(b"second")));
    }
}

proptest! {
    #[test]
    fn a_listing_is_refused_or_says_the_same_again(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut all = b"qt1".to_vec();
        all.extend(bytes);
        if let Some((mode, items)) = decode(&all)
            && items.iter().all(|(_, below)| below.is_none())
        {
            let items: Vec<Item> = items.into_iter().map(|(item, _)| item).collect();
            let again = crate::tree::Folder::encode(mode, &items);
            let (other, listed) = decode(&again).unwrap();
            prop_assert_eq!(other, mode & 0o7777);
            let same = listed.iter().zip(&items).all(|((one, _), two)| one.what == two.what && one.name == two.name);
            prop_assert!(same);
            prop_assert!(!items.iter().any(|item| matches!(item.what, What::Folder(_))));
        }
    }
}
