//! The profile of `~/.aws` that is in force.
//!
//! Invariant: credentials are taken as a whole: those of the variables, else those of the file with
//! the secrets, else those of the other. A secret of one and a token of another fit nothing.

use std::path::PathBuf;

use object_store::aws::AmazonS3ConfigKey::{
    self, AccessKeyId, Endpoint, Region, SecretAccessKey, Token,
};

use crate::LakeError;
use crate::bucket::Surroundings;

/// No such file is longer.
const LONGEST: u64 = 1 << 20;

/// What it says. A profile that is named has to be there, unless it is not needed.
pub(crate) fn profile(
    surroundings: &Surroundings,
) -> Result<Vec<(AmazonS3ConfigKey, String)>, LakeError> {
    let named = surroundings.get("AWS_PROFILE").or_else(|| surroundings.get("AWS_DEFAULT_PROFILE"));
    let name = named.unwrap_or("default");
    let folder = surroundings.home.as_ref().map(|home| home.join(".aws"));
    let place = |variable: &str, file: &str| {
        surroundings.get(variable).map(PathBuf::from).or_else(|| Some(folder.as_ref()?.join(file)))
    };
    let mut is_there = false;
    let mut has_keys = surroundings.get("AWS_ACCESS_KEY_ID").is_some();
    let mut found = Vec::new();
    for (variable, file) in
        [("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config")]
    {
        let text = place(variable, file).and_then(|path| files::read_text(path, LONGEST).ok());
        let Some(members) = section(&text.unwrap_or_default(), name) else { continue };
        is_there = true;
        let leaves_keys = has_keys;
        for (key, value) in members {
            let key = match key.as_str() {
                "aws_access_key_id" => AccessKeyId,
                "aws_secret_access_key" => SecretAccessKey,
                "aws_session_token" => Token,
                "region" => Region,
                "endpoint_url" => Endpoint,
                _ => continue,
            };
            let is_key = matches!(key, AccessKeyId | SecretAccessKey | Token);
            has_keys |= is_key;
            let is_known = found.iter().any(|(known, _)| *known == key);
            if !(is_known || is_key && leaves_keys) {
                found.push((key, value));
            }
        }
    }
    if let Some(named) = named.filter(|_| !is_there && !has_keys) {
        return Err(LakeError::Settings(format!("there is no profile `{named}` in `~/.aws`")));
    }
    Ok(found)
}

/// The members of a section: `[name]`, or `[profile name]`; `None` if it is not there.
fn section(text: &str, name: &str) -> Option<Vec<(String, String)>> {
    let mut is_in = false;
    let mut found = None;
    for line in text.lines() {
        // What is indented belongs to the member before it.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        if let Some(head) = line.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let head = head.trim();
            is_in = head.strip_prefix("profile ").map_or(head, str::trim) == name;
            if is_in {
                found.get_or_insert_with(Vec::new);
            }
        } else if is_in && let Some((key, value)) = line.split_once('=') {
            let members = found.get_or_insert_with(Vec::new);
            members.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    found
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
