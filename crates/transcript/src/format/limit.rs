//! Every size that bounds memory or work, with its reason.

/// Longest line kept in memory at once. Longer ones are condensed while they are read and can be
/// read by offset, and are never skipped: one image can be a hundred megabytes.
pub const HELD_LINE: usize = 16 << 20;

/// How many bytes are read from the file system at once. Larger reads are not faster.
pub const READ_BLOCK: usize = 128 << 10;

/// How many bytes are read first. Most files show in less than this what they are about.
pub const FIRST_READ: usize = 16 << 10;

/// Longest condensed form of a long line. A quarter of [`HELD_LINE`] is enough for the envelope and
/// the kinds of some ten thousand blocks.
pub const DIGEST: usize = HELD_LINE / 4;

/// How much of a long string a condensed line keeps at its front, so that names and ids are whole.
pub const KEPT_FRONT: usize = 256;

/// How much of a long string a condensed line keeps at its end. Where a cut-off record is glued to
/// a whole one, this contains the first bytes of the whole one.
pub const KEPT_END: usize = 64;

/// How many times over a damaged line may be read in the search for records. Real damage takes a
/// handful.
pub const SEARCH_EFFORT: usize = 64;

/// How deep a record is compared with the schema. The format itself is less than half as deep.
pub const KNOWN_DEPTH: usize = 32;

/// How many members of an object, or blocks of a message, are kept when it is first read. An
/// ordinary record has a few dozen; if there are more, they are searched for when they are needed.
pub const NOTED: usize = 4_096;

/// How much of a string in a long line is collected before it is cut.
pub const LONG_TEXT: usize = 4 << 10;

/// How many of the last bytes are compared to detect that a followed file was rewritten.
pub const FINGERPRINT: usize = 64;

/// How much of the start of a file is searched for the first prompt; the last line is read to its
/// end. Newer clients write their tool list and system prompt before it.
pub const GLANCE_HEAD: usize = 1 << 20;

/// How much of the end of a file is searched for titles and damage.
pub const GLANCE_TAIL: usize = 96 << 10;

/// Longest sidecar (`.meta.json`, `settings.json`) that is read.
pub const SIDECAR: u64 = 16 << 20;

/// Longest text that is accepted as a name or an id. Those of clients have less than a hundred
/// bytes.
pub const LONGEST_NAME: usize = 1 << 10;

/// Over how many records a segment that a compaction keeps is followed. Clients keep a handful;
/// with a wrong end, the walk would lead to the root.
pub const LONGEST_SEGMENT: usize = 1 << 10;

/// How many branches up the records of one answer are searched for. An answer is written in one go:
/// it is on one side of a branching point, or on both sides of one.
pub const BRANCHES_UP: usize = 16;

/// How many records are tried as the new parent of a record whose own parent is missing. A
/// descendant of that record cannot be its parent, which is checked up to [`FARTHEST_UP`] records
/// up: a descendant that is older than the record is close to it.
pub const MOST_TRIED: usize = 64;
/// See [`MOST_TRIED`].
pub const FARTHEST_UP: usize = 1 << 10;

/// How much of a file is worth a thread of its own.
pub const PART: u64 = 1 << 20;
