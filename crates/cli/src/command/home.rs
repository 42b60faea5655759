//! `quipu` alone: how things stand, and what to try next.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, SystemTime};

use transcript::place::Home;

use super::survey::{Surveyed, headline, short_path, survey};
use crate::failure::Failure;
use crate::out::{BOLD, DIM, WARN};
use crate::table::{Column, Table};
use crate::text::{age, count, size};
use crate::world::{Homes, World};

/// How many of the newest sessions are shown.
const NEWEST: usize = 8;

pub(crate) fn home(world: &mut World) -> Result<(), Failure> {
    let homes = world.homes()?;
    let surveyed = survey(homes.list.iter().flat_map(Home::sessions).collect());
    overview(world, &homes, &surveyed)?;
    if !surveyed.is_empty() {
        writeln!(world.out)?;
        newest(world, &surveyed)?;
    }
    deadline(world, &homes, &surveyed)?;
    broken(world, &surveyed)?;
    next_steps(world, &surveyed)
}

fn overview(world: &mut World, homes: &Homes, surveyed: &[Surveyed]) -> Result<(), Failure> {
    let projects: BTreeSet<_> = surveyed.iter().map(|one| one.session.path.parent()).collect();
    let bytes = surveyed.iter().map(|one| one.session.size).sum();
    let roots = homes.list.iter().map(|home| home.root.display().to_string());
    let head = format!(
        "{} in {}, {}",
        count(surveyed.len() as u64, "session"),
        count(projects.len() as u64, "project"),
        size(bytes)
    );
    let head = world.out.style(BOLD, &head);
    let roots = roots.collect::<Vec<_>>().join(", ");
    Ok(writeln!(world.out, "{head}  {}", world.out.style(DIM, &roots))?)
}

fn newest(world: &mut World, surveyed: &[Surveyed]) -> Result<(), Failure> {
    let columns = [
        Column::left("id"),
        Column::right("age"),
        Column::left("project"),
        Column::left("title or first prompt"),
    ];
    let mut table = Table::new(&columns).flexible(3);
    for one in surveyed.iter().filter(|one| one.session.size > 0).take(NEWEST) {
        table.row(&[
            one.session.id.chars().take(8).collect(),
            age(world.since(one.session.modified).as_secs()),
            short_path(one.project()),
            headline(one),
        ]);
    }
    Ok(table.write(&mut world.out)?)
}

/// When the client will delete the oldest session.
fn deadline(world: &mut World, homes: &Homes, surveyed: &[Surveyed]) -> Result<(), Failure> {
    if homes.samples {
        return Ok(());
    }
    for home in &homes.list {
        let days = home.cleanup_days();
        let own = surveyed.iter().filter(|one| one.session.path.starts_with(&home.root));
        let Some(oldest) = own.map(|one| one.session.modified).min() else {
            continue;
        };
        let kept = count(u64::from(days), "day");
        let keeps = format!("Claude Code deletes sessions {kept} after their last change");
        let line = match remaining(oldest, days, world.now) {
            _ if days == 0 => "Claude Code is set to keep no sessions at all".to_owned(),
            Some(left) if left.as_secs() < 60 => format!("{keeps}: the oldest goes any moment now"),
            Some(left) => format!("{keeps}: the oldest goes in {}", age(left.as_secs())),
            None => format!("{keeps}: the oldest goes when it next starts"),
        };
        let line = world.out.style(WARN, &line);
        writeln!(world.out, "\n{line}")?;
    }
    Ok(())
}

fn remaining(oldest: SystemTime, days: u32, now: SystemTime) -> Option<Duration> {
    let end = oldest.checked_add(Duration::from_secs(u64::from(days) * 86_400))?;
    end.duration_since(now).ok()
}

/// What the ends of the files show to be broken.
fn broken(world: &mut World, surveyed: &[Surveyed]) -> Result<(), Failure> {
    let broken: Vec<&Surveyed> = surveyed.iter().filter(|one| !one.troubles().is_empty()).collect();
    if broken.is_empty() {
        return Ok(writeln!(world.out, "\nNothing is broken at the ends of the files.")?);
    }
    let names = ["empty", "torn", "nul", "damaged", "unreadable"];
    let counts = names.map(|name| {
        let number = broken.iter().filter(|one| one.troubles().contains(&name)).count();
        (number > 0).then(|| format!("{number} {name}"))
    });
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let line = world.out.style(WARN, &format!("Broken: {}", counts.join(", ")));
    writeln!(world.out, "\n{line}")?;
    let serious = broken.iter().filter(|one| one.troubles() != ["empty"]);
    for one in serious.take(NEWEST) {
        let id: String = one.session.id.chars().take(8).collect();
        writeln!(world.out, "  {id}  {}", one.troubles().join(", "))?;
    }
    Ok(())
}

fn next_steps(world: &mut World, surveyed: &[Surveyed]) -> Result<(), Failure> {
    let damaged = surveyed.iter().find(|one| {
        let troubles = one.troubles();
        !troubles.is_empty() && troubles != ["empty"] && troubles != ["unreadable"]
    });
    let quipu = world.again();
    let mut steps = vec![
        (format!("{quipu} ls --all"), "every session"),
        (format!("{quipu} show last"), "the newest one, as a conversation"),
        (format!("{quipu} tree last"), "which branch of it is live"),
        (format!("{quipu} inventory --all"), "what they hold, counted"),
        (format!("{quipu} follow last"), "watch it being written"),
    ];
    if let Some(one) = damaged {
        let id: String = one.session.id.chars().take(8).collect();
        steps.push((format!("{quipu} cat {id} --kind recovered"), "what is saved from damage"));
    }
    let head = world.out.style(BOLD, "Try next");
    writeln!(world.out, "\n{head}")?;
    let width = steps.iter().map(|step| step.0.len()).max().unwrap_or(0);
    for (command, what) in steps {
        writeln!(world.out, "  {command:width$}  {}", world.out.style(DIM, what))?;
    }
    Ok(())
}
