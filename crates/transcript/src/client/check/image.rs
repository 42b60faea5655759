//! Checks images against the limits of the API.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::code::Code;
use super::examine::quoted;
use crate::format::content::Block;
use crate::format::json::Json;

/// The largest image that the API accepts: bytes of base64, as it is sent.
pub(crate) const LARGEST: u64 = 5 << 20;
/// The longest side in pixels, and the limit if there are more than [`MANY`] images.
pub(crate) const LONGEST_SIDE: usize = 8_000;
pub(crate) const LONGEST_OF_MANY: usize = 2_000;
/// With more images than this, the tighter limit applies.
pub(crate) const MANY: usize = 20;
/// How many images a request may contain.
pub(crate) const MOST: usize = 100;

/// How much of the data is decoded to find the dimensions: cameras write a lot before them.
const LOOKED_AT: usize = 96 << 10;

/// What matters of an image block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// The length of its base64 data in bytes; `None` if it is a reference or was left out.
    pub(super) size: Option<u64>,
    /// Its data was left out because the record is too long to hold in memory.
    pub(super) is_cut: bool,
    /// The longer side, in pixels.
    pub(super) side: Option<usize>,
    pub(super) fault: Option<ImageFault>,
}

/// What is wrong with the encoding of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ImageFault {
    /// The data is not base64.
    Encoding,
    /// No media type, or one that the API does not accept.
    MediaType(String),
    /// The data is of this type, not of the declared one.
    OtherType(&'static str),
}

impl fmt::Display for ImageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageFault::Encoding => f.write_str("whose data is not base64"),
            ImageFault::MediaType(name) => {
                write!(f, "of type `{name}`, which the API does not accept")
            }
            ImageFault::OtherType(name) => write!(f, "whose data is {name}, not the declared type"),
        }
    }
}

impl Image {
    /// Whether the API would refuse the image with that code, if no side may be longer than
    /// `longest`.
    pub(crate) fn has(&self, code: Code, longest: usize) -> bool {
        match code {
            Code::ImageEncoding => self.fault.is_some(),
            Code::ImageSize => self.is_cut || self.size.is_some_and(|size| size > LARGEST),
            Code::ImageDimensions => self.side.is_some_and(|side| side > longest),
            _ => false,
        }
    }

    pub(super) fn read(block: &Block<'_>, is_condensed: bool) -> Image {
        let mut image = Image { size: None, is_cut: false, side: None, fault: None };
        let Some(source) = block.get("source").and_then(Json::object) else {
            image.fault = Some(ImageFault::Encoding);
            return image;
        };
        // Other sources are references and contain no data.
        if source.get("type").is_none_or(|kind| !kind.is("base64")) {
            return image;
        }
        let media = source.text("media_type").unwrap_or_default();
        let data = source.text("data").unwrap_or_default();
        let bytes = data.as_bytes();
        if !matches!(&*media, "image/png" | "image/jpeg" | "image/gif" | "image/webp") {
            image.fault = Some(ImageFault::MediaType(quoted(&media)));
        }
        if is_condensed {
            image.is_cut = true;
            return image;
        }
        image.size = Some(bytes.len() as u64);
        // Branch-free: the data is long, and nearly always valid.
        let is_base64 = |byte: &u8| {
            byte.is_ascii_alphabetic() || byte.is_ascii_digit() || *byte == b'+' || *byte == b'/'
        };
        let end = bytes.iter().rposition(|byte| *byte != b'=').map_or(0, |at| at + 1);
        if bytes.is_empty()
            || bytes.len() % 4 != 0
            || bytes.len() - end > 2
            || !bytes[..end].iter().fold(true, |all, byte| all & is_base64(byte))
        {
            image.fault = Some(ImageFault::Encoding);
            return image;
        }
        let head = head(bytes);
        if let Some(found) = media_type(&head)
            && found != media
        {
            image.fault = image.fault.or(Some(ImageFault::OtherType(found)));
        }
        image.side = imagesize::blob_size(&head).ok().map(|size| size.width.max(size.height));
        image
    }
}

/// The first bytes of an image, decoded.
fn head(data: &[u8]) -> Vec<u8> {
    // Groups of four characters: what is left of a cut one would be an error.
    let whole = data.len().min(LOOKED_AT) / 4 * 4;
    STANDARD.decode(&data[..whole]).unwrap_or_default()
}

/// The width and the height of an image block, in pixels.
pub(crate) fn pixels(block: &Block<'_>) -> Option<(usize, usize)> {
    let data = block.get("source")?.get("data")?.text()?;
    let size = imagesize::blob_size(&head(data.as_bytes())).ok()?;
    Some((size.width, size.height))
}

/// What the API calls the type of an image, by its first bytes; `None` if they are not an image.
pub(crate) fn media_type(bytes: &[u8]) -> Option<&'static str> {
    Some(match imagesize::image_type(bytes).ok()? {
        imagesize::ImageType::Png => "image/png",
        imagesize::ImageType::Jpeg => "image/jpeg",
        imagesize::ImageType::Gif => "image/gif",
        imagesize::ImageType::Webp => "image/webp",
        _ => OTHER_TYPE,
    })
}

/// A type of image that the API does not accept.
pub(crate) const OTHER_TYPE: &str = "something else";
