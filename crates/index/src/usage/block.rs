//! Blocks of five hours. The client's limits count from the first message on; where its blocks
//! really begin is not in the transcripts, so these are estimates.

use jiff::tz::TimeZone;
use jiff::{RoundMode, SignedDuration, Timestamp, Unit, ZonedRound};

const LENGTH: SignedDuration = SignedDuration::from_hours(5);

/// The starts of blocks, in order.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    starts: Vec<Timestamp>,
}

impl Blocks {
    /// A block begins with the hour of the first message that is in no earlier block.
    pub(super) fn of(times: impl Iterator<Item = Timestamp>, zone: &TimeZone) -> Blocks {
        let mut times: Vec<Timestamp> = times.collect();
        times.sort_unstable();
        let mut starts: Vec<Timestamp> = Vec::new();
        for time in times {
            if starts.last().is_none_or(|start| time.duration_since(*start) >= LENGTH) {
                let hour = time.to_zoned(zone.clone());
                let hour =
                    hour.round(ZonedRound::new().smallest(Unit::Hour).mode(RoundMode::Trunc));
                starts.push(hour.map_or(time, |hour| hour.timestamp()));
            }
        }
        Blocks { starts }
    }

    /// The start of the block that a time is in.
    pub(super) fn start_of(&self, time: Timestamp) -> Option<Timestamp> {
        let at = self.starts.partition_point(|start| *start <= time);
        at.checked_sub(1).map(|at| self.starts[at])
    }
}
