//! `quipu man`: the manual page, generated from the definition of the arguments.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap_mangen::Man;

use crate::failure::Failure;
use crate::world::World;

/// Print the manual page
#[derive(clap::Args, Debug)]
pub(crate) struct ManArgs {
    /// Write a page for each command and subcommand into this folder instead
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn man(
    world: &mut World,
    args: &ManArgs,
    mut root: clap::Command,
) -> Result<(), Failure> {
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        Man::new(root).render(&mut page)?;
        return Ok(world.out.write_all(&page)?);
    };
    fs::create_dir_all(folder).map_err(|error| Failure::unwritable(folder, error))?;
    root.build();
    write_pages(folder, &root)
}

/// Writes the pages of a command and its subcommands. Hidden ones have none.
fn write_pages(folder: &Path, command: &clap::Command) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    Man::new(command.clone()).title(name).render(&mut page)?;
    let written = File::create(&path).and_then(|mut file| file.write_all(&page));
    written.map_err(|error| Failure::unwritable(&path, error))?;
    let listed = |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
    command.get_subcommands().filter(listed).try_for_each(|below| write_pages(folder, below))
}
