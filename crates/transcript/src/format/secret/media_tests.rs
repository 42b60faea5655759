//! Images with secrets beside their pictures.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Media, crc};
use crate::format::secret::values::Values;
use crate::format::secret::{Cover, Redactor};

const KEY: &str = "ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2";

/// Makes a file that says a text.
type Maker = fn(&[u8]) -> Vec<u8>;

fn chunk(name: &[u8], data: &[u8]) -> Vec<u8> {
    let named = [name, data].concat();
    let length = u32::try_from(data.len()).unwrap_or_default();
    [&length.to_be_bytes()[..], &named, &crc(&named).to_be_bytes()].concat()
}

fn png(text: &[u8], picture: &[u8]) -> Vec<u8> {
    let head = b"\0\0\0\x01\0\0\0\x01\x08\0\0\0\0";
    let chunks = [
        chunk(b"IHDR", head),
        chunk(b"tEXt", &[b"Comment\0", text].concat()),
        chunk(b"IDAT", picture),
        chunk(b"IEND", b""),
    ];
    [b"\x89PNG\r\n\x1a\n".to_vec(), chunks.concat()].concat()
}

fn jpeg(text: &[u8]) -> Vec<u8> {
    let length = u16::try_from(text.len() + 2).unwrap_or_default().to_be_bytes();
    let picture = b"\xff\xda\0\x02picture\xff\xd9";
    [&b"\xff\xd8\xff\xfe"[..], &length, text, picture].concat()
}

fn gif(text: &[u8]) -> Vec<u8> {
    let length = [u8::try_from(text.len()).unwrap_or_default()];
    [&b"GIF89a\x01\0\x01\0\0\0\0\x21\xfe"[..], &length, text, b"\0\x3b"].concat()
}

fn webp(text: &[u8]) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap_or_default().to_le_bytes();
    [&b"RIFF\0\x01\0\0WEBPVP8 \x02\0\0\0abXMP "[..], &length, text].concat()
}

fn pdf(text: &[u8]) -> Vec<u8> {
    [b"%PDF-1.4\n1 0 obj<</Title(", text, b")>>endobj\nstream\n\x01\x02endstream\n%%EOF"].concat()
}

#[test]
fn the_checksum_is_that_of_png() {
    assert_eq!(crc(b"IEND"), 0xae42_6082);
}

#[test]
fn what_an_image_says_is_overwritten() {
    let redactor = Redactor::default();
    let makers: [Maker; 5] = [|text| png(text, b"x"), jpeg, gif, webp, pdf];
    for make in makers {
        for before in ["", "t ", "to ", "the token "] {
            let with = |value: &str| make(format!("{before}{value}").as_bytes());
            let coded = STANDARD.encode(with(KEY));
            let hits = redactor.find_deep(None, &coded);
            let found: Vec<_> = hits.iter().map(|hit| (hit.kind, &hit.value[..])).collect();
            assert_eq!(found, [("github-token", KEY.as_bytes())], "{coded}");
            let wanted = STANDARD.encode(with(&"*".repeat(KEY.len())));
            // Known only by itself, or also from elsewhere.
            let mut values = Values::default();
            assert_eq!(Cover::new(Arc::default(), values).text(&coded), Some(wanted.clone()));
            values = Values::default();
            values.add("github-token", KEY.as_bytes(), Vec::new());
            let cover = Cover::new(Arc::default(), values);
            assert_eq!(cover.text(&coded), Some(wanted.clone()));
            assert!(!cover.stands_in(wanted.as_bytes()));
            assert_eq!(cover.text(&wanted), None);
        }
    }
}

#[test]
fn pictures_are_not_read() {
    let coded = STANDARD.encode(png(b"a picture", KEY.as_bytes()));
    assert_eq!(Cover::new(Arc::default(), Values::default()).text(&coded), None);
}

#[test]
fn what_is_known_is_hidden_in_a_picture() {
    let mut values = Values::default();
    values.add("github-token", KEY.as_bytes(), Vec::new());
    let cover = Cover::new(Arc::default(), values);
    let coded = STANDARD.encode(png(b"", format!("picture {KEY} picture").as_bytes()));
    let shown = cover.text(&coded).unwrap_or_default();
    assert_eq!(shown.len(), coded.len());
    assert!(!cover.stands_in(shown.as_bytes()), "{shown}");
    let bytes = STANDARD.decode(&shown).unwrap_or_default();
    assert!(memchr::memmem::find(&bytes, &KEY.as_bytes()[4..12]).is_none(), "{shown}");
}

#[test]
fn any_bytes_may_follow_the_beginning() {
    for (_, begin, _) in super::KINDS {
        for rest in
            [&b""[..], b"\xff", b"\xff\xff\xff\xff\xff\xff\xff", b"WEBP\0\0ab\xff\xff\xff\xff"]
        {
            let bytes = [begin, rest, b"abcd\xff\xff\xff\xfftEXt"].concat();
            let Some(media) = Media::of(STANDARD.encode(&bytes).as_bytes()) else {
                panic!("{bytes:?}");
            };
            assert!(media.texts().iter().all(|part| part.end <= bytes.len()), "{bytes:?}");
            let all = 0..bytes.len();
            assert_eq!(media.without(&[all]).len(), bytes.len().div_ceil(3) * 4);
        }
    }
}
