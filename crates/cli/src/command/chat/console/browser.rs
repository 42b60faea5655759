//! `/view`: the session in a browser, as long as the console runs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread;

use ::console::News;
use ::console::run::Stage;
use ::console::text::{Style, line, look};

use super::backend::Backend;

/// `quipu view`, which ends with this.
#[derive(Debug)]
pub(super) struct Viewer(Child);

impl Drop for Viewer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the viewer. Its address is shown, and it opens a browser if there is a desktop.
pub(super) fn view<W: Write>(backend: &mut Backend<'_>, stage: &mut Stage<'_, W>) {
    if !backend.has_begun() {
        stage.screen.note(look::DIM, "nothing was said yet");
        return;
    }
    let Ok(program) = backend.world.program() else { return };
    let mut command = Command::new(program);
    command.arg("--home").arg(&backend.home).args(["view", &backend.id]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            stage.screen.note(look::BAD, &format!("the viewer could not be started: {error}"));
            return;
        }
    };
    let out = child.stdout.take();
    // One that was started before ends.
    backend.viewer = Some(Viewer(child));
    let (tell, waker) = (backend.later.0.clone(), backend.waker.clone());
    thread::spawn(move || {
        let mut address = String::new();
        let read = out.map(|out| BufReader::new(out).read_line(&mut address));
        let lines = match read {
            Some(Ok(count)) if count > 0 => vec![
                line(Style::new(), address.trim_end()),
                line(look::DIM, "the address works once, until this session is left"),
            ],
            _ => vec![line(look::BAD, "the viewer did not start; `quipu view` says why")],
        };
        let _ = tell.send(News::Lines(lines));
        if let Some(waker) = waker {
            waker.wake();
        }
    });
}
