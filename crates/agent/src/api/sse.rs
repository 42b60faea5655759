//! Server-sent events: bytes in, events out.
//!
//! Invariants: however the bytes are cut into pieces, the same events come out; an event that never
//! ends does not fill the memory.

/// Reads events from bytes as they come.
#[derive(Debug, Default)]
pub struct Events {
    line: Vec<u8>,
    data: String,
    has_data: bool,
    /// Whether the last byte was a carriage return: a newline after it belongs to it.
    was_return: bool,
}

/// Longer events are not from this API: a block of an answer comes in small pieces.
const LONGEST: usize = 32 << 20;

/// An event is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl Events {
    /// Processes bytes, and passes on the data of every event that they complete.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) -> Result<(), TooLong> {
        for byte in bytes {
            let was_return = std::mem::replace(&mut self.was_return, *byte == b'\r');
            match byte {
                b'\n' if was_return => {}
                b'\n' | b'\r' => self.end_line(&mut each),
                byte => self.line.push(*byte),
            }
            if self.line.len() + self.data.len() > LONGEST {
                return Err(TooLong);
            }
        }
        Ok(())
    }

    fn end_line(&mut self, each: &mut impl FnMut(&str)) {
        let line = String::from_utf8_lossy(&self.line);
        if line.is_empty() {
            if self.has_data {
                each(&self.data);
            }
            self.data.clear();
            self.has_data = false;
        } else if let Some(rest) = line.strip_prefix("data:") {
            if self.has_data {
                self.data.push('\n');
            }
            self.data.push_str(rest.strip_prefix(' ').unwrap_or(rest));
            self.has_data = true;
        }
        self.line.clear();
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
