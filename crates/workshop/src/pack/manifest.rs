//! What a pack says that it holds, and which names it may use.
//!
//! Invariants: a name leads into the folders of its session and nowhere else, on every system;
//! nothing that a client runs or takes settings from has a name that is allowed; a manifest of a
//! newer format is refused before anything else of it is used.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use transcript::conversation::place::{Thing, safe_name, slug};

/// The format of packs that this program writes, and the newest that it reads.
pub const PACK_VERSION: u32 = 1;
/// The member that has the manifest.
pub(super) const NAME: &str = "manifest.json";
/// Its maximum size, in bytes.
pub(super) const LARGEST: u64 = 16 << 20;
const FORMAT: &str = "quipu-pack";

/// The manifest of a pack.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Manifest {
    format: String,
    pub version: u32,
    /// The program that made it.
    pub made_by: String,
    /// Whether secrets were removed.
    pub redacted: bool,
    /// How many secrets were removed, by kind.
    pub secrets: BTreeMap<String, u64>,
    pub sessions: Vec<PackedSession>,
}

/// A session in a pack.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct PackedSession {
    pub id: String,
    pub title: Option<String>,
    /// The tag of the session.
    pub tag: Option<String>,
    /// The directory that it belongs to, on the machine where it was packed.
    pub cwd: Option<String>,
    /// The name of its folder there.
    pub project: String,
    /// The repository of that directory.
    pub git: Option<Repository>,
    pub members: Vec<PackedFile>,
}

/// A git repository.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Repository {
    /// Its top folder.
    pub root: String,
    /// Where it comes from, as host and path: without protocol, user and password.
    pub remote: Option<String>,
}

/// A file in a pack.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct PackedFile {
    pub name: String,
    /// What it is, as `quipu files` names it.
    pub thing: String,
    pub size: u64,
    pub sha256: String,
}

impl Manifest {
    pub(super) fn new(made_by: &str, redacted: bool) -> Manifest {
        Manifest {
            format: FORMAT.to_owned(),
            version: PACK_VERSION,
            made_by: made_by.to_owned(),
            redacted,
            secrets: BTreeMap::new(),
            sessions: Vec::new(),
        }
    }

    /// Parses a manifest, and checks everything that it says about names. An error says what is
    /// wrong.
    pub(super) fn parse(bytes: &[u8]) -> Result<Manifest, String> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        let wrong = |error: serde_json::Error| format!("its manifest is damaged: {error}");
        let head: Head = serde_json::from_slice(bytes).map_err(wrong)?;
        if head.format != FORMAT {
            return Err("it is not a pack of sessions".to_owned());
        }
        if head.version > PACK_VERSION {
            let version = head.version;
            return Err(format!("its format {version} is newer than {PACK_VERSION}"));
        }
        let manifest: Manifest = serde_json::from_slice(bytes).map_err(wrong)?;
        let mut names = HashSet::new();
        let mut ids = HashSet::new();
        for session in &manifest.sessions {
            if !is_id(&session.id) || !ids.insert(session.id.to_lowercase()) {
                return Err("the id of a session is not one".to_owned());
            }
            let first = session.members.first().map(|file| file.name.as_str());
            if first != Some(transcript_name(&session.id).as_str()) {
                return Err(format!("session {} has no transcript", session.id));
            }
            for file in &session.members {
                if place(&session.id, file).is_none() || !names.insert(file.name.to_lowercase()) {
                    return Err(format!(
                        "it holds a file that may not be in a pack: `{}`",
                        file.name
                    ));
                }
            }
        }
        if manifest.sessions.is_empty() {
            return Err("it holds no session".to_owned());
        }
        Ok(manifest)
    }
}

/// Whether a text can be the id of a session in a pack: it becomes the name of files.
pub(super) fn is_id(id: &str) -> bool {
    !id.is_empty() && safe_name(id) == id && !id.starts_with(['-', '.']) && is_part(id)
}

/// The name of a session's own file.
pub(super) fn transcript_name(id: &str) -> String {
    format!("sessions/{id}/transcript.jsonl")
}

/// Where a file of a session goes, in a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// Its own file.
    Transcript,
    /// A file in its folder.
    Inside(PathBuf),
    /// A sub-agent's file in the folder of the project.
    Beside(PathBuf),
    FileHistory(PathBuf),
    Todos(PathBuf),
    Tasks(PathBuf),
    Images(PathBuf),
}

impl Spot {
    /// The path in a home, for a session of that id and a project's folder of that name.
    pub(super) fn path(&self, home: &Path, project: &str, id: &str) -> PathBuf {
        let project = home.join("projects").join(project);
        match self {
            Spot::Transcript => project.join(format!("{id}.jsonl")),
            Spot::Inside(below) => project.join(id).join(below),
            Spot::Beside(below) => project.join(below),
            Spot::FileHistory(below) => home.join("file-history").join(id).join(below),
            Spot::Todos(below) => home.join("todos").join(below),
            Spot::Tasks(below) => home.join("tasks").join(id).join(below),
            Spot::Images(below) => home.join("image-cache").join(id).join(below),
        }
    }
}

/// Where a file of a session goes; `None` if its name is not allowed.
pub(super) fn place(id: &str, file: &PackedFile) -> Option<Spot> {
    if file.name == transcript_name(id) {
        return (file.thing == Thing::Transcript.name()).then_some(Spot::Transcript);
    }
    let (kind, below) = file.name.strip_prefix(&format!("sessions/{id}/"))?.split_once('/')?;
    let parts: Vec<&str> = below.split('/').collect();
    if below.len() > 400 || parts.len() > 6 || !parts.iter().all(|part| is_part(part)) {
        return None;
    }
    let last = *parts.last()?;
    let (stem, ending) = last.rsplit_once('.').unwrap_or((last, ""));
    let is_text = ["json", "jsonl", "txt", "md", "log"].contains(&ending);
    let is_image = ["gif", "jpeg", "jpg", "png", "webp"].contains(&ending);
    let is_agent = last.starts_with("agent-") && ["json", "jsonl"].contains(&ending);
    let is_settings =
        ["settings", "hooks", "mcp"].iter().any(|word| stem.to_lowercase().contains(word));
    let path = PathBuf::from(below);
    let thing = |thing: Thing| file.thing == thing.name();
    let is_agents = thing(Thing::Agent) || thing(Thing::AgentMeta);
    match (kind, parts.as_slice()) {
        ("files", ["subagents", ..]) if is_agents && is_agent => Some(Spot::Inside(path)),
        ("files", ["tool-results", ..]) if thing(Thing::ToolResult) => Some(Spot::Inside(path)),
        ("files", _) if thing(Thing::SideFile) && is_text && !is_settings => {
            Some(Spot::Inside(path))
        }
        ("beside", [_] | ["subagents", _]) if is_agents && is_agent => Some(Spot::Beside(path)),
        ("file-history", [_]) if thing(Thing::FileHistory) => Some(Spot::FileHistory(path)),
        ("todos", [name]) if thing(Thing::Todos) && name.starts_with(id) && ending == "json" => {
            Some(Spot::Todos(path))
        }
        ("tasks", [_]) if thing(Thing::Task) && ending == "json" => Some(Spot::Tasks(path)),
        ("image-cache", [_]) if thing(Thing::PastedImage) && is_image => Some(Spot::Images(path)),
        _ => None,
    }
}

/// Whether a text can be the name of a file or folder, on every system, and is not hidden.
fn is_part(part: &str) -> bool {
    let is_device = |name: &str| {
        let name = name.to_ascii_uppercase();
        let numbered =
            |word: &str| name.strip_prefix(word).is_some_and(|rest| rest.len() == 1 && rest != "0");
        ["CON", "PRN", "AUX", "NUL"].contains(&name.as_str()) || numbered("COM") || numbered("LPT")
    };
    let is_plain = |letter: char| !letter.is_control() && !"\\:<>\"|?*".contains(letter);
    !part.is_empty()
        && part.len() <= 200
        && !part.starts_with(['.', ' '])
        && !part.ends_with(['.', ' '])
        && part.chars().all(is_plain)
        && !is_device(part.split('.').next().unwrap_or_default())
}

/// The name of the folder that a session's project has here.
pub(super) fn project_folder(session: &PackedSession, cwd: Option<&str>) -> String {
    let name = slug(cwd.unwrap_or(&session.project));
    if name.is_empty() { "unpacked".to_owned() } else { name }
}
