//! The tables of the lake: their columns, types and versions.
//!
//! Invariants: a column never changes its type or its meaning, and is never removed; a new one is
//! added at the end of its table, may be null, and carries the version that brought it. So files
//! of any two versions can be read together, by the names of the columns. `docs/lake.md` lists the
//! same columns, and a test compares both.

use std::sync::{Arc, LazyLock};

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::schema::types::Type;

use crate::LakeError;

/// The version of the tables that is written.
pub const VERSION: i32 = 1;

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
    /// Its columns after [`COMMON`].
    pub columns: &'static [Column],
}

impl TableSchema {
    /// All of its columns.
    pub fn all(&self) -> impl Iterator<Item = &'static Column> + use<> {
        COMMON.iter().chain(self.columns)
    }
}

const fn maybe(name: &'static str, holds: Holds, about: &'static str) -> Column {
    Column { name, holds, null: Null::Maybe, since: 1, about }
}

const fn never(name: &'static str, holds: Holds, about: &'static str) -> Column {
    Column { name, holds, null: Null::Never, since: 1, about }
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
const TURN: Column = maybe("turn", Number, "the number of the turn, as `quipu turns` has it");
const PLACE: Column =
    maybe("place", Text, "`live`, `abandoned`, or `sub-agent` in the session's own file");
const BRANCH: Column = maybe("branch", Number, "the branch, if it is not the live one");
const LINE: Column = maybe("line", Number, "the line in its file");
const IS_COPY: Column =
    never("is_copy", Flag, "another session had it first, and this one is a fork or a copy of it");

/// All tables. `sessions` is written last: a session that is in it has all its other rows.
pub static TABLES: [TableSchema; 7] = [
    TableSchema {
        name: "calls",
        about: "a call of the API in a session",
        columns: &[
            never("message_id", Text, "the id of the message"),
            maybe("model", Text, "the model"),
            maybe("time", Moment, "when its first record was made"),
            maybe("date", Day, "the day of `time`"),
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
            AGENT,
            TURN,
            PLACE,
            BRANCH,
            maybe("tool", Text, "the first tool that it calls"),
            maybe("tier", Text, "the service tier"),
            maybe("speed", Text, "the speed"),
            LINE,
        ],
    },
    TableSchema {
        name: "tools",
        about: "a call of a tool",
        columns: &[
            maybe("call_id", Text, "the id of the call"),
            maybe("message_id", Text, "the message that contains it"),
            maybe("name", Text, "the name of the tool"),
            maybe("time", Moment, "when it was made"),
            maybe("date", Day, "the day of `time`"),
            maybe("duration_ms", Number, "until its result, waiting for permission included"),
            maybe("is_error", Flag, "it failed; null without a result"),
            never("input_bytes", Number, "the size of the call in the file"),
            maybe("result_bytes", Number, "the size of its result in the file"),
            IS_COPY,
            AGENT,
            TURN,
            PLACE,
            BRANCH,
            LINE,
            maybe("input", Text, "its input, as JSON (`full`)"),
            maybe("result", Text, "its result, as the model got it (`full`)"),
        ],
    },
    TableSchema {
        name: "edits",
        about: "a change of a file by a tool",
        columns: &[
            maybe("call_id", Text, "the id of the call"),
            maybe("tool", Text, "the name of the tool"),
            maybe("time", Moment, "when the call was made"),
            maybe("date", Day, "the day of `time`"),
            maybe("file", Text, "the path, as the call names it (not with `none`)"),
            maybe("extension", Text, "the end of its name after the last dot"),
            never("action", Text, "`created` or `changed`"),
            never("lines_added", Number, "lines added"),
            never("lines_removed", Number, "lines removed"),
            IS_COPY,
            AGENT,
            TURN,
            PLACE,
            BRANCH,
            LINE,
        ],
    },
    TableSchema {
        name: "turns",
        about: "a turn: a prompt and what was done about it",
        columns: &[
            never("turn", Number, "its number, as `quipu turns` has it"),
            never("place", Text, "`live`, `abandoned`, or `sub-agent` in the session's file"),
            BRANCH,
            AGENT,
            maybe("input", Text, "who opens it and how: `plain`, `command`, `notification`, ..."),
            never("is_prompt", Flag, "a person typed it"),
            never("outcome", Text, "how it ended: `answered`, `interrupted`, `failed`, ..."),
            maybe("started", Moment, "when its first record was made"),
            maybe("ended", Moment, "when its last record was made"),
            maybe("date", Day, "the day of `started`"),
            never("api_calls", Number, "calls of the API that count in it"),
            never("tool_calls", Number, "calls of tools"),
            never("tool_errors", Number, "calls of tools that failed"),
            IS_COPY,
            LINE,
        ],
    },
    TableSchema {
        name: "messages",
        about: "a record of a transcript",
        columns: &[
            never("type", Text, "its type: `user`, `assistant`, `system`, ..."),
            maybe("uuid", Text, "its id"),
            maybe("parent_uuid", Text, "the id of its parent"),
            maybe("message_id", Text, "the message of the API that it belongs to"),
            maybe("model", Text, "the model of that"),
            maybe("input", Text, "who speaks and how: `plain`, `tool_result`, `hook`, ..."),
            maybe("time", Moment, "when it was made"),
            maybe("date", Day, "the day of `time`"),
            never("bytes", Number, "its size in the file"),
            never("blocks", Number, "how many blocks of content it has"),
            never("is_compaction", Flag, "the conversation was compacted here"),
            IS_COPY,
            AGENT,
            never("line", Number, "the line in its file"),
            maybe("text", Text, "its texts, without thinking and tools (`full`)"),
            maybe("raw", Text, "the line itself, as JSON (`full` with `--raw`)"),
        ],
    },
    TableSchema {
        name: "findings",
        about: "something that is wrong with a session, as `quipu check` finds it",
        columns: &[
            never("code", Text, "the code (docs/checks.md)"),
            never("severity", Text, "how serious it is"),
            maybe("file", Text, "the file of a sub-agent that it is in"),
            LINE,
            never("more", Number, "how many more of its kind there are"),
            maybe("text", Text, "one sentence (`full`)"),
        ],
    },
    TableSchema {
        name: "sessions",
        about: "a session",
        columns: &[
            maybe("started", Moment, "when its first record was made"),
            maybe("ended", Moment, "when its last record was made"),
            maybe("date", Day, "the day of `started`"),
            maybe("cwd", Text, "the working directory (not with `none`)"),
            maybe("git_branch", Text, "the git branch (not with `none`)"),
            maybe("client_version", Text, "the version of the client"),
            maybe("forked_from", Text, "the session that it is a fork of"),
            never("bytes", Number, "the size of its files"),
            never("records", Number, "records in its files"),
            never("prompts", Number, "turns that a person opened, without copies"),
            never("compactions", Number, "how often it was compacted"),
            never("agents", Number, "files of sub-agents"),
            never("damaged_lines", Number, "lines that are not whole records"),
            maybe("verdict", Text, "whether it resumes: `full`, `loss`, `rejected`, `refused`"),
            maybe("lost_messages", Number, "messages that are lost when it is resumed"),
            maybe("title", Text, "its title (`full`)"),
            maybe("first_prompt", Text, "its first prompt (`full`)"),
        ],
    },
];

/// The Parquet schemas of all tables, in their order.
static PARQUET: LazyLock<Vec<Option<Arc<Type>>>> =
    LazyLock::new(|| TABLES.iter().map(|table| parquet(table).ok()).collect());

/// The Parquet schema of a table, by its place in [`TABLES`].
pub(crate) fn parquet_of(table: usize) -> Result<Arc<Type>, LakeError> {
    let made = PARQUET.get(table).and_then(Clone::clone);
    made.ok_or_else(|| LakeError::Parquet("a table has no schema".to_owned()))
}

fn parquet(table: &TableSchema) -> parquet::errors::Result<Arc<Type>> {
    let fields = table.all().map(|column| Ok(Arc::new(field(column)?)));
    let fields: parquet::errors::Result<Vec<_>> = fields.collect();
    Ok(Arc::new(Type::group_type_builder(table.name).with_fields(fields?).build()?))
}

fn field(column: &Column) -> parquet::errors::Result<Type> {
    let (physical, logical) = match column.holds {
        Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Number => (Physical::INT64, None),
        Flag => (Physical::BOOLEAN, None),
        Dollars => (Physical::INT64, Some(LogicalType::decimal(SCALE, PRECISION))),
        Moment => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
        Day => (Physical::INT32, Some(LogicalType::Date)),
    };
    let repetition = match column.null {
        Null::Never => Repetition::REQUIRED,
        Null::Maybe => Repetition::OPTIONAL,
    };
    let mut builder = Type::primitive_type_builder(column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical);
    if column.holds == Dollars {
        builder = builder.with_precision(PRECISION).with_scale(SCALE);
    }
    builder.build()
}

/// Digits after the point of dollars.
const SCALE: i32 = 12;
/// All digits of dollars.
const PRECISION: i32 = 18;
/// The most that fits: no call costs a million dollars.
pub(crate) const MOST_DOLLARS: i64 = 999_999_999_999_999_999;
