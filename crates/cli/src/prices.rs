//! The prices in force: the list, the client's settings, and the user's file.

use std::path::{Path, PathBuf};

use transcript::conversation::place::Home;
use transcript::conversation::price::Prices;

use crate::failure::Failure;
use crate::world::World;

/// No file with prices or settings is that large.
const LONGEST: u64 = 4 << 20;

/// Later ones replace earlier ones: the users' settings of the homes, the administrator's settings,
/// the file that the user names. Projects' settings do not count: strangers write them.
pub(crate) fn in_force(world: &mut World, file: Option<&Path>) -> Result<Prices, Failure> {
    let mut prices = Prices::default();
    let homes = world.known_homes()?.into_iter().map(|root| Home { root });
    let mut settings: Vec<PathBuf> = homes.map(|home| home.settings()).collect();
    settings.extend(agent::session::managed_settings().unwrap_or_default());
    for path in settings {
        let Ok(bytes) = files::read(&path, LONGEST) else { continue };
        for row in prices.add_settings(&bytes) {
            world.out.note(&format!(
                "`{}`: `modelPricing` of `{row}` is incomplete or out of range, and does not count",
                path.display()
            ))?;
        }
    }
    if let Some(path) = file {
        let bytes = files::read(path, LONGEST).map_err(|e| Failure::unreadable(path, e))?;
        prices.add(&bytes).map_err(|error| {
            let hint = "docs/usage.md shows the form";
            Failure::usage(format!("`{}`: {error}", path.display()), Some(hint))
        })?;
    }
    Ok(prices)
}
