//! `quipu lake`: sessions as Parquet in a folder or a bucket, for engines that analyse them.

mod check;
mod erase;
mod push;

use std::path::PathBuf;

use clap::Subcommand;
use files::{Held, Lock};
use lake::{LakeError, State, Surroundings, Target, Trouble};
use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::outside::outside_of_homes;
use crate::text::one_line;
use crate::world::World;

/// Push sessions as Parquet to a folder or a bucket, for DuckDB, ClickHouse, Spark
///
/// Nothing is sent before a target is named: with `--to`, or with `to` in `[lake]` of the
/// configuration. docs/lake.md has the tables, questions in SQL, and what it costs.
#[derive(clap::Args, Debug)]
pub(crate) struct LakeArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Push(push::PushArgs),
    Erase(erase::EraseArgs),
    Check(check::CheckArgs),
}

#[derive(clap::Args, Debug)]
struct TargetArgs {
    /// The lake: a folder, or `s3://BUCKET/PREFIX`, `gs://…`, `az://…`
    ///
    /// Credentials come from where the cloud's own tools have them: variables (`AWS_…`, `GOOGLE_…`,
    /// `AZURE_…`) and files (`~/.aws`, `GOOGLE_APPLICATION_CREDENTIALS`), or from the machine.
    #[arg(long, value_name = "TARGET")]
    to: Option<String>,
}

pub(crate) fn lake(world: &mut World, args: &LakeArgs) -> Result<(), Failure> {
    match &args.what {
        What::Push(args) => push::push(world, args),
        What::Erase(args) => erase::erase(world, args),
        What::Check(args) => check::check(world, args),
    }
}

/// The target that is named, what this machine is called in it, and where its state is.
struct Lake {
    target: Target,
    machine: String,
    /// Other names under which it has pushed to the target.
    former: Vec<String>,
    folder: PathBuf,
}

impl Lake {
    fn open(world: &World, args: &TargetArgs) -> Result<Lake, Failure> {
        let named = args.to.as_ref().or(world.lake_config().to.as_ref());
        let Some(named) = named else {
            let hint = "use `--to DIR` or `--to s3://BUCKET/PREFIX`, or `to` in `[lake]` of the configuration";
            return Err(Failure::usage("no target is named", Some(hint)));
        };
        let named = &home_expanded(world, named, args.to.is_none())?;
        let surroundings = Surroundings {
            variables: world.variables(&["AWS_", "GOOGLE_", "AZURE_"]),
            home: world.first_home().1.map(Into::into),
        };
        let target = Target::open(named, &surroundings).map_err(|error| failure(&error))?;
        if let Target::Folder(folder) = &target {
            outside_of_homes(world, folder, "a lake can be in any other folder")?;
        }
        let machine = machine(world)?;
        let id = Sha256::digest(target.identity());
        let id: String = id[..8]
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .filter_map(|digit| char::from_digit(digit.into(), 16))
            .collect();
        let folders = world.lake_folder()?;
        let former = former_names(&folders, &id, &machine);
        let folder = folders.join(format!("{id}-{machine}"));
        Ok(Lake { target, machine, former, folder })
    }

    /// What was pushed; other processes of this machine do not push to the target meanwhile.
    fn state(&self) -> Result<(State, Held), Failure> {
        let unwritable = |error| Failure::unwritable(&self.folder, error);
        files::make_private_folder(&self.folder).map_err(unwritable)?;
        let who = format!("process {} (quipu lake)", std::process::id());
        let held = match files::try_lock(&self.folder.join("lock"), &who).map_err(unwritable)? {
            Lock::Held(held) => held,
            Lock::Busy(other) => {
                let other = if other.is_empty() { "another quipu".to_owned() } else { other };
                let message = format!("{} uses the same lake", one_line(&other));
                let hint = "wait until it has finished; what it has pushed is not lost";
                return Err(Failure::undelivered(message, Some(hint)));
            }
        };
        let state = State::open(&self.folder.join("pushed.jsonl")).map_err(unwritable)?;
        Ok((state, held))
    }
}

/// A target with the home folder for `~`. One of the configuration means the same in every folder.
fn home_expanded(world: &World, named: &str, is_configured: bool) -> Result<String, Failure> {
    if named.contains("://") {
        return Ok(named.to_owned());
    }
    if let Some(rest) = named.strip_prefix("~/") {
        let home = world.first_home().1.map(PathBuf::from);
        let home = home.ok_or_else(|| Failure::usage("there is no home folder for `~`", None))?;
        return Ok(home.join(rest).to_string_lossy().into_owned());
    }
    if is_configured && !std::path::Path::new(named).is_absolute() {
        let message = format!("`to` in `[lake]` is no absolute path: `{}`", one_line(named));
        return Err(Failure::usage(message, Some("begin it with `/` or `~/`")));
    }
    Ok(named.to_owned())
}

/// The other names under which this machine has pushed to a target.
fn former_names(folders: &std::path::Path, id: &str, machine: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folders).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let name = name.strip_prefix(id)?.strip_prefix('-')?.to_owned();
        (name != machine && entry.path().join("pushed.jsonl").is_file()).then_some(name)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The longest name of a machine.
const LONGEST_NAME: usize = 64;

/// The name of this machine: that of the configuration, else a hash of the system's id for it.
fn machine(world: &World) -> Result<String, Failure> {
    let hint = "set `machine` in `[lake]` of the configuration: letters, digits, `.`, `_` and `-`";
    let Some(name) = world.lake_config().machine.clone().or_else(lake::machine_of_system) else {
        return Err(Failure::usage("the system has no id of this machine", Some(hint)));
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_fit = name.chars().all(is_plain)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= LONGEST_NAME;
    if !is_fit {
        let message = format!("`{}` cannot be the name of a machine", one_line(&name));
        return Err(Failure::usage(message, Some(hint)));
    }
    Ok(name)
}

/// What the user is told about a target that does not work.
fn failure(error: &LakeError) -> Failure {
    let message = one_line(&error.to_string());
    match error {
        LakeError::Target(_) => Failure::usage(
            message,
            Some(
                "a target is a folder, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`",
            ),
        ),
        LakeError::Settings(_) => Failure::usage(message, None),
        LakeError::Store { trouble, .. } => {
            let hint = match trouble {
                Trouble::Refused => return Failure::undelivered(message, None),
                Trouble::Down => "run it again: what was pushed is not pushed again",
                Trouble::Denied => {
                    "set the cloud's credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE; GOOGLE_APPLICATION_CREDENTIALS; AZURE_STORAGE_ACCOUNT_NAME and …_KEY), and run it again"
                }
                Trouble::Missing => "create the bucket, or name another one",
            };
            Failure::undelivered(message, Some(hint))
        }
        LakeError::Write { path, source } => {
            Failure::unwritable(path, std::io::Error::new(source.kind(), source.to_string()))
        }
        LakeError::Parquet(_) | LakeError::Read(_) => Failure::undelivered(message, None),
    }
}
