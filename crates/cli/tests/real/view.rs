//! The viewer in a real Chromium: `view.py` opens every page, attacks it, and opens files from
//! disk.
//!
//! `./test real` installs Chromium, playwright and axe-core where it may.

use std::path::Path;
use std::process::Command;

#[test]
fn in_a_browser() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let place = root.join("target/real/viewer");
    let work = tempfile::tempdir().unwrap();
    let status = Command::new(place.join("venv/bin/python"))
        .arg(root.join("crates/cli/tests/real/view.py"))
        .arg(env!("CARGO_BIN_EXE_quipu"))
        .arg(std::env::var("CHROMIUM").expect("`./test real` sets it"))
        .arg(work.path().join("lab"))
        .arg(place.join("node_modules/axe-core/axe.min.js"))
        .args(["--shots".as_ref(), place.join("shots").as_os_str()])
        .status()
        .expect("`./test real` installs it");
    assert!(status.success(), "the viewer does not hold in a browser");
}
