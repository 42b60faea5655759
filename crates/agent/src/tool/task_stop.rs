//! `TaskStop`: kills a command in the background.

use serde::Serialize;

use super::{Answer, Call, Site, Trouble, text};
use crate::shell::Status;

#[derive(Serialize)]
struct TaskStopDetail<'a> {
    message: String,
    task_id: &'a str,
    task_type: &'a str,
    command: &'a str,
}

pub(super) fn run(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    // The second is the parameter's older name.
    let id = if call.input.contains_key("task_id") { "task_id" } else { "shell_id" };
    let id = text(call, id);
    let Some(known) = site.shells.known(id) else {
        return Err(Trouble::wrong(format!("No task found with ID: {id}")));
    };
    if known.status != Status::Running {
        return Err(Trouble::wrong(format!("Task {id} is not running")));
    }
    site.shells.set_news(id, false);
    site.shells.kill(id);
    let detail = TaskStopDetail {
        message: format!("Successfully stopped task: {id} ({})", known.command),
        task_id: id,
        task_type: "local_bash",
        command: &known.command,
    };
    let json = super::raw(&detail).get().to_owned();
    Ok(Answer::text(json, &detail))
}
