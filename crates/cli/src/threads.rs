//! How many files a command reads at once.

use transcript::format::threads;

#[derive(clap::Args, Debug, Default)]
pub(crate) struct Threads {
    /// How many files to read at once; as many as there are cores if nothing is given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

impl Threads {
    pub(crate) fn count(&self) -> usize {
        self.threads.map_or_else(threads::count, usize::from)
    }
}
