//! The SHA-256 of what may be long: files that are kept, packed or unpacked.
//!
//! Computed by `ring`, which the program has for TLS anyway: on processors without instructions for
//! SHA-256, `sha2` takes longer for it than everything else that is done with a session.

use std::fmt::Write as _;
use std::io::{self, Write};

use ring::digest::{Context, SHA256};

/// The sum of the bytes that were written to it.
pub(crate) struct Sum(Context);

impl Sum {
    pub(crate) fn new() -> Sum {
        Sum(Context::new(&SHA256))
    }

    /// The sum in hexadecimal digits.
    pub(crate) fn finish(self) -> String {
        let mut digits = String::new();
        for byte in self.0.finish().as_ref() {
            let _ = write!(digits, "{byte:02x}");
        }
        digits
    }
}

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn is_the_sum_that_sha2_computes() {
        for length in [0, 1, 55, 64, 1_000_000] {
            let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(length).collect();
            let mut sum = Sum::new();
            bytes.chunks(777).for_each(|part| sum.write_all(part).unwrap());
            assert_eq!(sum.finish(), format!("{:x}", Sha256::digest(&bytes)), "{length}");
        }
    }
}
