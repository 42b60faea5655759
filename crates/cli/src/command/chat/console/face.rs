//! What a session tells the console.
//!
//! Invariant: nothing here waits for the console; what it cannot take yet waits in a channel.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use ::console::News;
use ::console::input::Waker;
use ::console::question::{Change, Question};
use ::console::screen::{AgentRow, Cache, Ending, Meter, Task, Todo};
use agent::event::{AgentId, Event};
use agent::host::{Asked, AskedWhat, Host, Listener, Preview, Summary};
use agent::tool::{Answer, Content, Site};
use agent::turn::Outcome;
use serde_json::Value;
use transcript::conversation::price;

use super::rule_place::RulePlaces;

/// How often the output of a command that runs is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Shows a session on the console.
pub(super) struct Face {
    news: Sender<News>,
    waker: Waker,
    site: Arc<Site>,
    places: RulePlaces,
    meter: Meter,
    /// The commands whose output is shown while they run, and how to end that.
    followed: HashMap<String, Arc<AtomicBool>>,
    /// Agents at work, and the calls that started them.
    agents: Vec<(String, AgentId, AgentRow)>,
    /// What calls want, in a few words, until they have a result.
    calls: Vec<(String, String)>,
    /// Commands in the background.
    tasks: Vec<Task>,
}

impl Face {
    pub(super) fn new(news: Sender<News>, waker: Waker, places: RulePlaces) -> Face {
        let site = places.site.clone();
        let window = window(&site.model.1);
        let meter = Meter { window, ..Meter::default() };
        Face {
            news,
            waker,
            site,
            places,
            meter,
            followed: HashMap::new(),
            agents: Vec::new(),
            calls: Vec::new(),
            tasks: Vec::new(),
        }
    }

    fn tell(&self, news: News) {
        // If the console has ended, so does the session.
        let _ = self.news.send(news);
        self.waker.wake();
    }

    fn tell_agents(&self) {
        self.tell(News::Agents(self.agents.iter().map(|(_, _, row)| row.clone()).collect()));
    }

    /// Notes a command that goes on in the background.
    fn backgrounded(&mut self, call: &str, detail: &Value) {
        let command = self.calls.iter().position(|(id, _)| id == call);
        let command = command.map(|at| self.calls.remove(at).1).unwrap_or_default();
        if let Some(id) = detail["backgroundTaskId"].as_str() {
            self.tasks.push(Task { id: id.to_owned(), command });
            self.tell(News::Tasks(self.tasks.clone()));
        }
    }

    /// A prompt may be the notice that a command in the background has ended.
    fn prompted(&mut self, blocks: &[String]) {
        let count = self.tasks.len();
        self.tasks.retain(|task| {
            let mark = format!("<task-id>{}</task-id>", task.id);
            !blocks
                .iter()
                .any(|block| block.contains("<task-notification>") && block.contains(&mark))
        });
        if self.tasks.len() < count {
            self.tell(News::Tasks(self.tasks.clone()));
            self.tell(News::Notice("a command in the background has ended".to_owned()));
        }
    }

    /// What a sub-agent does.
    fn inner(&mut self, agent: &AgentId, event: &Event) {
        let Some((_, _, row)) = self.agents.iter_mut().find(|(_, id, _)| id == agent) else {
            return;
        };
        match event {
            Event::ToolStarted { tool, .. } => {
                tool.clone_into(&mut row.now);
            }
            Event::ToolFinished { .. } => row.calls += 1,
            Event::Notice(text) => {
                let text = text.clone();
                self.tell(News::Notice(text));
            }
            _ => return,
        }
        self.tell_agents();
    }

    /// Shows the end of what a command prints, until it has a result. The engine's own news of it
    /// have the beginning, which is what it records.
    fn follow(&mut self, call: &str, task: &str) {
        if self.followed.contains_key(call) {
            return;
        }
        let is_over: Arc<AtomicBool> = Arc::default();
        self.followed.insert(call.to_owned(), is_over.clone());
        let (site, news, waker) = (self.site.clone(), self.news.clone(), self.waker.clone());
        let (id, task) = (call.to_owned(), task.to_owned());
        thread::spawn(move || {
            let mut shown = String::new();
            while !is_over.load(Ordering::SeqCst) {
                if let Some(text) = site.printed(&task).filter(|text| *text != shown) {
                    shown.clone_from(&text);
                    if news.send(News::Output { id: id.clone(), text }).is_err() {
                        break;
                    }
                    waker.wake();
                }
                thread::sleep(LOOK);
            }
        });
    }

    fn unfollow(&mut self, call: &str) {
        if let Some(is_over) = self.followed.remove(call) {
            is_over.store(true, Ordering::SeqCst);
        }
    }

    fn ended(&mut self, summary: &Summary) {
        for (_, is_over) in self.followed.drain() {
            is_over.store(true, Ordering::SeqCst);
        }
        let mut costs =
            summary.models.iter().map(|(model, usage)| Some(usage.cost(model)?.total()));
        self.meter.cost = costs.try_fold(0.0, |sum, cost| Some(sum + cost?));
        self.meter.api += u64::try_from(summary.api).unwrap_or_default();
        self.tell(News::Meter(self.meter));
        let ending = match &summary.outcome {
            Outcome::Answered(_) => Ending::Answered,
            Outcome::Interrupted => Ending::Interrupted,
            Outcome::Unfinished(why) => Ending::Failed((*why).to_owned()),
            Outcome::NoOutput(_) => {
                Ending::Failed("there is no result in the form that was asked for".to_owned())
            }
            Outcome::MaxTurns(most) => {
                Ending::Failed(format!("the limit of {most} requests is reached"))
            }
            Outcome::OverBudget => Ending::Failed("the budget is used up".to_owned()),
            Outcome::Blocked(why) | Outcome::Halted(why) => Ending::Failed(why.clone()),
            Outcome::Failed(error) => Ending::Failed(error.to_string()),
            Outcome::Unwritable(why) => {
                Ending::Failed(format!("the session could not be written: {why}"))
            }
            Outcome::Deferred(call) => Ending::Failed(format!("a hook put {} off", call.name)),
        };
        self.tell(News::End(ending));
    }

    /// Takes an answer to what the console asked of the session.
    fn controlled(&mut self, answer: &Value) {
        let usage = &answer["response"]["response"];
        if let (Some(used), Some(window)) =
            (usage["totalTokens"].as_u64(), usage["maxTokens"].as_u64())
        {
            (self.meter.context, self.meter.window) = (used, window);
            self.tell(News::Meter(self.meter));
        } else if let Some(news) = super::rewind::heard(answer) {
            for news in news {
                self.tell(news);
            }
        } else if let Some(why) = answer["response"]["error"].as_str() {
            self.tell(News::Notice(why.to_owned()));
        }
    }
}

/// How many tokens a model has room for.
pub(super) fn window(model: &str) -> u64 {
    price::known(model).and_then(|price| price.max_input_tokens).unwrap_or(200_000)
}

/// A part of a command, in words.
fn part(part: &rules::Part) -> (String, String, String) {
    (part.text.clone(), part.decision.name().to_owned(), part.why.clone())
}

/// What a call would do to a file.
fn change(preview: &Result<Preview, String>) -> Result<Change, String> {
    let Preview { path, before, after } = preview.clone()?;
    Ok(Change { path, before, after })
}

/// The text of a result.
fn text(answer: &Answer) -> String {
    match &answer.content {
        Content::Text(text) => text.clone(),
        Content::Blocks(blocks) => {
            let text = |block: Value| match block["type"].as_str() {
                Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
                kind => format!("[{}]", kind.unwrap_or("block")),
            };
            let values = blocks.iter().filter_map(|block| serde_json::from_str(block.get()).ok());
            values.map(text).collect::<Vec<_>>().join("\n")
        }
    }
}

impl Listener for Face {
    fn event(&mut self, agent: &AgentId, event: &Event) {
        if *agent != AgentId::Main
            && !matches!(event, Event::AgentStarted { .. } | Event::AgentEnded { .. })
        {
            self.inner(agent, event);
            return;
        }
        match event {
            Event::TurnBegan { model, mode } => {
                self.tell(News::Mode(mode.name().to_owned()));
                self.tell(News::Model(model.clone()));
                self.meter.window = window(model);
                self.tell(News::Branch(branch(&self.site.root)));
                self.tell(News::Begin);
            }
            Event::Prompted { id, blocks, .. } => {
                self.tell(News::Prompted(id.clone()));
                self.prompted(blocks);
            }
            Event::TextDelta(text) => self.tell(News::Text(text.clone())),
            Event::ThinkingDelta(text) => self.tell(News::Thinking(text.clone())),
            Event::Block { block, .. } => {
                self.tell(News::BlockEnd);
                if let (Some(id), Ok(value)) =
                    (&block.call, serde_json::from_str::<Value>(&block.block))
                {
                    let name = value["name"].as_str().unwrap_or_default().to_owned();
                    let command = value["input"]["command"].as_str().unwrap_or(&name).to_owned();
                    self.calls.push((id.clone(), command));
                    self.tell(News::Call { id: id.clone(), name, input: value["input"].clone() });
                }
            }
            Event::ToolOutput { call, progress } => {
                let value = serde_json::to_value(progress).unwrap_or_default();
                let task = value["taskId"].as_str().unwrap_or_default();
                // Also of a command that prints nothing: while it runs, prompts can be taken.
                let text = self.site.printed(task).unwrap_or_default();
                self.tell(News::Output { id: call.clone(), text });
                self.follow(call, task);
            }
            Event::Recorded { entry: agent::turn::Entry::Result(call, answer), .. } => {
                let detail = serde_json::from_str(answer.detail.get()).unwrap_or_default();
                let is_error = answer.is_error == Some(true);
                self.unfollow(call);
                self.backgrounded(call, &detail);
                self.tell(News::Result { id: call.clone(), is_error, text: text(answer), detail });
            }
            Event::Todos(todos) => self.tell(News::Todos(Todo::list(&Value::Array(todos.clone())))),
            Event::Mode(mode) => self.tell(News::Mode(mode.name().to_owned())),
            Event::Usage(used) => {
                self.meter.context = used.used;
                self.meter.window = used.window.unwrap_or(self.meter.window);
                self.meter.cache = Cache::Warm;
                let last = used.last;
                let written = last.cache_5m + last.cache_1h;
                self.meter.usage = [last.input, last.output, written, last.cache_read];
                self.tell(News::Meter(self.meter));
            }
            Event::Compacting { .. } => {
                self.tell(News::Notice("the conversation is being summarised".to_owned()));
            }
            Event::Compacted(done) => {
                let text =
                    format!("summarised: {} tokens before, about {} now", done.before, done.after);
                self.tell(News::Notice(text));
                self.tell(News::Shortened);
            }
            Event::AgentStarted { call, kind, description, .. } => {
                let row = AgentRow {
                    about: format!("{kind}: {description}"),
                    now: String::new(),
                    calls: 0,
                    is_done: false,
                };
                self.agents.push((call.clone(), agent.clone(), row));
                self.tell_agents();
            }
            Event::AgentEnded { call, .. } => {
                self.agents.retain(|(started, ..)| started != call);
                self.tell_agents();
            }
            Event::Retry { error, failures, most, wait } => {
                self.tell(News::Retry(format!("{error} (attempt {failures} of {most})"), *wait));
            }
            Event::Denied { tool, why, .. } => {
                self.tell(News::Notice(format!("{tool} was refused: {why}")));
            }
            Event::Controlled(answer) => self.controlled(answer),
            Event::HookEnded { name, stderr, outcome, .. } if *outcome == "error" => {
                self.tell(News::Notice(format!("hook {name}: {}", stderr.trim())));
            }
            Event::Notice(text) | Event::Complaint(text) => self.tell(News::Notice(text.clone())),
            Event::TurnEnded(summary) => self.ended(summary),
            _ => {}
        }
    }
}

impl Host for Face {
    fn ask(&mut self, asked: &Asked) -> bool {
        let question = Question {
            request: asked.request.clone(),
            call: asked.call.clone(),
            tool: asked.tool.clone(),
            input: asked.input.clone(),
            why: asked.why.clone(),
            rule: asked.rule.clone(),
            rule_files: self.places.all().into_iter().map(|place| place.label).collect(),
            is_outside: asked.what == AskedWhat::Outside,
            parts: asked.parts.iter().map(part).collect(),
            sandbox: self.site.sandbox_in_words().unwrap_or_default(),
            change: asked.preview.as_ref().map(change),
            agent: asked.agent.name().map(str::to_owned),
            is_rewritten: false,
        };
        self.tell(News::Ask(Box::new(question)));
        true
    }

    fn withdraw(&mut self, request: &str) {
        self.tell(News::Withdraw(request.to_owned()));
    }
}

/// The branch that is checked out in a folder or above it.
pub(super) fn branch(folder: &Path) -> Option<String> {
    agent::git_branch(folder).filter(|name| name != "HEAD")
}

/// A setting of the user.
pub(super) fn setting(home: &Path, name: &str) -> Option<Value> {
    let text = files::read_text(home.join("settings.json"), 1 << 20).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    value.get(name).cloned()
}

/// The todo list of a session.
pub(super) fn todos(site: &Site) -> Vec<Todo> {
    let todos = site.todos.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Todo::list(&Value::Array(todos))
}
