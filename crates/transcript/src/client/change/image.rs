//! Makes images small enough for the API.
//!
//! Decoding and encoding needs the feature `shrink-images`, so that programs that only read do not
//! pay for codecs. Without it, an image that is too large counts as one that cannot be read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::client::check::{LARGEST_IMAGE, OTHER_TYPE, media_type};
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

/// Makes an image with no side longer than `longest`, and no larger in base64 than the API accepts.
pub(super) fn smaller(block: &Block<'_>, longest: u32) -> Shrunk {
    let found = block.get("source").and_then(Json::object);
    let Some(source) = found else { return Shrunk::Not };
    if source.get("type").is_none_or(|kind| !kind.is("base64")) {
        return Shrunk::Fits;
    }
    let data = source.text("data").unwrap_or_default();
    let Ok(bytes) = STANDARD.decode(data.as_bytes()) else { return Shrunk::Not };
    let Some(media) = media_type(&bytes) else { return Shrunk::Not };
    let says = source.text("media_type").unwrap_or_default();
    let size = imagesize::blob_size(&bytes).ok();
    let is_short = size.is_some_and(|size| size.width.max(size.height) <= longest as usize);
    if is_short && data.len() as u64 <= LARGEST_IMAGE && media != OTHER_TYPE {
        // Only the declared type can be wrong.
        return if media == says { Shrunk::Fits } else { Shrunk::To(with(block, media, &data)) };
    }
    match codec::smaller(&bytes, longest) {
        Some((media, data)) => Shrunk::To(with(block, media, &data)),
        None => Shrunk::Not,
    }
}

/// The media type and the base64 of an image with no side longer than `longest`, and no larger than
/// the API accepts; None if it cannot be read, or is too large to be read here.
pub fn smaller_image(bytes: &[u8], longest: u32) -> Option<(&'static str, String)> {
    codec::smaller(bytes, longest)
}

#[cfg(not(feature = "shrink-images"))]
mod codec {
    pub(super) fn smaller(_: &[u8], _: u32) -> Option<(&'static str, String)> {
        None
    }
}

#[cfg(feature = "shrink-images")]
mod codec {
    use std::io::Cursor;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use image::{ImageFormat, ImageReader, Limits, imageops::FilterType};

    use super::LARGEST_IMAGE;

    /// How much memory an image may take while it is made smaller.
    const HELD: u64 = 256 << 20;

    /// How often an image is halved before giving up.
    const HALVINGS: usize = 6;

    /// The media type and the base64 of a smaller image.
    pub(super) fn smaller(bytes: &[u8], longest: u32) -> Option<(&'static str, String)> {
        let mut limits = Limits::default();
        limits.max_alloc = Some(HELD);
        let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
        reader.limits(limits);
        let mut picture = reader.decode().ok()?;
        let mut side = longest.min(picture.width().max(picture.height()));
        for _ in 0..HALVINGS {
            if picture.width().max(picture.height()) > side {
                picture = picture.resize(side, side, FilterType::Triangle);
            }
            let has_alpha = picture.color().has_alpha();
            let format = if has_alpha { ImageFormat::Png } else { ImageFormat::Jpeg };
            let mut out = Vec::new();
            picture.write_to(&mut Cursor::new(&mut out), format).ok()?;
            let data = STANDARD.encode(&out);
            if data.len() as u64 <= LARGEST_IMAGE {
                return Some((format.to_mime_type(), data));
            }
            side /= 2;
        }
        None
    }
}

/// The block with other image data.
fn with(block: &Block<'_>, media: &str, data: &str) -> Vec<u8> {
    let source =
        format!(r#"{{"type":"base64","media_type":{},"data":{}}}"#, quote(media), quote(data));
    let object = block.json().object();
    object.map_or_else(Vec::new, |object| object.with("source", source.as_bytes()))
}
