//! `--explain` and `--settings-check`: what would be decided, and by which settings.
//!
//! Invariant: nothing runs, nobody is asked, the standard input is not read.

use std::io::Write;

use agent::session::{Explained, ModelSource, Notice, Prepared, RootRule};
use agent::settings::Source;
use rules::{Kind, Part};
use serde_json::{Value, json};

use super::{ChatArgs, start};
use crate::as_json::Versioned;
use crate::failure::Failure;
use crate::text::printable;
use crate::world::World;

pub(super) fn explain(world: &mut World, args: &ChatArgs) -> Result<(), Failure> {
    let folders = start::folders(world, None)?;
    let mut config = start::config(world, args, None, folders)?;
    // No request is made, so no key is needed.
    config.source = ModelSource::Script(String::new());
    // Nothing runs, so nothing can be broken.
    config.permissions.root = RootRule::Exempt;
    let is_check = args.settings_check;
    let prepared = start::reported(world, |world, notify| {
        // Those about settings are printed with them.
        let mut notify = |notice| match notice {
            Notice::Settings(_) if is_check => {}
            notice => notify(notice),
        };
        config.prepare(world, &mut notify)
    })?;
    match &args.explain {
        Some(input) => {
            let explained = prepared.explain(&args.tool, input, world);
            decision(world, args, &explained)
        }
        None => settings(world, args, &prepared),
    }
}

fn decision(world: &mut World, args: &ChatArgs, explained: &Explained) -> Result<(), Failure> {
    let found = &explained.judgement;
    if args.json {
        let part = |part: &Part| {
            json!({
                "text": part.text, "decision": part.decision.name(), "rule": part.rule,
                "source": part.source, "why": part.why,
            })
        };
        let value = json!({
            "decision": found.decision.name(), "mode": explained.mode, "rule": found.rule,
            "source": found.source, "why": found.why,
            "parts": found.parts.iter().map(part).collect::<Vec<_>>(),
        });
        world.out.json(&Versioned::new(value))?;
        return Ok(());
    }
    writeln!(
        world.out,
        "{} in mode {}: {}",
        found.decision.name(),
        explained.mode,
        printable(&found.why)
    )?;
    for part in found.parts.iter().filter(|_| found.parts.len() > 1) {
        let (text, why) = (printable(&part.text), printable(&part.why));
        writeln!(world.out, "  {:5}  {text}  ({why})", part.decision.name())?;
    }
    Ok(())
}

/// The merged settings, and where each value comes from.
fn settings(world: &mut World, args: &ChatArgs, prepared: &Prepared) -> Result<(), Failure> {
    let found = prepared.settings();
    let mut values: Vec<(String, Value, String)> = found.origins.clone();
    for (_, rule) in &found.rules {
        let kind = match rule.kind {
            Kind::Allow => "allow",
            Kind::Ask => "ask",
            Kind::Deny => "deny",
        };
        values.push((format!("permissions.{kind}"), rule.text().into(), rule.source.clone()));
    }
    for hook in found.hooks.iter() {
        let source = match hook.source {
            Source::User => "the user's settings",
            Source::Project => "the project's settings",
            Source::Local => "the local settings",
            Source::Flag => "--settings",
            Source::Restricting | Source::Managed => "the administrator's settings",
        };
        values.push((
            format!("hooks.{}", hook.about()),
            hook.action.name().into(),
            source.to_owned(),
        ));
    }
    let (sandbox, all) = (&found.sandbox, "all settings".to_owned());
    let paths = |list: &[std::path::PathBuf]| {
        list.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
    };
    for (key, value) in [
        ("sandbox.failIfUnavailable", json!(sandbox.is_required)),
        ("sandbox.autoAllowBashIfSandboxed", json!(sandbox.allows_commands)),
        ("sandbox.allowUnsandboxedCommands", json!(!sandbox.is_closed)),
        ("sandbox.filesystem.allowWrite", json!(paths(&sandbox.writable))),
        ("sandbox.filesystem.denyWrite", json!(paths(&sandbox.protected))),
        ("sandbox.filesystem.denyRead", json!(paths(&sandbox.hidden))),
        ("sandbox.network", json!(sandbox.network)),
        ("sandbox.network.allowAllUnixSockets", json!(sandbox.all_sockets)),
        ("sandbox.credentials.envVars", json!(sandbox.variables)),
        ("env", json!(found.env.keys().collect::<Vec<_>>())),
        ("permissions.additionalDirectories", json!(paths(&found.folders))),
    ] {
        // What has no effect is not said; only of one, that is `true`.
        let is_usual = match key {
            "sandbox.allowUnsandboxedCommands" => !sandbox.is_closed,
            _ => value == json!(null) || value == json!([]) || value == json!(false),
        };
        if !is_usual {
            values.push((key.to_owned(), value, all.clone()));
        }
    }
    if args.json {
        let value = |(key, value, source): &(String, Value, String)| json!({"key": key, "value": value, "source": source});
        let left_out = |(name, keys): &(String, Vec<&str>)| json!({"source": name, "keys": keys});
        let object = json!({
            "settings": values.iter().map(value).collect::<Vec<_>>(),
            "left_out": found.left_out.iter().map(left_out).collect::<Vec<_>>(),
            "notes": found.notes,
        });
        world.out.json(&Versioned::new(object))?;
        return Ok(());
    }
    for (key, value, source) in &values {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        writeln!(world.out, "{key} = {}  ({})", printable(&value), printable(source))?;
    }
    if values.is_empty() && found.notes.is_empty() {
        writeln!(world.out, "No settings.")?;
    }
    for note in &found.notes {
        writeln!(world.out, "note: {}", printable(note))?;
    }
    Ok(())
}
