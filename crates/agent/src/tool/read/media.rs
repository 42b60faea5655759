//! Gives pictures and documents to the model, as base64: documents as they are, and pictures unless
//! they have to be made smaller.
//!
//! Invariant: nothing is given that the API would refuse by itself, because then the conversation
//! could not continue: the limits here are the API's limits. The total of a conversation is not
//! checked (a request has at most 32 MB, and if it has more than twenty pictures, their sides have
//! at most 2,000 pixels).

use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use imagesize::ImageType;
use serde::Serialize;
use transcript::client::change::smaller_image;

use super::ReadDetail;
use super::pages::{Pages, wanted};
use crate::tool::write::unreadable;
use crate::tool::{Answer, Content, Trouble, raw};

/// The largest picture, in bytes: 5 MB as base64.
const PICTURE: u64 = 5 * 1024 * 1024 / 4 * 3;

/// The longest side of a picture, in pixels.
const SIDE: usize = 8_000;

/// The largest picture that is made smaller, in bytes.
const LARGE: u64 = 64 << 20;

/// The longest side of a picture that was made smaller, in pixels: more of them fit into a request.
const SMALLER: u32 = 2_000;

/// The largest document, in bytes.
const DOCUMENT: u64 = 20 << 20;

/// The most pages of a document.
const PAGES: usize = 100;

/// A kind of file that is given unchanged.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A picture of a media type that the API accepts.
    Picture(&'static str),
    /// A document.
    Pdf,
}

/// The kind of a file that begins with these bytes.
pub(super) fn kind(head: &[u8]) -> Option<Kind> {
    if head.starts_with(b"%PDF-") {
        return Some(Kind::Pdf);
    }
    let media_type = match imagesize::image_type(head).ok()? {
        ImageType::Png => "image/png",
        ImageType::Jpeg => "image/jpeg",
        ImageType::Gif => "image/gif",
        ImageType::Webp => "image/webp",
        _ => return None,
    };
    Some(Kind::Picture(media_type))
}

/// Such a file as a result; of a document, `wanted` names the pages.
pub(super) fn read(
    kind: Kind,
    path: &Path,
    file: impl Read,
    (size, wanted): (u64, &str),
) -> Result<Answer, Trouble> {
    let (most, what) = match kind {
        Kind::Picture(_) => (LARGE, "picture"),
        Kind::Pdf if wanted.is_empty() => (DOCUMENT, "document"),
        Kind::Pdf => (LARGE, "document"),
    };
    let too_large = || too_large(what, size, most);
    if size > most {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // It may have grown since.
    file.take(most + 1).read_to_end(&mut bytes).map_err(|why| unreadable(path, &why))?;
    if bytes.len() as u64 > most {
        return Err(too_large());
    }
    match kind {
        Kind::Picture(_) if !wanted.is_empty() => Err(Trouble::wrong(NO_PAGES)),
        Kind::Picture(media_type) => picture(media_type, &bytes),
        Kind::Pdf => pdf(path, &bytes, wanted),
    }
}

fn too_large(what: &str, size: u64, most: u64) -> Trouble {
    let (size, most) = (amount(size), amount(most));
    Trouble::failed(format!("The {what} is too large: {size}, at most {most} can be read."))
}

#[derive(Serialize)]
struct Block<'a> {
    r#type: &'a str,
    source: Source<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Source<'a> {
    Picture { r#type: &'a str, data: &'a str, media_type: &'a str },
    Pdf { r#type: &'a str, media_type: &'a str, data: &'a str },
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'a str,
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Picture<'a> {
    base64: &'a str,
    r#type: &'a str,
    original_size: usize,
    dimensions: Dimensions,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Dimensions {
    original_width: usize,
    original_height: usize,
    display_width: usize,
    display_height: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pdf<'a> {
    file_path: &'a str,
    base64: &'a str,
    original_size: usize,
}

fn picture(media_type: &str, bytes: &[u8]) -> Result<Answer, Trouble> {
    let size = imagesize::blob_size(bytes)
        .map_err(|why| Trouble::failed(format!("The picture is broken: {why}")))?;
    let is_long = size.width.max(size.height) > SIDE || size.width.min(size.height) == 0;
    let mut shown = (size.width, size.height);
    let (media_type, data) = if is_long || bytes.len() as u64 > PICTURE {
        let smaller = smaller_image(bytes, SMALLER);
        let (media_type, data) = smaller.ok_or_else(|| {
            if !is_long {
                return too_large("picture", bytes.len() as u64, PICTURE);
            }
            Trouble::failed(format!(
                "The picture has {}x{} pixels, at most {SIDE}x{SIDE} can be read.",
                size.width, size.height
            ))
        })?;
        let made = STANDARD.decode(&data).unwrap_or_default();
        if let Ok(made) = imagesize::blob_size(&made) {
            shown = (made.width, made.height);
        }
        (media_type, data)
    } else {
        (media_type, STANDARD.encode(bytes))
    };
    let source = Source::Picture { r#type: "base64", data: &data, media_type };
    let detail = Picture {
        base64: &data,
        r#type: media_type,
        original_size: bytes.len(),
        dimensions: Dimensions {
            original_width: size.width,
            original_height: size.height,
            display_width: shown.0,
            display_height: shown.1,
        },
    };
    Ok(Answer {
        content: Content::Blocks(vec![raw(&Block { r#type: "image", source })]),
        is_error: None,
        detail: raw(&ReadDetail { r#type: "image", file: detail }),
    })
}

fn pdf(path: &Path, bytes: &[u8], wanted: &str) -> Result<Answer, Trouble> {
    if has(bytes, b"/Encrypt") {
        return Err(Trouble::failed("The document is encrypted. Decrypt it with Bash and qpdf."));
    }
    let mut about = amount(bytes.len() as u64);
    let part = if wanted.is_empty() {
        let pages = pages(bytes);
        if pages > PAGES {
            return Err(Trouble::failed(format!(
                "The document has {pages} pages, at most {PAGES} can be read. Name some of them with `pages`, or read its text with Bash and pdftotext."
            )));
        }
        None
    } else {
        let part = part(bytes, wanted)?;
        about = format!("pages {wanted}, {}", amount(part.len() as u64));
        Some(part)
    };
    let bytes = part.as_deref().unwrap_or(bytes);
    let name = path.to_string_lossy();
    let data = STANDARD.encode(bytes);
    let caption = format!("PDF file read: {name} ({about})");
    let source = Source::Pdf { r#type: "base64", media_type: "application/pdf", data: &data };
    let blocks = vec![
        raw(&Text { r#type: "text", text: &caption }),
        raw(&Block { r#type: "document", source }),
    ];
    let detail = Pdf { file_path: &name, base64: &data, original_size: bytes.len() };
    Ok(Answer {
        content: Content::Blocks(blocks),
        is_error: None,
        detail: raw(&ReadDetail { r#type: "pdf", file: detail }),
    })
}

/// A document with the pages that are wanted.
fn part(bytes: &[u8], text: &str) -> Result<Vec<u8>, Trouble> {
    let found = Pages::find(bytes).ok_or_else(|| {
        Trouble::failed("The pages of this document cannot be told apart. Take some of them out with Bash and qpdf, or leave `pages` out.")
    })?;
    let count = found.count();
    let pages = wanted(text, count, PAGES).ok_or_else(|| {
        Trouble::wrong(format!("There are no pages `{text}`: the document has {count}, and the form is `3`, `1-5` or `2,4-6`."))
    })?;
    if pages.len() > PAGES {
        return Err(Trouble::wrong(format!("At most {PAGES} pages can be read at once.")));
    }
    let part = found.only(&pages).unwrap_or_default();
    if part.len() as u64 > DOCUMENT {
        return Err(too_large("part", part.len() as u64, DOCUMENT));
    }
    Ok(part)
}

/// Only documents have pages.
pub(super) const NO_PAGES: &str = "Only PDFs have pages: leave `pages` out.";

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The number of pages of a document; of one that is not understood, of those that can be seen.
fn pages(bytes: &[u8]) -> usize {
    if let Some(found) = Pages::find(bytes) {
        return found.count();
    }
    let types = bytes.windows(5).enumerate().filter(|(_, window)| *window == b"/Type");
    let is_page = |at: usize| {
        let name = bytes[at + 5..].trim_ascii_start().strip_prefix(b"/Page");
        name.is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
    };
    types.filter(|(at, _)| is_page(*at)).count()
}

/// A number of bytes for people.
fn amount(bytes: u64) -> String {
    match bytes >> 10 {
        kilo @ 0..1024 => format!("{kilo}KB"),
        kilo => format!("{}.{}MB", kilo >> 10, (kilo & 1023) * 10 / 1024),
    }
}
