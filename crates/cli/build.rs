//! Packs the sample sessions: they are text that compresses to a sixth.
#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a build that cannot go on has to stop"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/home");
    println!("cargo::rerun-if-changed={}", home.display());
    let mut files = Vec::new();
    collect(&home, &mut files);
    files.sort();
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("samples.gz");
    let out = fs::File::create(out).expect("the folder for output can be written");
    let mut packed = GzEncoder::new(out, Compression::best());
    for path in files {
        let name = path.strip_prefix(&home).expect("it is below").to_str().expect("a plain name");
        let name = name.replace('\\', "/");
        put(&mut packed, name.as_bytes());
        put(&mut packed, &fs::read(&path).expect("a sample can be read"));
    }
    packed.finish().expect("the disk has room");
}

fn put(packed: &mut impl Write, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("samples are small").to_le_bytes();
    packed.write_all(&length).and_then(|()| packed.write_all(bytes)).expect("the disk has room");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("samples are in the repository").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
