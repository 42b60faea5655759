//! `TodoWrite`: the todo list, for the model and for people.
//!
//! Invariant: a list that is done is removed: the next one begins anew.

use std::mem;
use std::sync::PoisonError;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Answer, Call, Site, Trouble};

/// The message for the model.
const TOLD: &str = "The todo list is updated. Keep it up to date as you go on.";

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Todo {
    content: String,
    status: String,
    active_form: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TodoWriteDetail {
    old_todos: Vec<Todo>,
    new_todos: Vec<Todo>,
}

pub(super) fn run(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    let todos = call.input.get("todos").and_then(Value::as_array).cloned().unwrap_or_default();
    let new_todos = typed(&todos)?;
    let is_done = new_todos.iter().all(|todo| todo.status == "completed");
    let kept = if is_done { Vec::new() } else { todos };
    let mut list = site.todos.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = &site.todo_file {
        // People and programs may read it; the list itself is in the transcript.
        let text = serde_json::to_vec_pretty(&kept).unwrap_or_default();
        let _ = files::put(path, &text, files::Durability::Process);
    }
    let old_todos = typed(&mem::replace(&mut *list, kept))?;
    Ok(Answer::text(TOLD, &TodoWriteDetail { old_todos, new_todos }))
}

fn typed(todos: &[Value]) -> Result<Vec<Todo>, Trouble> {
    let wrong = |why| Trouble::wrong(format!("A todo is wrong: {why}"));
    let typed: Vec<Todo> = todos
        .iter()
        .map(|todo| Todo::deserialize(todo).map_err(|why| wrong(why.to_string())))
        .collect::<Result<_, _>>()?;
    let is_known = |todo: &&Todo| ["pending", "in_progress", "completed"].contains(&&*todo.status);
    match typed.iter().find(|todo| !is_known(todo)) {
        Some(todo) => Err(wrong(format!("`{}` is no status", todo.status))),
        None => Ok(typed),
    }
}

#[cfg(test)]
#[path = "todo_write_tests.rs"]
mod tests;
