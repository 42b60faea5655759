//! `TaskOutput`: what a command in the background has written so far, or at its end.
//!
//! Invariant: of long output, the model gets the end, because that is new, and the path of all of
//! it, which remains after the session if the command has ended.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::bash::{flooded, kept};
use super::{Answer, Call, Site, Trouble, number, text};
use crate::shell::{Status, tail};

/// How long to wait for a command by default and at most, in milliseconds.
const USUAL: u64 = 30_000;
const LONGEST: u64 = 600_000;
/// How many bytes of the output the model gets.
const TOLD: usize = 30_000;

#[derive(Serialize)]
struct TaskOutputDetail<'a> {
    retrieval_status: &'a str,
    task: Task<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::struct_field_names, reason = "the client's names")]
struct Task<'a> {
    task_id: &'a str,
    task_type: &'a str,
    status: &'a str,
    description: &'a str,
    output: &'a str,
    #[serde(rename = "exitCode")]
    exit_code: Option<i32>,
}

pub(super) fn run(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    let id = text(call, "task_id");
    if site.shells.known(id).is_none() {
        return Err(Trouble::wrong(format!("No task found with ID: {id}")));
    }
    let blocks = call.input.get("block").and_then(Value::as_bool).unwrap_or(true);
    let most = number(call, "timeout").map_or(USUAL, |asked| asked as u64).min(LONGEST);
    if blocks {
        site.shells.wait(id, Duration::from_millis(most), |_| call.cancel.is_set());
    }
    let Some(known) = site.shells.known(id) else {
        return Err(Trouble::wrong(format!("No task found with ID: {id}")));
    };
    if known.status != Status::Running {
        site.shells.set_news(id, false);
    }
    let (mut output, left) = tail(&site.shells.output(id), TOLD, &site.secrets).unwrap_or_default();
    if left > 0 {
        let is_running = known.status == Status::Running;
        let whole = if is_running { None } else { kept(id, site).ok() };
        let whole = whole.unwrap_or_else(|| site.shells.output(id));
        let whole = whole.display();
        output =
            format!("[the first {left} bytes are left out; all of it is in {whole}]\n{output}");
    }
    let (status, code) = match known.status {
        Status::Running => ("running", None),
        Status::Ended(0) => ("completed", Some(0)),
        Status::Ended(code) => ("failed", Some(code)),
        Status::Killed | Status::Flooded => ("killed", Some(137)),
    };
    let got = match (known.status, blocks) {
        (Status::Running, true) => "timeout",
        (Status::Running, false) => "not_ready",
        _ => "success",
    };
    let mut message = format!(
        "<retrieval_status>{got}</retrieval_status>\n\n<task_id>{id}</task_id>\n\n<task_type>local_bash</task_type>\n\n<status>{status}</status>"
    );
    if let Some(code) = code {
        let _ = write!(message, "\n\n<exit_code>{code}</exit_code>");
    }
    if !output.is_empty() {
        let _ = write!(message, "\n\n<output>\n{}\n</output>", output.trim_end_matches('\n'));
    }
    if known.status == Status::Flooded {
        let _ = write!(message, "\n\n<error>{}</error>", flooded());
    }
    let task = Task {
        task_id: id,
        task_type: "local_bash",
        status,
        description: known.name(),
        output: &output,
        exit_code: code,
    };
    Ok(Answer::text(message, &TaskOutputDetail { retrieval_status: got, task }))
}
