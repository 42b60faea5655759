//! Images for a prompt: a file whose path is pasted, or what is in the clipboard.
//!
//! Invariants: an image is known by its first bytes, not by its name; what asks the clipboard is
//! bounded in time and size, and runs in a thread.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ::console::News;
use ::console::composer::Image;
use ::console::text::{line, look};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::backend::Backend;

/// The largest image that is sent.
const LARGEST: u64 = 5 << 20;
/// How long a program that reads the clipboard may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// The programs that read an image from the clipboard: Wayland, X11, macOS.
const PROGRAMS: [&[&str]; 4] = [
    &["wl-paste", "--no-newline", "--type", "image/png"],
    &["xclip", "-selection", "clipboard", "-target", "image/png", "-out"],
    &["pngpaste", "-"],
    &["osascript", "-e", "get the clipboard as «class PNGf»"],
];

/// The media type of an image that models accept.
fn media(bytes: &[u8]) -> Option<&'static str> {
    Some(match bytes {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return None,
    })
}

fn image(bytes: &[u8]) -> Option<Image> {
    Some(Image { media: media(bytes)?.to_owned(), data: STANDARD.encode(bytes) })
}

/// The image in a file that is named by a pasted text.
pub(super) fn in_file(folder: &Path, pasted: &str) -> Option<Image> {
    let name = pasted.trim();
    if name.is_empty() || name.contains('\n') {
        return None;
    }
    let name = name.trim_matches(['\'', '"']).replace("\\ ", " ");
    let name = name.strip_prefix("file://").unwrap_or(&name);
    // Only such names are looked at: a word that is pasted opens no file.
    let kinds = ["png", "jpg", "jpeg", "gif", "webp"];
    let kind = Path::new(name).extension()?.to_str()?.to_ascii_lowercase();
    if !kinds.contains(&kind.as_str()) {
        return None;
    }
    image(&files::read(folder.join(name), LARGEST).ok()?)
}

impl Backend<'_> {
    /// Takes the image in the clipboard into the composer.
    pub(super) fn paste_clipboard(&self) {
        let (tell, waker) = (self.later.0.clone(), self.waker.clone());
        thread::spawn(move || {
            let found = PROGRAMS.iter().find_map(|words| image(&decoded(printed(words)?)));
            let none = "there is no image in the clipboard (wl-paste, xclip or pngpaste reads it)";
            let news = match found {
                Some(image) => News::Image(image),
                None => News::Lines(vec![line(look::DIM, none)]),
            };
            let _ = tell.send(news);
            if let Some(waker) = waker {
                waker.wake();
            }
        });
    }
}

/// What a program prints; None if there is no such program, it fails, or it takes too long.
fn printed(words: &[&str]) -> Option<Vec<u8>> {
    let (program, args) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let out = child.stdout.take()?;
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        // Twice as much, for what is printed as digits.
        let _ = out.take(2 * LARGEST + 100).read_to_end(&mut bytes);
        bytes
    });
    let begun = Instant::now();
    while !reader.is_finished() && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
    let is_done = reader.is_finished();
    if !is_done {
        let _ = child.kill();
    }
    let is_well = child.wait().is_ok_and(|status| status.success());
    let bytes = reader.join().ok()?;
    (is_done && is_well && u64::try_from(bytes.len()).ok()? <= 2 * LARGEST).then_some(bytes)
}

/// An image that is printed as digits, as `osascript` does: `«data PNGf89504E47…»`.
fn decoded(bytes: Vec<u8>) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(&bytes) else { return bytes };
    let digits = text.trim().strip_prefix("«data PNGf").and_then(|rest| rest.strip_suffix('»'));
    let Some(digits) = digits.filter(|digits| digits.is_ascii()) else { return bytes };
    let pairs = (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16));
    pairs.collect::<Result<_, _>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_their_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let png = b"\x89PNG\r\n\x1a\nrest";
        for (name, bytes) in [("a b.png", &png[..]), ("text.png", b"no image")] {
            files::put(&folder.path().join(name), bytes, files::Durability::Process).unwrap();
        }
        for pasted in ["a b.png", "'a b.png'", "a\\ b.png", "  a b.png\n"] {
            let found = in_file(folder.path(), pasted).unwrap();
            assert_eq!((found.media.as_str(), found.data), ("image/png", STANDARD.encode(png)));
        }
        for pasted in ["text.png", "none.png", "a b", "a b.png\nmore", ""] {
            assert_eq!(in_file(folder.path(), pasted), None, "{pasted:?}");
        }
        assert_eq!(decoded("«data PNGf89504E47»\n".into()), b"\x89PNG");
        assert_eq!(decoded("plain".into()), b"plain");
        assert_eq!(printed(&["printf", "x"]), Some(b"x".to_vec()));
        assert_eq!(printed(&["false"]), None);
        assert_eq!(printed(&["quipu-there-is-no-such-program"]), None);
    }
}
