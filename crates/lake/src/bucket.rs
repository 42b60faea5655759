//! Buckets of S3, Google Cloud Storage and Azure.
//!
//! Invariants: credentials come from the usual variables and files, and are printed nowhere; what
//! fails is tried again a bounded number of times; a long object is sent in parts of a bounded
//! size, and is not visible before the last one.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig,
};
use reqwest::Url;
use tokio::runtime::{Builder, Runtime};

use crate::http::{Connector, NO_TLS, Plain};
use crate::profile::profile;
use crate::sheet::Object;
use crate::target::{Stored, Versions};
use crate::{LakeError, Trouble};

/// What credentials and addresses come from.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The variables of the environment whose names begin with `AWS_`, `GOOGLE_` or `AZURE_`.
    pub variables: BTreeMap<String, String>,
    /// The user's home folder, for `.aws`.
    pub home: Option<PathBuf>,
}

impl Surroundings {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// A bucket, and the prefix that objects have in it.
#[derive(Debug)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Key,
    runtime: Runtime,
    shown: String,
    /// Where it is, if not at the usual place: an address, or an account.
    place: Option<String>,
    kind: Kind,
    /// It has said that it only marks what it deletes.
    only_marks: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    S3,
    Google,
    Azure,
}

/// The size of a part of an upload. S3 takes at most 10,000 of them: 80 GB.
const PART: usize = 8 << 20;
/// How often an object is sent before the push gives up: an upload in parts whose last answer was
/// lost has to be begun anew.
const ATTEMPTS: usize = 4;
/// How many folders are listed at once: an answer has at most a thousand names.
const LISTS: usize = 16;
/// Where clouds give credentials to the machines that are in them.
const CLOUD_SERVICES: [&str; 2] = ["169.254.169.254", "metadata.google.internal"];

impl Bucket {
    /// The bucket that an address names. Nothing is sent yet.
    pub(crate) fn open(text: &str, surroundings: &Surroundings) -> Result<Bucket, LakeError> {
        let wrong = |why: &str| LakeError::Target(format!("`{}`: {why}", without_secret(text)));
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if text.contains(['@', '?', '#']) {
            return Err(wrong("a target is `s3://BUCKET/PREFIX`; credentials are not part of it"));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(wrong("it names no bucket: letters, digits, `.`, `-` and `_`"));
        }
        let prefix = Key::parse(prefix.trim_end_matches('/'))
            .map_err(|_| wrong("its prefix has an empty or a relative part"))?;
        let plain = match surroundings.get("AWS_ALLOW_HTTP") {
            Some("true" | "1") => Plain::Anywhere,
            _ => Plain::Here,
        };
        let http = Connector::new(plain, surroundings.get("AWS_CA_BUNDLE").map(Path::new))?;
        let only_marks = http.only_marks();
        let (opened, kind) = match scheme {
            "s3" | "s3a" => (s3(name, surroundings, http)?, Kind::S3),
            "gs" => (google(name, surroundings, http)?, Kind::Google),
            "az" | "abfs" | "abfss" => (azure(name, surroundings, http)?, Kind::Azure),
            _ => return Err(wrong("the addresses of buckets begin with s3://, gs:// or az://")),
        };
        let (store, place) = opened.map_err(|error| {
            LakeError::Settings(format!("`{}`: {}", without_secret(text), one_line(&error)))
        })?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| wrong(&error.to_string()))?;
        // In one form, however many slashes there were.
        let slash = if prefix.as_ref().is_empty() { "" } else { "/" };
        let shown = format!("{scheme}://{name}{slash}{prefix}");
        Ok(Bucket { store, prefix, runtime, shown, place, kind, only_marks })
    }

    pub(crate) fn identity(&self) -> String {
        let place = self.place.iter().map(String::as_str);
        [self.shown.as_str()].into_iter().chain(place).collect::<Vec<_>>().join("\0")
    }

    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    fn key(&self, name: &str) -> Key {
        let parts = name.split('/').filter(|part| !part.is_empty());
        parts.fold(self.prefix.clone(), Key::join)
    }

    /// The bytes of an object; `None` if it is not there, or longer than `most`.
    pub(crate) fn get(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, LakeError> {
        let key = self.key(name);
        let get = async || match self.store.get(&key).await {
            Ok(found) if found.meta.size > most => Ok(None),
            Ok(found) => found.bytes().await.map(|bytes| Some(bytes.to_vec())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        self.tried("read", name, || self.runtime.block_on(get()))
    }

    /// Whether an object of that size is there.
    pub(crate) fn has(&self, name: &str, size: u64) -> Result<bool, LakeError> {
        let key = self.key(name);
        let head = || match self.runtime.block_on(self.store.head(&key)) {
            Ok(found) => Ok(found.size == size),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        };
        self.tried("look at", name, head)
    }

    pub(crate) fn put(&self, name: &str, object: &mut Object) -> Result<(), LakeError> {
        let key = self.key(name);
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(Duration::from_millis(200 << attempt));
            }
            match self.send(&key, object)? {
                Ok(()) => return Ok(()),
                Err(error) if is_final(&error) => return Err(self.failed("store", name, &error)),
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) => Err(self.failed("store", name, &error)),
            None => Ok(()),
        }
    }

    /// Sends an object once. The outer error is one of this machine.
    fn send(
        &self,
        key: &Key,
        object: &mut Object,
    ) -> Result<Result<(), object_store::Error>, LakeError> {
        let size = object.size;
        let mut source = object.bytes().map_err(LakeError::scratch)?;
        let mut next = |most: usize| -> Result<Bytes, LakeError> {
            let mut bytes = Vec::new();
            let mut piece = (&mut source).take(most as u64);
            piece.read_to_end(&mut bytes).map_err(LakeError::scratch)?;
            Ok(bytes.into())
        };
        if size <= PART as u64 {
            let payload = PutPayload::from(next(PART)?);
            let sent = self.runtime.block_on(self.store.put(key, payload));
            return Ok(sent.map(|_| ()));
        }
        let before = self.tag(key, size);
        let mut upload = match self.runtime.block_on(self.store.put_multipart(key)) {
            Ok(upload) => upload,
            Err(error) => return Ok(Err(error)),
        };
        loop {
            let part = next(PART)?;
            let is_last = part.is_empty();
            let sent = if is_last {
                self.runtime.block_on(upload.complete()).map(|_| ())
            } else {
                self.runtime.block_on(upload.put_part(PutPayload::from(part)))
            };
            match sent {
                Ok(()) if is_last => return Ok(Ok(())),
                Ok(()) => {}
                // The answer was lost, and the second attempt finds no such upload.
                Err(object_store::Error::NotFound { .. })
                    if is_last && is_new(self.tag(key, size).as_ref(), before.as_ref()) =>
                {
                    return Ok(Ok(()));
                }
                Err(error) => {
                    // What is left of it is invisible; a bucket's rules remove it.
                    let _ = self.runtime.block_on(upload.abort());
                    return Ok(Err(error));
                }
            }
        }
    }

    /// What stands for the contents of an object, if there is one of that size.
    fn tag(&self, key: &Key, size: u64) -> Option<String> {
        let meta = self.runtime.block_on(self.store.head(key)).ok()?;
        meta.e_tag.filter(|_| meta.size == size)
    }

    /// The objects below a folder whose names begin so, and pass. Of these only the beginning is
    /// looked for, folder by folder: a bucket of many machines has millions of others.
    pub(crate) fn list(
        &self,
        under: &str,
        start: &str,
        passes: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Stored>, LakeError> {
        let prefix = self.key(under);
        let prefix = Some(&prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let stored = &|meta: &ObjectMeta| {
            let name = meta.location.filename()?;
            let key = self.name_of(&meta.location, under)?;
            (name.starts_with(start) && passes(name)).then_some(Stored { key, size: meta.size })
        };
        let in_folder = |folder: Key| async move {
            let mut all = match start {
                "" => self.store.list(Some(&folder)),
                _ => self.store.list_with_offset(Some(&folder), &folder.clone().join(start)),
            };
            let mut found = Vec::new();
            while let Some(meta) = all.try_next().await? {
                found.extend(stored(&meta));
                // Names are listed in their order.
                let name = meta.location.filename().unwrap_or_default();
                if !name.starts_with(start) && name > start {
                    break;
                }
            }
            Ok::<_, object_store::Error>(found)
        };
        let list = async || {
            let first = self.store.list_with_delimiter(prefix).await?;
            let mut found: Vec<Stored> = first.objects.iter().filter_map(stored).collect();
            let folders = stream::iter(first.common_prefixes).map(in_folder);
            let mut lists = folders.buffer_unordered(LISTS);
            while let Some(more) = lists.try_next().await? {
                found.extend(more);
            }
            Ok::<_, object_store::Error>(found)
        };
        self.tried("list", under, || self.runtime.block_on(list()))
    }

    /// The name of an object below the prefix. A bucket may list what it likes: what is not under
    /// what was asked for is none of ours.
    fn name_of(&self, location: &Key, under: &str) -> Option<String> {
        let below = |path: &str, folder: &str| match folder {
            "" => Some(path.to_owned()),
            _ => path.strip_prefix(folder)?.strip_prefix('/').map(str::to_owned),
        };
        let name = below(location.as_ref(), self.prefix.as_ref())?;
        below(&name, under).map(|_| name)
    }

    /// Does something that may fail for a moment.
    fn tried<T>(
        &self,
        what: &str,
        name: &str,
        mut once: impl FnMut() -> object_store::Result<T>,
    ) -> Result<T, LakeError> {
        let mut attempt = 1;
        loop {
            match once() {
                Ok(done) => return Ok(done),
                Err(error) if attempt == ATTEMPTS || is_final(&error) => {
                    return Err(self.failed(what, name, &error));
                }
                Err(_) => attempt += 1,
            }
        }
    }

    pub(crate) fn delete(&self, name: &str) -> Result<(), LakeError> {
        let key = self.key(name);
        self.tried("delete", name, || match self.runtime.block_on(self.store.delete(&key)) {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            done => done,
        })
    }

    /// Whether it has said that what it deleted is still there as an old version. That is sure,
    /// whatever it says of an object: those that are older than its rule have no version.
    pub(crate) fn only_marks(&self) -> bool {
        self.only_marks.load(Ordering::Relaxed)
    }

    pub(crate) fn versions(&self, name: &str) -> Result<Versions, LakeError> {
        let head = self.runtime.block_on(self.store.head(&self.key(name)));
        let version = match head {
            Ok(meta) => meta.version,
            Err(object_store::Error::NotFound { .. }) => return Ok(Versions::Unknown),
            Err(error) => return Err(self.failed("look at", name, &error)),
        };
        Ok(match (self.kind, version.as_deref()) {
            // Google numbers every object, whether or not it keeps old ones; Azure can keep what
            // was deleted without versions.
            (Kind::Google, _) | (Kind::Azure, None) => Versions::Unknown,
            (_, None | Some("null")) => Versions::Gone,
            (_, Some(_)) => Versions::Kept,
        })
    }

    fn failed(&self, what: &str, name: &str, error: &object_store::Error) -> LakeError {
        use object_store::Error::{NotFound, PermissionDenied, Unauthenticated};
        let text = one_line(error);
        let trouble = match error {
            PermissionDenied { .. } | Unauthenticated { .. } => Trouble::Denied,
            NotFound { .. } => Trouble::Missing,
            _ if has_no_credentials(error) => {
                let what = format!("no credentials for {}", self.shown);
                return LakeError::Store { what, why: text, trouble: Trouble::Denied };
            }
            _ if text.contains("InvalidAccessKeyId") || text.contains("credential") => {
                Trouble::Denied
            }
            _ if text.contains("NoSuchBucket") => Trouble::Missing,
            _ if text.contains(NO_TLS) => Trouble::Refused,
            _ => Trouble::Down,
        };
        let slash = if name.is_empty() { "" } else { "/" };
        let what = format!("cannot {what} {}{slash}{name}", self.shown);
        LakeError::Store { what, why: text, trouble }
    }
}

/// Whether an object is there, and another one than before.
fn is_new(now: Option<&String>, before: Option<&String>) -> bool {
    now.is_some() && now != before
}

/// Whether trying again cannot help.
fn is_final(error: &object_store::Error) -> bool {
    use object_store::Error::{InvalidPath, NotImplemented, NotSupported, UnknownConfigurationKey};
    matches!(
        error,
        InvalidPath { .. }
            | NotImplemented { .. }
            | NotSupported { .. }
            | UnknownConfigurationKey { .. }
    ) || has_no_credentials(error)
}

/// Whether there are no credentials: without any, the service is asked that gives some to a machine
/// in a cloud, and this machine is in none.
fn has_no_credentials(error: &object_store::Error) -> bool {
    let text = one_line(error);
    CLOUD_SERVICES.iter().any(|service| text.contains(service))
}

/// An error with its causes, each once, bounded.
fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = inner.source();
    }
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    plain.chars().take(600).collect()
}

/// An address without what may be a password.
fn without_secret(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{rest}")
}

fn retry() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(5),
        base: 2.0,
    };
    RetryConfig { backoff, max_retries: 6, retry_timeout: Duration::from_secs(90) }
}

/// A store, and where it is, if not at the usual place.
type Opened = object_store::Result<(Arc<dyn ObjectStore>, Option<String>)>;

fn s3(bucket: &str, surroundings: &Surroundings, http: Connector) -> Result<Opened, LakeError> {
    let mut builder = AmazonS3Builder::new();
    for (key, value) in profile(surroundings)? {
        usable(key.as_ref(), &value)?;
        builder = builder.with_config(key, value);
    }
    for (key, value) in known_variables::<AmazonS3ConfigKey>(surroundings, "AWS_")? {
        builder = builder.with_config(key, value);
    }
    let place = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    let place = place.iter().find_map(|key| builder.get_config_value(key));
    let builder = builder.with_bucket_name(bucket).with_retry(retry()).with_http_connector(http);
    Ok(builder.build().map(|store| (Arc::new(store) as Arc<dyn ObjectStore>, place)))
}

/// Fails on a value that no request can carry: the library would end the program.
fn usable(name: &str, value: &str) -> Result<(), LakeError> {
    let wrong = |why: &str| Err(LakeError::Settings(format!("`{name}` {why}")));
    let upper = name.to_ascii_uppercase();
    let is_part_of = |parts: &[&str]| parts.iter().any(|part| upper.contains(part));
    if is_part_of(&["ENDPOINT", "FULL_URI", "AUTHORITY_HOST"])
        && !["true", "false"].contains(&value)
    {
        let is_web = |url: Url| url.has_host();
        let is_plain = |c: char| c.is_ascii_graphic() && !r#""<>\^`{|}"#.contains(c);
        let is_whole = value.starts_with("http://") || value.starts_with("https://");
        if !is_whole || !value.chars().all(is_plain) || !Url::parse(value).is_ok_and(is_web) {
            let shown = without_secret(value);
            return wrong(&format!(
                "is no address, which begins with https:// or http://: `{shown}`"
            ));
        }
    } else if is_part_of(&["REGION", "ACCOUNT_NAME"]) {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if !value.chars().all(is_plain) {
            return wrong("has other signs than letters, digits and `-`");
        }
    } else if !value.chars().all(|c| c == ' ' || c.is_ascii_graphic())
        && !is_part_of(&["FILE", "PATH", "CREDENTIALS"])
    {
        return wrong("has a sign that no key, token or name has");
    }
    Ok(())
}

/// Variables of the environment that the library knows, each checked.
fn known_variables<K: FromStr>(
    surroundings: &Surroundings,
    start: &str,
) -> Result<Vec<(K, String)>, LakeError> {
    let mut found = Vec::new();
    for (name, value) in &surroundings.variables {
        if name.starts_with(start)
            && !value.is_empty()
            && let Ok(key) = name.to_ascii_lowercase().parse::<K>()
        {
            usable(name, value)?;
            found.push((key, value.clone()));
        }
    }
    Ok(found)
}

fn google(bucket: &str, surroundings: &Surroundings, http: Connector) -> Result<Opened, LakeError> {
    let mut builder = GoogleCloudStorageBuilder::new();
    for (key, value) in known_variables::<GoogleConfigKey>(surroundings, "GOOGLE_")? {
        builder = builder.with_config(key, value);
    }
    let builder = builder.with_bucket_name(bucket).with_retry(retry()).with_http_connector(http);
    Ok(builder.build().map(|store| (Arc::new(store) as Arc<dyn ObjectStore>, None)))
}

fn azure(
    container: &str,
    surroundings: &Surroundings,
    http: Connector,
) -> Result<Opened, LakeError> {
    let mut builder = MicrosoftAzureBuilder::new();
    for (key, value) in known_variables::<AzureConfigKey>(surroundings, "AZURE_")? {
        builder = builder.with_config(key, value);
    }
    let place = builder.get_config_value(&AzureConfigKey::AccountName);
    let builder =
        builder.with_container_name(container).with_retry(retry()).with_http_connector(http);
    Ok(builder.build().map(|store| (Arc::new(store) as Arc<dyn ObjectStore>, place)))
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;
