//! The files that a command reads: those that the user names, or all.

use crate::failure::Failure;

#[derive(clap::Args, Debug)]
pub(crate) struct Which {
    /// Sessions, files or folders
    pub(crate) session: Vec<String>,
    /// All sessions and their sub-agents
    #[arg(long, conflicts_with = "session")]
    pub(crate) all: bool,
}

impl Which {
    /// A file that the user names must be readable. With `--all`, an unreadable file was reported
    /// already, and that is enough.
    pub(crate) fn outcome(&self, unreadable: usize) -> Result<(), Failure> {
        match unreadable {
            0 => Ok(()),
            _ if self.all => Ok(()),
            count => Err(Failure::some_unreadable(count)),
        }
    }
}
