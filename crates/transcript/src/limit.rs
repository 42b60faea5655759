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

/// How much of a file's start is looked at for a first prompt. Newer clients write their tool list
/// and system prompt in front of it.
pub const GLANCE_HEAD: usize = 1 << 20;

/// How much of a file's end is looked at for titles and damage.
pub const GLANCE_TAIL: usize = 32 << 10;

/// Longest sidecar (`.meta.json`, `sessions-index.json`, `settings.json`) that is read.
pub const SIDECAR: u64 = 16 << 20;
