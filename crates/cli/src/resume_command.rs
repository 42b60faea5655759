//! The command that resumes a session in Claude Code.

use std::path::Path;

use crate::text::quoted;
use crate::world::World;

/// For the session of that id beside a session's file; `cwd` is the folder that it belongs to.
pub(crate) fn resume_command(world: &World, beside: &Path, id: &str, cwd: Option<&str>) -> String {
    let place = cwd.map_or(String::new(), |cwd| format!("cd {} && ", quoted(cwd)));
    let is_home = beside.ancestors().nth(2).is_some_and(|folder| folder.ends_with("projects"));
    if !is_home {
        let path = beside.with_file_name(format!("{id}.jsonl"));
        return format!("{place}claude --resume {}", quoted(&path.display().to_string()));
    }
    let root = beside.ancestors().nth(3);
    let home = root.filter(|root| !world.is_usual_home(root));
    let home = home.map_or(String::new(), |home| {
        format!("CLAUDE_CONFIG_DIR={} ", quoted(&home.display().to_string()))
    });
    format!("{place}{home}claude --resume {}", quoted(id))
}
