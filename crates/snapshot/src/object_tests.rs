use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::is_sound;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_object = |name: &str| {
            let ending = name.rsplit('.').next().unwrap();
            name.len() > 30 && (name.len() < 64 || matches!(ending, "pack" | "idx" | "rev"))
        };
        if path.is_dir() {
            files(&path, found);
        } else if is_object(&path.file_name().unwrap().to_string_lossy()) {
            found.push(path);
        }
    }
}

/// Of both kinds of repositories, loose and packed: what git wrote is sound, and no longer if a
/// byte of it differs, is missing, or is too much.
#[test]
fn one_byte_makes_a_difference() {
    for (format, pack) in [("sha1", "true"), ("sha1", "git gc -q"), ("sha256", "git gc -q")] {
        let temp = tempfile::tempdir().unwrap();
        let commands = format!(
            "git init -q --object-format={format} . && git config user.name a && \
             git config user.email a@b && seq 3000 > f && git add f && git commit -qm m && {pack}"
        );
        let done = Command::new("sh").args(["-c", &commands]).current_dir(temp.path()).status();
        assert!(done.unwrap().success());
        let mut found = Vec::new();
        files(&temp.path().join(".git/objects"), &mut found);
        assert!(found.len() >= 2, "{found:?}");
        for path in found {
            assert!(is_sound(&path), "{}", path.display());
            let bytes = fs::read(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            let mut more = bytes.clone();
            more.push(0);
            let mut wrong = vec![more, bytes[..bytes.len() - 1].to_vec(), Vec::new()];
            for at in [0, bytes.len() / 2, bytes.len() - 1] {
                let mut other = bytes.clone();
                other[at] ^= 0x11;
                wrong.push(other);
            }
            for bytes in wrong {
                fs::write(&path, bytes).unwrap();
                assert!(!is_sound(&path), "{}", path.display());
            }
        }
    }
}
