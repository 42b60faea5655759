//! The name of a project's folder.
//!
//! Exactly as the client makes it, because a session in a folder of another name is not found. There is
//! no way back: many paths have the same name.

use std::fmt::Write;

/// Longest name before the client cuts it.
const LONGEST: usize = 200;

/// The folder name that clients since 2.1.100 give to a working directory: every UTF-16 unit that is no
/// ASCII letter or digit becomes `-`; a name over 200 is cut there, and a hash of the path is added.
///
/// ```
/// assert_eq!(transcript::place::slug("/home/dev/my.app"), "-home-dev-my-app");
/// assert_eq!(transcript::place::slug(r"C:\Users\dev"), "C--Users-dev");
/// ```
pub fn slug(cwd: &str) -> String {
    let mut name = slug_uncut(cwd);
    if name.len() > LONGEST {
        name.truncate(LONGEST);
        // Cannot fail: the target is a string.
        let _ = write!(name, "-{}", base36(hash(cwd)));
    }
    name
}

/// The folder name that older clients give: never cut. One over 255 bytes cannot be made on most
/// systems, and they wrote nothing then.
pub fn slug_uncut(cwd: &str) -> String {
    cwd.encode_utf16()
        .map(|unit| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
            _ => '-',
        })
        .collect()
}

/// The client's string hash: 31 times the sum so far plus the next UTF-16 unit, in 32 bits, no sign.
fn hash(text: &str) -> u32 {
    let sum = text
        .encode_utf16()
        .fold(0_i32, |sum, unit| sum.wrapping_mul(31).wrapping_add(i32::from(unit)));
    sum.unsigned_abs()
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit(number % 36, 36));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}
