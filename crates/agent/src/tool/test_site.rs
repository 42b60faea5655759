//! A place to test tools in: a real folder with a site around it.

use std::fs::{self, File};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tempfile::TempDir;

use crate::ambient::Real;
use crate::api::{ApiError, Heard, Model};
use crate::freshness::Print;
use crate::tool::{Answer, Call, Cancel, Content, Site, Trouble};

/// A model that does not answer.
struct Nobody;

impl Model for Nobody {
    fn ask(
        &self,
        _: String,
        _: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> Result<(), ApiError> {
        Ok(())
    }
}

/// The type of all tools.
type Run = fn(&Call, &Site) -> Result<Answer, Trouble>;

/// A folder that appears as `/demo` in the output.
pub(crate) struct TestSite {
    _folder: TempDir,
    pub(crate) site: Site,
}

impl TestSite {
    pub(crate) fn new() -> TestSite {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let root = base.join("demo");
        fs::create_dir(&root).unwrap();
        let model = (Arc::new(Nobody) as Arc<dyn Model>, String::new());
        let history = Some(base.join("history"));
        let site = Site::new(&root, &base.join("session"), history, model, Arc::new(Real));
        TestSite { _folder: folder, site }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.site.root.join(name)
    }

    /// Creates a file.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(&path).unwrap().write_all(content.as_ref()).unwrap();
        path
    }

    /// Creates a file that the model knows.
    pub(crate) fn known(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name, &content);
        self.site.seen.note(&path, Print::of(content.as_ref()));
        path
    }

    /// Creates a file that was changed so many seconds after a fixed time.
    pub(crate) fn aged(&self, name: &str, content: &str, second: u64) {
        let path = self.file(name, content);
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + second);
        File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The text with the folder replaced by `/demo`.
    fn with_demo_path(&self, text: &str) -> String {
        text.replace(self.site.root.to_str().unwrap(), "/demo")
    }

    fn call(&self, input: &Value) -> Call {
        let meant = input.to_string().replace("/demo", self.site.root.to_str().unwrap());
        Call {
            id: "toolu_1".into(),
            name: "Tool".into(),
            input: serde_json::from_str(&meant).unwrap(),
            cancel: Cancel::default(),
        }
    }

    /// What the model is told, blocks as JSON; and the detail.
    pub(crate) fn run(&self, run: Run, input: &Value) -> (String, String) {
        let answer = run(&self.call(input), &self.site).unwrap();
        assert_eq!(answer.is_error, None);
        let content = match answer.content {
            Content::Text(text) => text,
            Content::Blocks(blocks) => serde_json::to_string(&blocks).unwrap(),
        };
        (self.with_demo_path(&content), self.with_demo_path(answer.detail.get()))
    }

    /// The error of a cancelled call.
    pub(crate) fn cancelled(&self, run: Run, input: &Value) -> String {
        let call = self.call(input);
        call.cancel.set();
        run(&call, &self.site).unwrap_err().text
    }

    /// The error of a call: whether the call is to blame, and the text.
    pub(crate) fn refusal(&self, run: Run, input: &Value) -> (bool, String) {
        let trouble = run(&self.call(input), &self.site).unwrap_err();
        (trouble.is_tagged, self.with_demo_path(&trouble.text))
    }
}
