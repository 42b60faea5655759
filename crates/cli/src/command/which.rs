//! Which files a command goes through: those that are named, or all there are.

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
    /// What was asked for by name must be readable. Among all there are, a file that is not was said to
    /// be so, and that is enough.
    pub(super) fn outcome(&self, unreadable: usize) -> Result<(), Failure> {
        match unreadable {
            0 => Ok(()),
            _ if self.all => Ok(()),
            count => Err(Failure::some_unreadable(count)),
        }
    }
}
