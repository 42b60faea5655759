//! Makes images small enough for the API.

use std::io::Cursor;

use ::image::{ImageFormat, ImageReader, Limits, imageops::FilterType};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::client::check::LARGEST_IMAGE;
use crate::format::content::Block;
use crate::format::json::{Json, quote};

/// The result of shrinking an image.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shrunk {
    /// It is already small enough.
    Fits,
    /// A block with a smaller image.
    To(Vec<u8>),
    /// The image cannot be read, or is too large to be read here.
    Not,
}

/// How much memory an image may take while it is made smaller.
const HELD: u64 = 256 << 20;

/// How often an image is halved before giving up.
const HALVINGS: usize = 6;

/// Makes an image with no side longer than `longest`, and no larger in base64 than the API accepts.
pub(super) fn smaller(block: &Block<'_>, longest: u32) -> Shrunk {
    let found = block.get("source").and_then(Json::object);
    let Some(source) = found else { return Shrunk::Not };
    if source.get("type").is_none_or(|kind| !kind.is("base64")) {
        return Shrunk::Fits;
    }
    let data = source.text("data").unwrap_or_default();
    let Ok(bytes) = STANDARD.decode(data.as_bytes()) else { return Shrunk::Not };
    let Some(format) = ::image::guess_format(&bytes).ok() else { return Shrunk::Not };
    let says = source.text("media_type").unwrap_or_default();
    let size = imagesize::blob_size(&bytes).ok();
    let is_short = size.is_some_and(|size| size.width.max(size.height) <= longest as usize);
    if is_short && data.len() as u64 <= LARGEST_IMAGE {
        // Only the declared type can be wrong.
        let is_taken = matches!(
            format,
            ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::Gif | ImageFormat::WebP
        );
        return match (is_taken, format.to_mime_type()) {
            (true, is) if is == says => Shrunk::Fits,
            (true, is) => Shrunk::To(with(block, is, &data)),
            (false, _) => encoded(block, &bytes, longest),
        };
    }
    encoded(block, &bytes, longest)
}

fn encoded(block: &Block<'_>, bytes: &[u8], longest: u32) -> Shrunk {
    let mut limits = Limits::default();
    limits.max_alloc = Some(HELD);
    let Ok(mut reader) = ImageReader::new(Cursor::new(bytes)).with_guessed_format() else {
        return Shrunk::Not;
    };
    reader.limits(limits);
    let Ok(mut picture) = reader.decode() else { return Shrunk::Not };
    let mut side = longest.min(picture.width().max(picture.height()));
    for _ in 0..HALVINGS {
        if picture.width().max(picture.height()) > side {
            picture = picture.resize(side, side, FilterType::Triangle);
        }
        let has_alpha = picture.color().has_alpha();
        let format = if has_alpha { ImageFormat::Png } else { ImageFormat::Jpeg };
        let mut out = Vec::new();
        if picture.write_to(&mut Cursor::new(&mut out), format).is_err() {
            return Shrunk::Not;
        }
        let data = STANDARD.encode(&out);
        if data.len() as u64 <= LARGEST_IMAGE {
            return Shrunk::To(with(block, format.to_mime_type(), &data));
        }
        side /= 2;
    }
    Shrunk::Not
}

/// The block with other image data.
fn with(block: &Block<'_>, media: &str, data: &str) -> Vec<u8> {
    let source =
        format!(r#"{{"type":"base64","media_type":{},"data":{}}}"#, quote(media), quote(data));
    let object = block.json().object();
    object.map_or_else(Vec::new, |object| object.with("source", source.as_bytes()))
}
