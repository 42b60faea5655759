//! A small process that outlives the agent and kills its commands if the agent was killed.
//!
//! It reads which process groups run, one per line, and at the end of its input it kills those that
//! still do. The system closes that input however the agent ends. Invariant: a group is on its list
//! only as long as the agent knows that it is alive: its id may belong to an unrelated group
//! afterwards.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

/// The script of the process. It is in its own group, where signals from the terminal's keys do not
/// reach it.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
all=' '
while read -r what group; do
  case $what in
    run) all="$all$group " ;;
    end) case $all in *" $group "*) all="${all%%" $group "*} ${all#*" $group "}" ;; esac ;;
  esac
done
for group in $all; do kill -s KILL -- "-$group" 2>/dev/null; done
"#;

/// The process.
#[derive(Debug)]
pub(crate) struct Watcher {
    process: Child,
}

impl Watcher {
    pub(crate) fn start() -> io::Result<Watcher> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "quipu-watcher"]).current_dir("/").env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(Watcher { process: command.spawn()? })
    }

    /// Adds a group that runs.
    pub(crate) fn runs(&mut self, group: u32) {
        self.tell("run", group);
    }

    /// Removes a group that has ended.
    pub(crate) fn ended(&mut self, group: u32) {
        self.tell("end", group);
    }

    fn tell(&mut self, what: &str, group: u32) {
        if let Some(input) = &mut self.process.stdin {
            // If this fails, commands continue if the agent is killed: not a reason to stop.
            let _ = input.write_all(format!("{what} {group}\n").as_bytes());
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Ends its input, and so the process.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
