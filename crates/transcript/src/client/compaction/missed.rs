//! What people miss after a compaction: prompts, paths, commands, numbers, things to do.
//!
//! Invariants: what is listed occurs nowhere in what is sent; each list is bounded, and says how
//! many it left out.

use hashbrown::{HashMap, HashSet};
use serde::Serialize;

use super::quoted::{Quotes, whole_text};
use super::{LostBlock, PieceKind, SentPiece, shortened};
use crate::format::content::Block;
use crate::format::json::Json;

/// How many entries a list has at most.
const MOST: usize = 500;
/// How much of a text is kept.
const LONGEST: usize = 400;

/// What occurs nowhere any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Missed {
    /// Prompts that are not quoted whole.
    pub prompts: Vec<MissedText>,
    /// Files and folders of calls.
    pub paths: Vec<MissedText>,
    /// Commands.
    pub commands: Vec<MissedText>,
    /// Numbers in prompts and answers.
    pub numbers: Vec<MissedText>,
    /// Things that are still to be done.
    pub todos: Vec<MissedText>,
    /// How many more there are than the lists have.
    pub more: usize,
}

/// Something that is missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissedText {
    /// The last turn that has it.
    pub turn: usize,
    /// What it is.
    pub text: String,
}

impl Missed {
    /// The lists, with what they are called.
    pub fn lists(&self) -> [(&'static str, &[MissedText]); 5] {
        [
            ("prompts", &self.prompts),
            ("paths", &self.paths),
            ("commands", &self.commands),
            ("numbers", &self.numbers),
            ("open todos", &self.todos),
        ]
    }

    pub(super) fn new(before: &[SentPiece], lost: &[LostBlock], quotes: &Quotes) -> Missed {
        let mut found = FoundFacts::default();
        for piece in before {
            found.add(piece);
        }
        let mut missed = Missed::default();
        let prompts = lost.iter().filter(|block| block.kind == PieceKind::Prompt);
        let prompts = prompts.filter_map(|block| {
            let text = whole_text(Json::trusted(&before[block.place].raw))?;
            Some((shortened(&text, LONGEST), block.turn))
        });
        missed.prompts = listed(&prompts.collect::<Vec<_>>(), &mut missed.more);
        let names = Names::new(found.paths.iter().map(|(path, _)| path.as_str()));
        found.paths.retain(|(path, _)| !names.occurs(path, quotes));
        missed.paths = listed(&found.paths, &mut missed.more);
        found.commands.retain(|(command, _)| !quotes.has_word(first_line(command)));
        missed.commands = listed(&found.commands, &mut missed.more);
        found.numbers.retain(|(number, _)| !quotes.has_word(number));
        missed.numbers = listed(&found.numbers, &mut missed.more);
        let mut todos = found.todos.into_open();
        todos.retain(|(todo, _)| !quotes.has_word(todo));
        missed.todos = listed(&todos, &mut missed.more);
        missed
    }

    /// Whether nothing is missed.
    pub fn is_empty(&self) -> bool {
        *self == Missed::default()
    }
}

/// Each once, with its last turn; the newest if there are too many.
fn listed(all: &[(String, usize)], more: &mut usize) -> Vec<MissedText> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut each: Vec<(&str, usize)> = Vec::new();
    for (text, turn) in all {
        let place = *places.entry(text).or_insert_with(|| {
            each.push((text, *turn));
            each.len() - 1
        });
        each[place].1 = *turn;
    }
    let from = each.len().saturating_sub(MOST);
    *more += from;
    let each = each[from..].iter();
    each.map(|(text, turn)| MissedText { turn: *turn, text: shortened(text, LONGEST) }).collect()
}

fn first_line(command: &str) -> &str {
    command.trim().lines().next().unwrap_or_default()
}

/// What was said before, each with its turn.
#[derive(Debug, Default)]
struct FoundFacts {
    paths: Vec<(String, usize)>,
    commands: Vec<(String, usize)>,
    numbers: Vec<(String, usize)>,
    seen: HashSet<String>,
    todos: Todos,
}

impl FoundFacts {
    fn add(&mut self, piece: &SentPiece) {
        let json = Json::trusted(&piece.raw);
        match piece.kind {
            PieceKind::Prompt | PieceKind::Answer => {
                for number in numbers(&whole_text(json).unwrap_or_default()) {
                    if self.seen.insert(number.to_owned()) {
                        self.numbers.push((number.to_owned(), piece.turn));
                    }
                }
            }
            PieceKind::Call => {
                let Some(block) = Block::of(json) else { return };
                let (Some(tool), Some(input)) = (block.tool(), block.get("input")) else { return };
                let text = |name: &str| Some(input.get(name)?.text()?.trim().to_owned());
                for name in ["file_path", "notebook_path", "path"] {
                    let path = text(name).filter(|path| path.len() > 2);
                    self.paths.extend(path.map(|path| (path, piece.turn)));
                }
                if matches!(&*tool, "Bash" | "PowerShell") {
                    let command = text("command").filter(|command| !command.is_empty());
                    self.commands.extend(command.map(|command| (command, piece.turn)));
                }
                self.todos.add(&tool, input, piece.turn);
            }
            _ => {}
        }
    }
}

/// The numbers in a text: at least two digits, with what belongs to them.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |character: char| {
        character.is_alphanumeric() || matches!(character, '.' | ',' | '%' | '_' | '-' | ':' | '/')
    };
    text.split(move |character| !is_part(character)).filter_map(|word| {
        let word = word.trim_matches(['.', ',', ':', '-', '_', '/']);
        let is_number = word.chars().all(|one| one.is_ascii_digit() || ".,%:".contains(one));
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        (is_number && digits >= 2 && word.len() <= 24).then_some(word)
    })
}

/// How paths are named: whole, by their last two parts, or by the last one if no other path ends
/// with it.
#[derive(Debug)]
struct Names(HashMap<String, HashSet<String>>);

impl Names {
    fn new<'a>(paths: impl Iterator<Item = &'a str>) -> Names {
        let mut names: HashMap<String, HashSet<String>> = HashMap::new();
        for path in paths {
            names.entry(last(path, 1).to_owned()).or_default().insert(path.to_owned());
        }
        Names(names)
    }

    fn occurs(&self, path: &str, quotes: &Quotes) -> bool {
        let name = last(path, 1);
        let is_only = self.0.get(name).is_some_and(|paths| paths.len() == 1);
        quotes.has_word(path)
            || quotes.has_word(last(path, 2))
            || (is_only && name.len() > 3 && quotes.has_word(name))
    }
}

/// The last parts of a path.
fn last(path: &str, count: usize) -> &str {
    let path = path.trim_end_matches(['/', '\\']);
    let mut at = path.len();
    for _ in 0..count {
        at = path[..at].rfind(['/', '\\']).unwrap_or(0);
        if at == 0 {
            return path.trim_start_matches(['/', '\\']);
        }
    }
    &path[at + 1..]
}

/// The things to do: a list that is written as a whole, and single ones by number.
#[derive(Debug, Default)]
struct Todos {
    list: Vec<(String, usize)>,
    tasks: Vec<(String, usize, bool)>,
}

impl Todos {
    fn add(&mut self, tool: &str, input: Json<'_>, turn: usize) {
        let text = |json: Json<'_>, name: &str| Some(json.get(name)?.text()?.trim().to_owned());
        match tool {
            "TodoWrite" => {
                let todos = input.get("todos").into_iter().flat_map(Json::elements);
                let open = todos.filter(|todo| {
                    !todo.get("status").is_some_and(|status| status.is("completed"))
                });
                let open = open.filter_map(|todo| text(todo, "content"));
                self.list = open.map(|todo| (todo, turn)).collect();
            }
            "TaskCreate" => {
                self.tasks.push((text(input, "subject").unwrap_or_default(), turn, true));
            }
            "TaskUpdate" => {
                let number = text(input, "taskId").and_then(|id| id.parse::<usize>().ok());
                let task = number.and_then(|number| self.tasks.get_mut(number.checked_sub(1)?));
                if let (Some(task), Some(state)) = (task, text(input, "status")) {
                    task.2 = !matches!(state.as_str(), "completed" | "deleted");
                }
            }
            _ => {}
        }
    }

    fn into_open(self) -> Vec<(String, usize)> {
        let tasks = self.tasks.into_iter().filter(|(_, _, is_open)| *is_open);
        let tasks = tasks.map(|(task, turn, _)| (task, turn));
        let mut open: Vec<_> = self.list.into_iter().chain(tasks).collect();
        open.retain(|(todo, _)| !todo.is_empty());
        open
    }
}
