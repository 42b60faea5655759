//! The processes in which a command will run: started first, given what to run later.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Child;

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
        let how = match (layers.namespaces, layers.network && network == Network::Off) {
            (true, true) => crate::outer::ISOLATED,
            (true, false) => crate::outer::NAMESPACES,
            (false, _) => crate::outer::PLAIN,
        };
        let mut command = crate::outer::itself(how);
        command.stdout(output.try_clone()?).stderr(output.try_clone()?);
        Ok(Waiting { child: command.spawn()? })
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

    /// There is no sandbox on this system.
    pub fn begin(self, _: &Spec) -> io::Result<Child> {
        drop(self.output);
        Err(io::Error::other("this system has no sandbox"))
    }
}

/// What finds out what the kernel can enforce here. It runs beside whatever else is to be done.
#[derive(Debug)]
pub struct Probe {
    #[cfg(target_os = "linux")]
    child: io::Result<Child>,
}

#[cfg(target_os = "linux")]
impl Probe {
    /// Starts it. `folder` is a private folder for what is needed to find out; it is made.
    pub fn start(folder: &Path) -> Probe {
        Probe { child: crate::outer::probe(folder) }
    }

    /// What the kernel can enforce here: found out by doing it. A kernel that cannot even do that
    /// enforces nothing.
    pub fn layers(self) -> Layers {
        self.child.and_then(crate::outer::found).unwrap_or_default()
    }
}

#[cfg(not(target_os = "linux"))]
impl Probe {
    /// There is nothing to start.
    pub fn start(_: &Path) -> Probe {
        Probe {}
    }

    /// What the kernel can enforce here.
    pub fn layers(self) -> Layers {
        #[cfg(target_os = "macos")]
        return crate::seatbelt::layers();
        #[cfg(not(target_os = "macos"))]
        Layers::default()
    }
}
