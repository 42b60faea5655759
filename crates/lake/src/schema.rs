//! The tables of the lake: their columns, types and versions.
//!
//! Invariants: a column never changes its type or its meaning, and is never removed; a new one is
//! added at the end of its table, may be null, and carries the version that brought it. So files
//! of any two versions can be read together, by the names of the columns. `docs/lake.md` lists the
//! same columns, and a test compares both.

/// The version of the tables that is written.
pub const VERSION: i32 = 3;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Text, in UTF-8.
    Text,
    /// A whole number of 64 bits.
    Number,
    /// True or false.
    Flag,
    /// US dollars, with 12 digits after the point: sums are exact.
    Dollars,
    /// A point in time, in milliseconds, UTC.
    Moment,
    /// A day, UTC.
    Day,
}

impl Holds {
    /// The type as SQL names it.
    pub fn sql(self) -> &'static str {
        match self {
            Holds::Text => "VARCHAR",
            Holds::Number => "BIGINT",
            Holds::Flag => "BOOLEAN",
            Holds::Dollars => "DECIMAL(18,12)",
            Holds::Moment => "TIMESTAMP",
            Holds::Day => "DATE",
        }
    }
}

/// Whether a column may be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Null {
    /// It may.
    Maybe,
    /// It never is.
    Never,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub holds: Holds,
    /// Whether it may be null.
    pub null: Null,
    /// The version of the tables that brought it.
    pub since: i32,
    /// What it means.
    pub about: &'static str,
}

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct TableSchema {
    /// Its name, which is that of its folder.
    pub name: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// Its columns after [`COMMON`], in groups that tables share.
    groups: &'static [&'static [Column]],
}

impl TableSchema {
    /// Its columns after [`COMMON`].
    pub fn columns(&self) -> impl Iterator<Item = &'static Column> + use<> {
        self.groups.iter().copied().flatten()
    }

    /// All of its columns.
    pub fn all(&self) -> impl Iterator<Item = &'static Column> + use<> {
        COMMON.iter().chain(self.columns())
    }
}

const fn maybe(name: &'static str, holds: Holds, about: &'static str) -> Column {
    Column { name, holds, null: Null::Maybe, since: 1, about }
}

const fn never(name: &'static str, holds: Holds, about: &'static str) -> Column {
    Column { name, holds, null: Null::Never, since: 1, about }
}

/// A column that a later version brought.
const fn later(since: i32, name: &'static str, holds: Holds, about: &'static str) -> Column {
    Column { since, ..maybe(name, holds, about) }
}

use Holds::{Day, Dollars, Flag, Moment, Number, Text};

/// The columns that every table begins with.
pub static COMMON: [Column; 7] = [
    never("schema_version", Number, "the version of the tables that wrote the row"),
    never("machine", Text, "the machine that pushed it"),
    maybe("user", Text, "`user` of `[lake]` in the configuration; never guessed"),
    maybe("team", Text, "`team` of `[lake]` in the configuration"),
    maybe("project", Text, "the git remote of the working directory, without credentials"),
    never("session_id", Text, "the session"),
    never("content", Text, "how much was pushed: `full`, `meta` or `none`"),
];

const AGENT: Column = maybe("agent_id", Text, "the sub-agent, if it is in a file of one");
const BRANCH: Column = maybe("branch", Number, "the branch, if it is not the live one");
const LINE: Column = maybe("line", Number, "the line in its file");
const IS_COPY: Column =
    never("is_copy", Flag, "a copy: another session, or another file of this one, has it first");

/// When something was made.
const TIME: &[Column] = &[
    maybe("time", Moment, "when it was made; of a call of the API, when its first record was"),
    maybe("date", Day, "the day of `time`"),
];
/// Where something is in a conversation.
const PLACE: &[Column] = &[
    AGENT,
    maybe("turn", Number, "the number of the turn, as `quipu turns` has it"),
    maybe("place", Text, "`live`, `abandoned`, or `sub-agent` in the session's own file"),
    BRANCH,
];
/// When a turn or a session began and ended.
const SPAN: &[Column] = &[
    maybe("started", Moment, "when its first record was made"),
    maybe("ended", Moment, "when its last record was made"),
    maybe("date", Day, "the day of `started`"),
];

/// All tables. `sessions` is written last: a session that is in it has all its other rows.
pub static TABLES: [TableSchema; 7] = [
    TableSchema {
        name: "calls",
        about: "a call of the API in a session",
        groups: &[
            &[
                never("message_id", Text, "the id of the message"),
                maybe("model", Text, "the model"),
            ],
            TIME,
            &[
                never("input_tokens", Number, "input tokens that were not in the cache"),
                never("output_tokens", Number, "output tokens"),
                never("cache_write_5m_tokens", Number, "tokens written to the cache for 5 minutes"),
                never("cache_write_1h_tokens", Number, "tokens written to the cache for an hour"),
                never("cache_read_tokens", Number, "tokens read from the cache"),
                never("web_searches", Number, "web searches"),
                maybe("cost_usd", Dollars, "what it cost; null without a price"),
                IS_COPY,
                never("is_lower_bound", Flag, "it was recorded before it ended"),
                never("is_agent", Flag, "a sub-agent made it"),
            ],
            PLACE,
            &[
                maybe("tool", Text, "the first tool that it calls"),
                maybe("tier", Text, "the service tier"),
                maybe("speed", Text, "the speed"),
                LINE,
                later(
                    3,
                    "cost_without_cache_usd",
                    Dollars,
                    "what it would have cost without a cache: all input at the price of input",
                ),
            ],
        ],
    },
    TableSchema {
        name: "tools",
        about: "a call of a tool",
        groups: &[
            &[
                maybe("call_id", Text, "the id of the call"),
                maybe("message_id", Text, "the message that contains it"),
                maybe("name", Text, "the name of the tool"),
            ],
            TIME,
            &[
                maybe("duration_ms", Number, "until its result, waiting for permission included"),
                maybe("is_error", Flag, "it failed; null without a result"),
                never("input_bytes", Number, "the size of the call in the file"),
                maybe("result_bytes", Number, "the size of its result in the file"),
                IS_COPY,
            ],
            PLACE,
            &[
                LINE,
                maybe("input", Text, "its input, as JSON (`full`)"),
                maybe("result", Text, "its result, as the model got it (`full`)"),
                later(2, "server", Text, "the MCP server of the tool, if it is of one"),
            ],
        ],
    },
    TableSchema {
        name: "edits",
        about: "a change of a file by a tool",
        groups: &[
            &[
                maybe("call_id", Text, "the id of the call"),
                maybe("tool", Text, "the name of the tool"),
            ],
            TIME,
            &[
                maybe("file", Text, "the path, as the call names it (not with `none`)"),
                maybe(
                    "extension",
                    Text,
                    "the end of its name after the last dot (not with `none`)",
                ),
                never("action", Text, "`created` or `changed`"),
                never("lines_added", Number, "lines added"),
                never("lines_removed", Number, "lines removed"),
                IS_COPY,
            ],
            PLACE,
            &[LINE],
        ],
    },
    TableSchema {
        name: "turns",
        about: "a turn: a prompt and what was done about it",
        groups: &[
            &[
                never("turn", Number, "its number, as `quipu turns` has it"),
                never("place", Text, "`live`, `abandoned`, or `sub-agent` in the session's file"),
                BRANCH,
                AGENT,
                maybe(
                    "input",
                    Text,
                    "who opens it and how: `plain`, `command`, `notification`, ...",
                ),
                never("is_prompt", Flag, "a person typed it"),
                never("outcome", Text, "how it ended: `answered`, `interrupted`, `failed`, ..."),
            ],
            SPAN,
            &[
                never("api_calls", Number, "calls of the API that count in it"),
                never("tool_calls", Number, "calls of tools"),
                never("tool_errors", Number, "calls of tools that failed"),
                IS_COPY,
                LINE,
            ],
        ],
    },
    TableSchema {
        name: "messages",
        about: "a record of a transcript",
        groups: &[
            &[
                never("type", Text, "its type: `user`, `assistant`, `system`, ..."),
                maybe("uuid", Text, "its id"),
                maybe("parent_uuid", Text, "the id of its parent"),
                maybe("message_id", Text, "the message of the API that it belongs to"),
                maybe("model", Text, "the model of that"),
                maybe("input", Text, "who speaks and how: `plain`, `tool_result`, `hook`, ..."),
            ],
            TIME,
            &[
                never("bytes", Number, "its size in the file"),
                never("blocks", Number, "how many blocks of content it has"),
                never("is_compaction", Flag, "the conversation was compacted here"),
                IS_COPY,
                AGENT,
                never("line", Number, "the line in its file"),
                maybe(
                    "text",
                    Text,
                    "its texts, without thinking and tools (`full`; cut in records of more than 16 MB)",
                ),
                maybe("raw", Text, "the line itself (`full` with `--raw`; not of more than 16 MB)"),
            ],
        ],
    },
    TableSchema {
        name: "findings",
        about: "something that is wrong with a session, as `quipu check` finds it",
        groups: &[&[
            never("code", Text, "the code (docs/checks.md)"),
            never("severity", Text, "how serious it is"),
            maybe("file", Text, "the file of a sub-agent that it is in (not with `none`)"),
            LINE,
            never("more", Number, "how many more of its kind there are"),
            maybe("text", Text, "one sentence (`full`)"),
        ]],
    },
    TableSchema {
        name: "sessions",
        about: "a session",
        groups: &[
            SPAN,
            &[
                maybe("cwd", Text, "the working directory (not with `none`)"),
                maybe("git_branch", Text, "the git branch (not with `none`)"),
                maybe("client_version", Text, "the version of the client"),
                maybe("forked_from", Text, "the session that it is a fork of"),
                never("bytes", Number, "the size of its files"),
                never("records", Number, "records in its files"),
                never("prompts", Number, "turns that a person opened, without copies"),
                never("compactions", Number, "how often it was compacted, without copies"),
                never("agents", Number, "sub-agents that have files"),
                never("damaged_lines", Number, "lines that are not whole records"),
                maybe("verdict", Text, "whether it resumes: `full`, `loss`, `rejected`, `refused`"),
                maybe("lost_messages", Number, "messages that are lost when it is resumed"),
                maybe("title", Text, "its title (`full`)"),
                maybe("first_prompt", Text, "its first prompt (`full`)"),
            ],
        ],
    },
];

/// Digits after the point of dollars.
pub(crate) const SCALE: i32 = 12;
/// All digits of dollars.
pub(crate) const PRECISION: i32 = 18;
/// The most that fits: no call costs a million dollars.
pub(crate) const MOST_DOLLARS: i64 = 999_999_999_999_999_999;
