//! The tools of a session, and what each of them would do.
//!
//! Invariant: whoever wants to know something about a tool asks it; its name decides nothing
//! elsewhere.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rules::{Access, Mode};
use serde_json::Value;

use super::{
    Answer, Call, Content, Site, ToolSpec, Trouble, all, ask_user_question, bash, checked, edit,
    exit_plan_mode, glob, grep, notebook_edit, read, task_output, task_stop, text, todo_write,
    web_fetch, web_search, write,
};
use crate::context;
use crate::host::{AskedWhat, Audience, Preview};

/// Something that the model can do.
pub trait Tool: Send + Sync {
    /// How it is described to the model.
    fn spec(&self) -> &ToolSpec;
    /// Whether its calls change nothing, so that they may run in parallel with others.
    fn is_parallel(&self) -> bool;
    /// Whether it is offered in a session that begins in this mode.
    fn is_offered(&self, mode: Mode) -> bool;
    /// What is wrong with the input of a call, if anything is.
    fn check(&self, call: &Call) -> Result<(), Trouble> {
        checked(call, self.spec())
    }
    /// What a call would read, change, run and reach.
    fn access(&self, call: &Call, site: &Site) -> Access;
    /// What a person is asked before it runs, if they are asked.
    fn question(&self) -> AskedWhat {
        AskedWhat::Call
    }
    /// What a call would do to a file, if it writes one.
    fn preview(&self, _: &Call, _: &Site) -> Option<Result<Preview, Trouble>> {
        None
    }
    /// Whether the driver carries out its calls, because they start a sub-agent.
    fn starts_agent(&self) -> bool {
        false
    }
    /// Runs a call.
    fn run(&self, call: &Call, site: &Site) -> Result<Answer, Trouble>;
}

/// The tools of a session.
#[derive(Clone)]
pub struct Registry(Vec<Arc<dyn Tool>>);

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|tool| &tool.spec().name)).finish()
    }
}

impl Registry {
    /// The tools of this program, in the order in which they are described to the model.
    pub fn built_in() -> Registry {
        let is_there = |tool: &Arc<dyn Tool>| tool.question() != AskedWhat::Questions;
        Registry(built_in(Audience::Program).filter(is_there).collect())
    }

    /// The tools that ask, where a person is there to be asked at any time.
    pub fn for_person() -> impl Iterator<Item = Arc<dyn Tool>> {
        built_in(Audience::Person).filter(|tool| tool.question() != AskedWhat::Call)
    }

    /// Adds a tool; one with the same name is replaced.
    pub fn add(&mut self, tool: Arc<dyn Tool>) {
        self.0.retain(|other| other.spec().name != tool.spec().name);
        self.0.push(tool);
    }

    /// Only the tools for which this is true.
    #[must_use]
    pub fn only(&self, keep: impl Fn(&str) -> bool) -> Registry {
        let kept = self.0.iter().filter(|tool| keep(&tool.spec().name));
        Registry(kept.cloned().collect())
    }

    /// The tool with this name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.iter().find(|tool| tool.spec().name == name)
    }

    /// All tools.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.0.iter()
    }
}

fn built_in(audience: Audience) -> impl Iterator<Item = Arc<dyn Tool>> {
    all().iter().filter_map(move |spec| -> Option<Arc<dyn Tool>> {
        let part = PARTS.iter().find(|part| part.name == spec.name)?;
        Some(Arc::new(BuiltIn { spec, part, audience }))
    })
}

/// Whether calls of a built-in tool may run in parallel with others.
pub(crate) fn is_parallel(name: &str) -> bool {
    PARTS.iter().any(|part| part.name == name && part.is_parallel)
        || crate::subagent::NAMES.contains(&name)
}

/// A tool of this program: its description is data, the rest is here.
struct BuiltIn {
    spec: &'static ToolSpec,
    part: &'static BuiltInPart,
    audience: Audience,
}

struct BuiltInPart {
    name: &'static str,
    is_parallel: bool,
    access: fn(&Call, &Site) -> Access,
    run: fn(&Call, &Site) -> Result<Answer, Trouble>,
}

impl Tool for BuiltIn {
    fn spec(&self) -> &ToolSpec {
        self.spec
    }

    fn is_parallel(&self) -> bool {
        self.part.is_parallel
    }

    fn is_offered(&self, mode: Mode) -> bool {
        // A person may switch to plan mode at any time.
        let may_plan = mode == Mode::Plan || self.audience == Audience::Person;
        may_plan || self.part.name != exit_plan_mode::NAME
    }

    fn check(&self, call: &Call) -> Result<(), Trouble> {
        checked(call, self.spec)?;
        if self.part.name == ask_user_question::NAME {
            ask_user_question::check(call)
        } else {
            Ok(())
        }
    }

    fn access(&self, call: &Call, site: &Site) -> Access {
        (self.part.access)(call, site)
    }

    fn question(&self) -> AskedWhat {
        match self.part.name {
            exit_plan_mode::NAME => AskedWhat::Plan,
            ask_user_question::NAME => AskedWhat::Questions,
            _ => AskedWhat::Call,
        }
    }

    fn preview(&self, call: &Call, site: &Site) -> Option<Result<Preview, Trouble>> {
        match self.part.name {
            "Edit" => Some(edit::preview(call, site)),
            "Write" => Some(write::preview(call, site)),
            _ => None,
        }
    }

    fn run(&self, call: &Call, site: &Site) -> Result<Answer, Trouble> {
        (self.part.run)(call, site)
    }
}

const fn part(
    name: &'static str,
    access: fn(&Call, &Site) -> Access,
    run: fn(&Call, &Site) -> Result<Answer, Trouble>,
) -> BuiltInPart {
    BuiltInPart { name, is_parallel: false, access, run }
}

const fn parallel(
    name: &'static str,
    access: fn(&Call, &Site) -> Access,
    run: fn(&Call, &Site) -> Result<Answer, Trouble>,
) -> BuiltInPart {
    BuiltInPart { name, is_parallel: true, access, run }
}

const PARTS: [BuiltInPart; 14] = [
    part(ask_user_question::NAME, |_, _| Access::default(), ask_user_question::run),
    part("Bash", runs, bash::run),
    part("Edit", |call, site| writes(call, site, "file_path"), edit_with_context),
    part(exit_plan_mode::NAME, |_, _| Access::default(), exit_plan_mode::run),
    parallel("Glob", |call, site| reads(glob::folder(call, site)), glob::run),
    parallel("Grep", |call, site| reads(site.path(text(call, "path"))), grep::run),
    part("NotebookEdit", |call, site| writes(call, site, "notebook_path"), notebook_edit::run),
    parallel("Read", |call, site| reads(site.path(text(call, "file_path"))), read_with_context),
    parallel("TaskOutput", internal, task_output::run),
    part("TaskStop", internal, task_stop::run),
    part("TodoWrite", internal, todo_write::run),
    parallel("WebFetch", reaches, web_fetch::run),
    parallel("WebSearch", |_, _| Access::default(), web_search::run),
    part("Write", |call, site| writes(call, site, "file_path"), write_with_context),
];

fn internal(_: &Call, _: &Site) -> Access {
    Access { is_internal: true, ..Access::default() }
}

fn runs(call: &Call, _: &Site) -> Access {
    Access { runs: Some(text(call, "command").to_owned()), ..Access::default() }
}

fn reads(path: PathBuf) -> Access {
    Access { reads: vec![path], ..Access::default() }
}

fn writes(call: &Call, site: &Site, parameter: &str) -> Access {
    Access { writes: vec![site.path(text(call, parameter))], ..Access::default() }
}

fn reaches(call: &Call, _: &Site) -> Access {
    let url = call.input.get("url").and_then(Value::as_str).unwrap_or_default();
    let host = url.parse::<reqwest::Url>().ok().and_then(|url| url.host_str().map(str::to_owned));
    Access { reaches: vec![host.unwrap_or_else(|| url.to_owned())], ..Access::default() }
}

fn read_with_context(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    Ok(with_context(read::run(call, site)?, call, site))
}

fn edit_with_context(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    Ok(with_context(edit::run(call, site)?, call, site))
}

fn write_with_context(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    Ok(with_context(write::run(call, site)?, call, site))
}

/// The result of a call about a file, with the instructions of its folder and the rules for it, if
/// the model has not got them.
fn with_context(mut answer: Answer, call: &Call, site: &Site) -> Answer {
    if answer.is_error != Some(true)
        && let Content::Text(text) = &mut answer.content
    {
        let path = site.path(super::text(call, "file_path"));
        text.extend(context::nested(&path, &site.root, &site.given));
    }
    answer
}
