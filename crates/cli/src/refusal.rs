//! Why a client does not resume a session, in words.

use transcript::client::history::Refusal;
use transcript::conversation::Conversation;
use transcript::conversation::table::RowId;

/// The line number of a record; its byte offset if not all lines were read.
pub(crate) fn place(conversation: &Conversation, row: RowId) -> String {
    let row = conversation.table.row(row);
    if conversation.table.start == 0 {
        format!("line {}", row.line)
    } else {
        format!("byte {}", row.offset)
    }
}

/// Why a client does not resume.
pub(crate) fn why(conversation: &Conversation, refusal: Refusal) -> String {
    let line = |row| place(conversation, row);
    match refusal {
        Refusal::Nothing => "it contains no conversation".to_owned(),
        Refusal::NoEnd => "it has no end to continue from".to_owned(),
        Refusal::NoTime(row) => format!("the record at {} has no valid time", line(row)),
        Refusal::Input(row) => {
            format!("it ends with a call at {} whose input has an unexpected type", line(row))
        }
        Refusal::Null(line) => format!("line {line} is `null`, and the client exits on it"),
        Refusal::Loop(row) => {
            format!("the parent links form a cycle at {}; the client never returns", line(row))
        }
    }
}
