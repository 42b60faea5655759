//! The name of a project's folder.
//!
//! Exactly as the client makes it, because the client does not find a session in a folder of
//! another name. A name cannot be converted back: many paths have the same name.

use std::fmt::Write;

/// Longest name before the client cuts it.
const LONGEST: usize = 200;

/// The folder name that clients since 2.1.100 give to a working directory: every UTF-16 unit that
/// is not an ASCII letter or digit becomes `-`; a name longer than 200 characters is cut there, and
/// a hash of the path is added.
///
/// ```
/// assert_eq!(transcript::conversation::place::slug("/home/dev/my.app"), "-home-dev-my-app");
/// assert_eq!(transcript::conversation::place::slug(r"C:\Users\dev"), "C--Users-dev");
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

/// The folder name that older clients give: never cut. Most systems cannot create one longer than
/// 255 bytes, and these clients wrote nothing in that case.
pub fn slug_uncut(cwd: &str) -> String {
    cwd.encode_utf16()
        .map(|unit| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
            _ => '-',
        })
        .collect()
}

/// The client's string hash: for each UTF-16 unit, 31 times the sum so far plus the unit, in 32
/// bits; at the end the absolute value.
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
