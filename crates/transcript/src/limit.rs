//! Every size that bounds memory or work, with its reason.

/// Longest line held in memory at once. Longer ones are condensed as they stream by and read by
/// offset, never skipped: one image can be a hundred megabytes.
pub const HELD_LINE: usize = 16 << 20;

/// How much is asked of the file system at once. Beyond this, larger reads are no faster.
pub const READ_BLOCK: usize = 128 << 10;

/// How much is asked for first: most files tell what they are about in less.
pub const FIRST_READ: usize = 16 << 10;

/// Longest condensed form of a long line. A quarter of [`HELD_LINE`] holds the envelope and the kinds
/// of some ten thousand blocks.
pub const DIGEST: usize = HELD_LINE / 4;

/// How much of a long string a condensed line keeps at its front, so that names and ids are whole.
pub const KEPT_FRONT: usize = 256;

/// How much of a long string a condensed line keeps at its end: where a cut-off record is glued to a
/// whole one, the first bytes of the whole one are here.
pub const KEPT_END: usize = 64;

/// How often a damaged line may be read again while looking for records. Real damage takes a handful.
pub const SEARCH_EFFORT: usize = 64;

/// How deep a record is compared with what is known. The format itself is less than half as deep.
pub const KNOWN_DEPTH: usize = 32;

/// How many members of an object, or blocks of a message, are noted when it is first read. An ordinary
/// record has a few dozen; where there are more, they are looked for when they are asked for.
pub const NOTED: usize = 4_096;

/// How much of a string in a long line is held before it is cut.
pub const LONG_TEXT: usize = 4 << 10;

/// How many of the last bytes are compared to notice that a followed file was rewritten.
pub const FINGERPRINT: usize = 64;

/// How much of a file's start is looked at for a first prompt, the last line to its end. Newer clients
/// write their tool list and system prompt in front of it.
pub const GLANCE_HEAD: usize = 1 << 20;

/// How much of a file's end is looked at for titles and damage.
pub const GLANCE_TAIL: usize = 96 << 10;

/// Longest sidecar (`.meta.json`, `settings.json`) that is read.
pub const SIDECAR: u64 = 16 << 20;

/// Longest text that is taken as a name or an id. Those of clients have less than a hundred bytes.
pub const LONGEST_NAME: usize = 1 << 10;

/// How many records a segment that a compaction keeps is followed. Clients keep a handful; a wrong end would lead to the root.
pub const LONGEST_SEGMENT: usize = 1 << 10;

/// How many branches up the records of one answer are looked for. An answer is written in one go: it lies on one side of a branch, or on both
/// sides of one.
pub const BRANCHES_UP: usize = 16;

/// How many records are tried for a gap to be bridged to, and how far up from each the gap is looked for. A record that hangs on a gap and is older than it is
/// next to it.
pub const MOST_TRIED: usize = 64;
/// See [`MOST_TRIED`].
pub const FARTHEST_UP: usize = 1 << 10;

/// How much of a file is worth a thread of its own.
pub const PART: u64 = 1 << 20;
