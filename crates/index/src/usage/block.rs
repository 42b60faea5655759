//! Blocks of five hours. The client's limits count from the first message on; where its blocks
//! really begin is not in the transcripts, so these are estimates, except for those that the client
//! reported to its status line.

use jiff::tz::TimeZone;
use jiff::{RoundMode, SignedDuration, Timestamp, Unit, ZonedRound};

/// How long a block is.
pub const BLOCK: SignedDuration = SignedDuration::from_hours(5);

/// The starts of blocks, in order.
#[derive(Debug, Default)]
pub struct Blocks {
    starts: Vec<Timestamp>,
    reported: Vec<Timestamp>,
}

impl Blocks {
    /// A block that was not reported begins with the hour of the first message that is in no other
    /// block, and ends where the next one begins. `ends` are the ends of blocks that the client
    /// reported.
    pub fn new(
        times: impl Iterator<Item = Timestamp>,
        ends: &[Timestamp],
        zone: &TimeZone,
    ) -> Blocks {
        let mut times: Vec<Timestamp> = times.collect();
        times.sort_unstable();
        let mut reported: Vec<Timestamp> =
            ends.iter().filter_map(|end| end.checked_sub(BLOCK).ok()).collect();
        reported.sort_unstable();
        let mut blocks = Blocks { starts: reported.clone(), reported };
        for time in times {
            if blocks.start_of(time).is_none() {
                let hour = time.to_zoned(zone.clone());
                let hour =
                    hour.round(ZonedRound::new().smallest(Unit::Hour).mode(RoundMode::Trunc));
                let start = hour.map_or(time, |hour| hour.timestamp());
                let at = blocks.starts.partition_point(|start| *start <= time);
                // A block does not begin before the last one has ended.
                let last = at.checked_sub(1).and_then(|at| ends_at(blocks.starts[at]));
                let start = last.map_or(start, |end| start.max(end));
                blocks.starts.insert(at, start);
            }
        }
        blocks
    }

    /// The start of the block that a time is in.
    pub fn start_of(&self, time: Timestamp) -> Option<Timestamp> {
        let at = self.starts.partition_point(|start| *start <= time);
        let start = self.starts[at.checked_sub(1)?];
        (time.duration_since(start) < BLOCK).then_some(start)
    }

    /// Whether the client reported a block that begins then.
    pub fn is_reported(&self, start: Timestamp) -> bool {
        self.reported.binary_search(&start).is_ok()
    }
}

fn ends_at(start: Timestamp) -> Option<Timestamp> {
    start.checked_add(BLOCK).ok()
}
