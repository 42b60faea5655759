//! The processes in which a command will run: started first, given what to run later.

use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;
#[cfg(target_os = "linux")]
use std::process::{ChildStdout, Stdio};

use crate::{Layers, Network, Spec};

/// Processes that wait for the specification of a command.
#[derive(Debug)]
pub struct Waiting {
    #[cfg(target_os = "linux")]
    child: Child,
    #[cfg(not(target_os = "linux"))]
    output: File,
}

#[cfg(target_os = "linux")]
impl Waiting {
    /// Starts the processes. What the command puts out goes into this file.
    pub fn start(layers: &Layers, network: Network, output: &File) -> io::Result<Waiting> {
        let how = crate::outer::how(layers, network);
        Ok(Waiting { child: crate::outer::itself(how, output)?.spawn()? })
    }

    /// The same before it is known what the kernel can enforce: the processes find that out first,
    /// in this private folder, in which there is an empty one, `blank`.
    pub fn first(folder: &Path, network: Network, output: &File) -> io::Result<(Waiting, Probe)> {
        let all = Layers { namespaces: true, network: true, ..Layers::default() };
        let mut command = crate::outer::itself(crate::outer::how(&all, network), output)?;
        let mut child = command.arg(folder).stdout(Stdio::piped()).spawn()?;
        let report = child.stdout.take();
        Ok((Waiting { child }, Probe { report }))
    }

    /// Ends the processes: nothing is to run in them.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }

    /// Starts the command. The standard input of the process must stay open as long as anything of
    /// the command may run.
    pub fn begin(mut self, spec: &Spec) -> io::Result<Child> {
        use std::io::Write;
        let mut line = serde_json::to_vec(spec)?;
        line.push(b'\n');
        let sent = self.child.stdin.as_mut().map_or(Ok(()), |input| input.write_all(&line));
        // Processes that have ended already have said why, and their exit code says that they have.
        match sent {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(self.child),
        }
    }
}

#[cfg(target_os = "macos")]
impl Waiting {
    /// Keeps the file: there is nothing to start before the command.
    pub fn start(_: &Layers, _: Network, output: &File) -> io::Result<Waiting> {
        Ok(Waiting { output: output.try_clone()? })
    }

    /// The same, and what finds out what the kernel can enforce.
    pub fn first(_: &Path, _: Network, output: &File) -> io::Result<(Waiting, Probe)> {
        Ok((Waiting { output: output.try_clone()? }, Probe {}))
    }

    /// There is nothing to end.
    pub fn end(self) {}

    /// Starts the command.
    pub fn begin(self, spec: &Spec) -> io::Result<Child> {
        crate::seatbelt::command(spec, &self.output)?.spawn()
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
impl Waiting {
    /// There is no sandbox on this system.
    pub fn start(_: &Layers, _: Network, output: &File) -> io::Result<Waiting> {
        Ok(Waiting { output: output.try_clone()? })
    }

    /// The same, and what finds out what the kernel can enforce.
    pub fn first(_: &Path, _: Network, output: &File) -> io::Result<(Waiting, Probe)> {
        Ok((Waiting { output: output.try_clone()? }, Probe {}))
    }

    /// There is nothing to end.
    pub fn end(self) {}

    /// There is no sandbox on this system.
    pub fn begin(self, _: &Spec) -> io::Result<Child> {
        drop(self.output);
        Err(io::Error::other("this system has no sandbox"))
    }
}

/// What finds out what the kernel can enforce here. It runs beside whatever else is to be done.
#[derive(Debug, Default)]
pub struct Probe {
    #[cfg(target_os = "linux")]
    report: Option<ChildStdout>,
}

#[cfg(target_os = "linux")]
impl Probe {
    /// What the kernel can enforce here: found out by doing it. Nothing, if that was not possible.
    pub fn layers(self) -> Layers {
        let mut line = String::new();
        let report = self.report.map(|report| BufReader::new(report).read_line(&mut line));
        let found = report.and_then(|read| read.ok().and(serde_json::from_str(&line).ok()));
        found.unwrap_or_default()
    }
}

#[cfg(not(target_os = "linux"))]
impl Probe {
    /// What the kernel can enforce here.
    pub fn layers(self) -> Layers {
        #[cfg(target_os = "macos")]
        return crate::seatbelt::layers();
        #[cfg(not(target_os = "macos"))]
        Layers::default()
    }
}
