//! A program without a command line starts sessions: new ones, resumed ones, forks, and ones that
//! are not kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::SystemTime;

use agent::SessionConfig;
use agent::ambient::Stopped;
use agent::drive::{Note, Said};
use agent::host::{Format, Headless};
use agent::session::{
    Added, BypassWish, Continues, Folders, Keeping, ModelSource, Notice, Origin, PermitError,
    PlaceError, PrepareError, RepairedWhat, RootRule, SettingsError, trust,
};
use agent::settings::Environment;
use tempfile::TempDir;
use workshop::Workshop;
use workshop::store::Bounds;

const NOW: i64 = 1_795_132_800_000;
const SCRIPT: &str = r#"{"replies": [{"content": [{"type": "text", "text": "Done."}]}]}"#;

/// The variables that the sessions of a test see.
#[derive(Default)]
struct Variables(BTreeMap<&'static str, String>);

impl Environment for Variables {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}

/// A project and a home in a folder.
struct Lab {
    folder: TempDir,
    variables: Variables,
}

impl Lab {
    fn new() -> Lab {
        let lab = Lab { folder: tempfile::tempdir().unwrap(), variables: Variables::default() };
        fs::create_dir_all(lab.path("project/.claude")).unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// The configuration of a session with this id.
    fn config(&self, number: u32) -> SessionConfig {
        let folders = Folders::at(self.path("home"), None, &self.path("project"));
        let nature = Arc::new(Stopped::at(NOW + i64::from(number) * 3_600_000));
        let mut config = SessionConfig::new(folders, id(number), nature);
        config.trust_list = Some(self.path("config/trusted"));
        config.seal_file = Some(self.path("state/seal"));
        config.source = ModelSource::Script(SCRIPT.to_owned());
        config
    }

    /// Runs a turn of a session. Returns the session's file, what was printed, and the notices.
    fn run(
        &self,
        config: SessionConfig,
        origin: Origin,
    ) -> Result<(PathBuf, String, Vec<Notice>), PlaceError> {
        let mut notices = Vec::new();
        let notify = &mut |notice| notices.push(notice);
        let mut workshop =
            Workshop::new(Some(self.path("state")), Bounds::default(), SystemTime::UNIX_EPOCH);
        let prepared = config.prepare(&self.variables, notify).unwrap();
        let place = prepared.place(origin, &mut workshop, notify)?;
        let file = place.file.clone();
        let (notes, inbox) = mpsc::channel();
        let session = prepared.start(place, &self.variables, notes.clone(), notify).unwrap();
        notes.send(Note::Say(Said::text("Go."))).unwrap();
        notes.send(Note::Closed).unwrap();
        let printed = self.path("printed");
        let out = Box::new(fs::File::create(&printed).unwrap());
        let mut driver = session.driver;
        let mut host = Headless::new(Format::Text, session.init, out, driver.nature.clone());
        assert_eq!(driver.run(&inbox, &mut host), 0);
        Ok((file, fs::read_to_string(printed).unwrap(), notices))
    }
}

fn id(number: u32) -> String {
    format!("11111111-1111-4111-8111-{number:012}")
}

fn prompts(file: &Path) -> usize {
    fs::read_to_string(file).unwrap().matches("Go.").count()
}

#[test]
fn sessions_begin_go_on_and_fork() {
    let lab = Lab::new();
    let nothing = lab.run(lab.config(1), Origin::Newest);
    assert!(
        matches!(nothing, Err(PlaceError::NothingToContinue(cwd)) if cwd == lab.path("project"))
    );
    let (first, printed, _) = lab.run(lab.config(1), Origin::New).unwrap();
    assert_eq!((printed.as_str(), prompts(&first)), ("Done.\n", 1));
    assert!(first.with_extension("").join("context.json").exists());
    let again = SessionConfig { given_id: Some(id(1)), ..lab.config(2) };
    assert!(matches!(lab.run(again, Origin::New), Err(PlaceError::Exists(_))));
    let another = SessionConfig { given_id: Some(id(2)), ..lab.config(2) };
    assert!(matches!(lab.run(another, Origin::Newest), Err(PlaceError::HasId)));
    // It goes on in the same file.
    let (same, ..) = lab.run(lab.config(2), Origin::Newest).unwrap();
    assert_eq!((&same, prompts(&first)), (&first, 2));
    let old = fs::read(&first).unwrap();
    let session = transcript::Session::at(&first).unwrap();
    let fork = SessionConfig { continues: Continues::Fork, ..lab.config(3) };
    let (fork, ..) = lab.run(fork, Origin::Session(session.clone())).unwrap();
    assert_eq!(fork, first.with_file_name(format!("{}.jsonl", id(3))));
    assert_eq!((prompts(&fork), fs::read(&first).unwrap()), (3, old.clone()));
    // One that is not kept leaves everything as it is.
    let unkept = SessionConfig { keeping: Keeping::Discarded, ..lab.config(4) };
    let (_, printed, _) = lab.run(unkept, Origin::Session(session)).unwrap();
    assert_eq!((printed.as_str(), fs::read(&first).unwrap()), ("Done.\n", old));
}

#[test]
fn a_damaged_session_is_repaired_first_or_a_copy_of_it() {
    let lab = Lab::new();
    let (file, ..) = lab.run(lab.config(1), Origin::New).unwrap();
    let whole = fs::read_to_string(&file).unwrap();
    // Two records in one line, as two writers leave them.
    let fused: String = whole.lines().collect();
    fs::write(&file, format!("{fused}\n")).unwrap();
    let damaged = fs::read(&file).unwrap();
    let repaired = |notices: &[Notice]| {
        notices.iter().find_map(|notice| match notice {
            Notice::Repaired { what, .. } => Some(*what),
            _ => None,
        })
    };
    let unkept = SessionConfig { keeping: Keeping::Discarded, ..lab.config(2) };
    let (_, _, notices) = lab.run(unkept, Origin::Newest).unwrap();
    assert_eq!(repaired(&notices), Some(RepairedWhat::Copy));
    assert_eq!(fs::read(&file).unwrap(), damaged);
    let (_, _, notices) = lab.run(lab.config(3), Origin::Newest).unwrap();
    assert_eq!(repaired(&notices), Some(RepairedWhat::Session));
    assert_eq!(prompts(&file), 2);
}

#[test]
fn what_cannot_be_honoured_ends_it_before_anything_is_written() {
    let lab = Lab::new();
    let settings = lab.path("project/.claude/settings.json");
    let refused = |text: &str, config: SessionConfig| {
        fs::write(&settings, text).unwrap();
        config.prepare(&lab.variables, &mut |_| {}).unwrap_err()
    };
    let error = refused(r#"{"sandbox": {"enabled": "yes"}}"#, lab.config(1));
    assert!(matches!(error, PrepareError::Settings(SettingsError::Refused(_))), "{error}");
    let mut config = lab.config(1);
    config.permissions.mode = Some("none".to_owned());
    let error = refused("{}", config);
    assert!(matches!(error, PrepareError::Permit(PermitError::Mode(_))), "{error}");
    let mut config = lab.config(1);
    config.permissions.bypass = BypassWish::Later;
    config.permissions.root = RootRule::Exempt;
    let text = r#"{"permissions": {"disableBypassPermissionsMode": "disable"}}"#;
    let error = refused(text, config);
    assert!(matches!(error, PrepareError::Permit(PermitError::NoBypass(_))), "{error}");
    let error = refused("{}", SessionConfig { source: ModelSource::Api, ..lab.config(1) });
    assert!(matches!(error, PrepareError::NoKey), "{error}");
    assert!(!lab.path("home").exists() && !lab.path("state").exists());
}

#[test]
fn a_folder_is_trusted_once_and_a_damaged_list_is_reported() {
    let lab = Lab::new();
    let (list, folders) = (lab.path("config/trusted"), lab.config(1).folders);
    assert_eq!(trust(&list, &folders, "a test").unwrap(), Added::New);
    assert_eq!(trust(&list, &folders, "a test").unwrap(), Added::Known);
    fs::write(&list, "{").unwrap();
    assert!(trust(&list, &folders, "a test").is_err());
    let mut notices = Vec::new();
    lab.config(1).prepare(&lab.variables, &mut |notice| notices.push(notice)).unwrap();
    assert!(matches!(notices[..], [Notice::NothingTrusted(_)]), "{notices:?}");
    assert_eq!(fs::read_to_string(&list).unwrap(), "{");
}
