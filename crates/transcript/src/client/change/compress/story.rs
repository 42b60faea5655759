//! What happened in the turns that are summed up: prompts, files, commands, decisions, errors and
//! what solved them, things to do.
//!
//! Invariants: everything has the number of its turn, as `quipu turns` counts; each list is
//! bounded, and the oldest go first.

use hashbrown::HashMap;

use super::cue::Failed;
use super::seen::{CallSeen, NEW_TASK, PromptSeen, ResultSeen, Said, Seen, TextSeen, is_shell};
use crate::conversation::table::BlockId;

/// What happened.
#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) prompts: Vec<Dated<PromptSeen>>,
    pub(super) files: Vec<FileUse>,
    pub(super) commands: Vec<CommandUse>,
    pub(super) decisions: Vec<Dated<(u32, String)>>,
    pub(super) errors: Vec<ErrorSeen>,
    /// What is still to be done.
    pub(super) todos: Vec<String>,
    /// What each turn ended with.
    pub(super) answers: Vec<Dated<String>>,
    /// All calls, as one line each.
    pub(super) calls: Vec<Dated<String>>,
    /// The summary of an earlier compaction.
    pub(super) earlier: Option<String>,
    /// The number of the last turn.
    pub(super) turns: usize,
}

/// Something with the number of its turn.
#[derive(Clone, Debug)]
pub(super) struct Dated<T> {
    pub(super) turn: usize,
    pub(super) what: T,
}

/// A file that calls read or wrote.
#[derive(Debug)]
pub(super) struct FileUse {
    pub(super) path: String,
    pub(super) read: u32,
    pub(super) edited: u32,
    pub(super) written: u32,
    pub(super) turn: usize,
}

/// A command, and how it ended the last time.
#[derive(Debug)]
pub(super) struct CommandUse {
    pub(super) command: String,
    pub(super) runs: u32,
    pub(super) failed: Failed,
    pub(super) exit: Option<i64>,
    pub(super) lines: Vec<String>,
    pub(super) turn: usize,
}

/// Something that failed, and what came after it.
#[derive(Debug)]
pub(super) struct ErrorSeen {
    pub(super) turn: usize,
    /// The command or the call.
    pub(super) what: String,
    pub(super) is_command: bool,
    pub(super) lines: Vec<String>,
    /// What was answered after it.
    pub(super) fix: Option<String>,
    /// What was edited before it worked.
    pub(super) edited: Vec<String>,
    /// The turn in which the same command worked.
    pub(super) solved: Option<usize>,
    /// How many texts came after it.
    texts: u32,
}

/// How many entries a list has at most.
const MOST: usize = 20_000;
/// How many texts after an error may say how it is solved, and how many files are named.
const TEXTS: u32 = 3;
const EDITED: usize = 3;

/// Builds a story, record by record.
#[derive(Debug, Default)]
pub(super) struct Builder {
    story: Story,
    files: HashMap<String, usize>,
    commands: HashMap<String, usize>,
    /// Calls whose results are still to be read.
    open: HashMap<BlockId, CallSeen>,
    /// Things to do by number: what, and its state.
    tasks: Vec<(String, String)>,
    todos: Vec<(String, bool)>,
    /// Errors that nothing has solved yet.
    unsolved: Vec<usize>,
    last: Option<Dated<String>>,
}

impl Builder {
    pub(super) fn add(&mut self, turn: usize, seen: Seen) {
        if self.last.as_ref().is_some_and(|last| last.turn != turn) {
            self.story.answers.extend(self.last.take());
        }
        self.story.turns = turn;
        match seen {
            Seen::Nothing => {}
            Seen::Prompt(what) => self.story.prompts.push(Dated { turn, what }),
            Seen::Summary(text) => self.story.earlier = Some(text),
            Seen::Answer(spoken) => {
                for one in spoken {
                    match one {
                        Said::Text(text) => self.text(turn, text),
                        Said::Call(call) => self.call(turn, call),
                    }
                }
            }
            Seen::Results(results) => {
                for result in results {
                    self.result(turn, result);
                }
            }
        }
    }

    pub(super) fn finish(mut self) -> Story {
        self.story.answers.extend(self.last.take());
        let open = self.todos.into_iter().filter(|(_, is_done)| !is_done).map(|(what, _)| what);
        self.story.todos.extend(open);
        let is_open = |state: &str| !matches!(state, "completed" | "deleted");
        let open = self.tasks.into_iter().filter(|(_, state)| is_open(state));
        self.story.todos.extend(open.map(|(what, _)| what));
        self.story
    }

    fn text(&mut self, turn: usize, text: TextSeen) {
        for error in &self.unsolved {
            let error = &mut self.story.errors[*error];
            error.texts += 1;
            if error.texts <= TEXTS && error.fix.is_none() {
                error.fix.clone_from(&text.fix);
            }
        }
        let dated = text.decisions.into_iter().map(|what| Dated { turn, what });
        push(&mut self.story.decisions, dated);
        self.last = Some(Dated { turn, what: text.start });
    }

    fn call(&mut self, turn: usize, call: CallSeen) {
        if let Some(todos) = &call.todos {
            self.todos.clone_from(todos);
        }
        if call.tool == NEW_TASK {
            self.tasks.push((call.about.clone(), String::new()));
        }
        if let Some((number, state)) = &call.task
            && let Some(task) =
                number.parse().ok().and_then(|at: usize| self.tasks.get_mut(at.checked_sub(1)?))
            && !state.is_empty()
        {
            task.1.clone_from(state);
        }
        if let Some(path) = &call.file {
            self.file(turn, path, &call.tool);
        }
        if call.is_awaited {
            self.open.insert(call.block, call);
        }
    }

    fn file(&mut self, turn: usize, path: &str, tool: &str) {
        let at = *self.files.entry_ref(path).or_insert_with(|| {
            let path = path.to_owned();
            let (read, edited, written) = (0, 0, 0);
            self.story.files.push(FileUse { path, read, edited, written, turn });
            self.story.files.len() - 1
        });
        let file = &mut self.story.files[at];
        file.turn = turn;
        match tool {
            "Write" => file.written += 1,
            "Edit" | "MultiEdit" | "NotebookEdit" => file.edited += 1,
            _ => file.read += 1,
        }
        if !matches!(tool, "Write" | "Edit" | "MultiEdit" | "NotebookEdit") {
            return;
        }
        for error in &self.unsolved {
            let edited = &mut self.story.errors[*error].edited;
            if edited.len() < EDITED && !edited.iter().any(|known| known == path) {
                edited.push(path.to_owned());
            }
        }
    }

    fn result(&mut self, turn: usize, result: ResultSeen) {
        let Some(call) = self.open.remove(&result.call) else { return };
        if let Some(text) = result.decision {
            let what = (DECISION, call.plan.map_or(text, |plan| format!("plan: {plan}")));
            return push(&mut self.story.decisions, [Dated { turn, what }]);
        }
        let is_command = is_shell(&call.tool);
        if is_command {
            self.command(turn, &call, &result);
        }
        if result.failed == Failed::No || call.tool == NEW_TASK {
            return;
        }
        let what = if is_command { call.about } else { format!("{} {}", call.tool, call.about) };
        // The same thing that fails again is one error.
        if let Some(at) =
            self.unsolved.iter().copied().find(|at| self.story.errors[*at].what == what)
        {
            let error = &mut self.story.errors[at];
            (error.turn, error.lines, error.texts) = (turn, result.lines, 0);
            return;
        }
        if self.story.errors.len() >= MOST {
            return;
        }
        self.unsolved.push(self.story.errors.len());
        if self.unsolved.len() > OPEN {
            self.unsolved.remove(0);
        }
        self.story.errors.push(ErrorSeen {
            turn,
            what,
            is_command,
            lines: result.lines,
            fix: None,
            edited: Vec::new(),
            solved: None,
            texts: 0,
        });
    }

    fn command(&mut self, turn: usize, call: &CallSeen, result: &ResultSeen) {
        if result.failed == Failed::No {
            let errors = &mut self.story.errors;
            self.unsolved.retain(|at| {
                let is_same = errors[*at].is_command && is_alike(&errors[*at].what, &call.about);
                if is_same {
                    errors[*at].solved = Some(turn);
                }
                !is_same
            });
        }
        let at = *self.commands.entry_ref(call.about.as_str()).or_insert_with(|| {
            self.story.commands.push(CommandUse {
                command: call.about.clone(),
                runs: 0,
                failed: Failed::No,
                exit: None,
                lines: Vec::new(),
                turn,
            });
            self.story.commands.len() - 1
        });
        let known = &mut self.story.commands[at];
        known.runs += 1;
        (known.turn, known.failed, known.exit) = (turn, result.failed, result.exit);
        known.lines.clone_from(&result.lines);
    }

    /// Notes all calls, as one line each.
    pub(super) fn note_call(&mut self, turn: usize, line: String) {
        push(&mut self.story.calls, [Dated { turn, what: line }]);
    }
}

/// How much an answer of the user, an accepted plan or a report weighs: as much as a sentence that
/// says that it decides.
const DECISION: u32 = 4;

/// How many errors wait for what solves them.
const OPEN: usize = 16;

fn push<T>(list: &mut Vec<T>, more: impl IntoIterator<Item = T>) {
    list.extend(more);
    if list.len() > MOST {
        list.drain(..MOST / 2);
    }
}

/// Whether two commands do the same: the program and its first argument, whatever comes before them
/// (`cd …`) and behind.
fn is_alike(one: &str, other: &str) -> bool {
    let key = |command: &str| -> Vec<String> {
        let last = command.split("&&").map(str::trim).find(|part| !part.starts_with("cd "));
        let words = last.unwrap_or(command).split_whitespace().filter(|word| !word.contains('='));
        words.take(2).map(str::to_owned).collect()
    };
    one == other || key(one) == key(other)
}
