//! What settings say about the sandbox: each key is honoured, or refused with the reason.
//!
//! Invariants: what restricts counts from every source, what grants only from the user and the
//! administrator; nothing is obeyed by half: what is not understood stops the run if it restricts,
//! and is reported if it grants. The keys are those that `@anthropic-ai/claude-agent-sdk` declares.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::{Layer, Reader, Source, member, says_anything};

/// Keys that would loosen something, and why they do not.
const REFUSED: [(&str, &str); 19] = [
    ("excludedCommands", "no command leaves the sandbox without a question"),
    ("filesystem.allowRead", "what is hidden stays hidden"),
    (
        "filesystem.disabled",
        "files outside are never writable; `--sandbox off` switches all of it off",
    ),
    (
        "network.allowUnixSockets",
        "single sockets cannot be told apart; `allowAllUnixSockets` allows all",
    ),
    ("network.httpProxyPort", NO_PROXY),
    ("network.socksProxyPort", NO_PROXY),
    ("network.tlsTerminate", NO_PROXY),
    ("network.allowMachLookup", "services of macOS stay closed"),
    ("credentials.allowPlaintextInject", NO_PROXY),
    ("credentials.awsPairs", NO_PROXY),
    ("credentials.sigv4", NO_PROXY),
    ("ignoreViolations", "what the kernel refuses is refused"),
    ("enableWeakerNestedSandbox", AS_STRONG),
    ("enableWeakerNetworkIsolation", AS_STRONG),
    ("allowNestedUserNamespaces", AS_STRONG),
    ("allowAppleEvents", "services of macOS stay closed"),
    ("ripgrep", "no other program is needed"),
    ("bwrapPath", "no other program is needed"),
    ("socatPath", "no other program is needed"),
];
const NO_PROXY: &str = "there is no proxy between commands and the network";
const AS_STRONG: &str = "the sandbox is as strong as the kernel can make it";

impl Reader {
    /// What is said about the sandbox and accepted from every source: it restricts.
    pub(super) fn sandbox_limits(&mut self, layer: &Layer, members: &Map<String, Value>) {
        let value = |key: &str| member(members, &format!("sandbox.{key}"));
        for key in ["filesystem", "network", "credentials"] {
            if value(key).as_object().is_none() && says_anything(value(key)) {
                self.stop(layer, &format!("sandbox.{key}"), "it is no object".to_owned());
            }
        }
        let switches = ["enabled", "failIfUnavailable", "allowUnsandboxedCommands"];
        for key in switches {
            if !value(key).is_null() && !value(key).is_boolean() {
                let why = "it is neither true nor false".to_owned();
                self.stop(layer, &format!("sandbox.{key}"), why);
            }
        }
        let protected = self.named(layer, ("filesystem.denyWrite", "path"), members);
        let unread = self.named(layer, ("filesystem.denyRead", "path"), members);
        let files = self.named(layer, ("credentials.files", "path"), members);
        let variables = self.named(layer, ("credentials.envVars", "name"), members);
        let domains = self.named(layer, ("network.allowedDomains", "domain"), members);
        let sandbox = &mut self.settings.sandbox;
        sandbox.is_required |= value("failIfUnavailable") == true;
        sandbox.is_closed |= value("allowUnsandboxedCommands") == &Value::Bool(false);
        sandbox.protected.extend(protected.iter().map(|path| rooted(layer, path)));
        sandbox.hidden.extend(unread.iter().chain(&files).map(|path| rooted(layer, path)));
        sandbox.variables.extend(variables);
        let is_listed = !domains.is_empty() && !domains.iter().any(|domain| domain == "*");
        let closing = ["deniedDomains", "strictAllowlist", "allowManagedDomainsOnly"];
        let is_closed = closing.iter().any(|key| says_anything(value(&format!("network.{key}"))));
        if is_closed || is_listed {
            sandbox.network = Some(false);
            self.settings.notes.push(format!(
                "`{}`: commands have the whole network or none; because `sandbox.network` lists domains, they have none",
                layer.name
            ));
        }
    }

    /// The texts of a list, or of members of the objects in it. What is something else would be
    /// obeyed by half: that stops the run.
    fn named(
        &mut self,
        layer: &Layer,
        (key, name): (&str, &str),
        members: &Map<String, Value>,
    ) -> Vec<String> {
        let whole = format!("sandbox.{key}");
        let value = member(members, &whole);
        let Some(list) = value.as_array() else {
            if says_anything(value) {
                self.stop(layer, &whole, "it is no list".to_owned());
            }
            return Vec::new();
        };
        let mut found = Vec::new();
        for one in list {
            match one.as_str().or_else(|| one.get(name)?.as_str()) {
                Some(text) => found.push(text.to_owned()),
                None => self.stop(layer, &whole, format!("`{one}` names nothing")),
            }
            // A command would be shown something else in its place; here it sees nothing.
            if one.get("mode").and_then(Value::as_str) == Some("mask") {
                let text = format!("`{}`: in `{whole}`, `mask` means `deny` here", layer.name);
                self.settings.notes.push(text);
            }
        }
        found
    }

    /// The same of sources that may grant.
    pub(super) fn sandbox_grants(&mut self, layer: &Layer, members: &Map<String, Value>) {
        let value = |key: &str| member(members, &format!("sandbox.{key}"));
        if matches!(layer.source, Source::Project | Source::Local) {
            return;
        }
        let sandbox = &mut self.settings.sandbox;
        sandbox.allows_commands |= value("autoAllowBashIfSandboxed") == true;
        let texts = |key: &str| {
            let list = value(key).as_array().into_iter().flatten();
            list.filter_map(Value::as_str).collect::<Vec<_>>()
        };
        let paths = texts("filesystem.allowWrite").into_iter().map(|path| rooted(layer, path));
        sandbox.writable.extend(paths);
        sandbox.all_sockets |= value("network.allowAllUnixSockets") == true;
        if texts("network.allowedDomains").contains(&"*") {
            sandbox.network.get_or_insert(true);
        }
        for (key, why) in REFUSED.iter().filter(|(key, _)| says_anything(value(key))) {
            let name = &layer.name;
            self.settings.notes.push(format!("`{name}`: `sandbox.{key}` is refused: {why}"));
        }
    }
}

/// A path of settings: absolute, in the home folder (`~/`, which is left as it is), or beside the
/// settings.
fn rooted(layer: &Layer, path: &str) -> PathBuf {
    if path.starts_with("~/") { PathBuf::from(path) } else { layer.root.join(path) }
}
