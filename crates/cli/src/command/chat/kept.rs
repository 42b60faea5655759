//! What the model was told when a session began, kept beside the session
//! (`<session>/context.json`).
//!
//! It becomes part of the system prompt again, and a session's folder may come from anywhere: only
//! a context with our seal is used. The key of the seal never leaves the program's own folder.

use std::path::Path;

use agent::context::Context;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The contents of `context.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    context: Context,
    seal: String,
}

/// The text to keep for the session in this folder.
pub(super) fn sealed(key: &str, folder: &Path, context: &Context) -> Option<String> {
    let seal = seal(key, folder, context)?;
    serde_json::to_string(&Kept { context: context.clone(), seal }).ok()
}

/// The context that is kept for the session in this folder, if we wrote it.
pub(super) fn opened(key: &str, folder: &Path, text: &str) -> Option<Context> {
    let kept: Kept = serde_json::from_str(text).ok()?;
    let expected = seal(key, folder, &kept.context)?;
    (expected == kept.seal).then_some(kept.context)
}

/// The hash of the key, the session and the context: none of them can be exchanged.
fn seal(key: &str, folder: &Path, context: &Context) -> Option<String> {
    let session = folder.file_name()?.to_string_lossy().into_owned();
    let text = serde_json::to_string(&(session, context)).ok()?;
    let mut hash = Sha256::new();
    hash.update(key.as_bytes());
    hash.update(Sha256::digest(text.as_bytes()));
    Some(format!("{:x}", hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_we_sealed_for_this_session_is_taken() {
        let context = Context { surroundings: "here".to_owned(), ..Context::default() };
        let (folder, other) = (Path::new("/a/one"), Path::new("/a/two"));
        let text = sealed("key", folder, &context).unwrap();
        assert_eq!(opened("key", folder, &text), Some(context));
        assert_eq!(opened("key", Path::new("/b/one"), &text).unwrap().surroundings, "here");
        assert_eq!(opened("other", folder, &text), None);
        assert_eq!(opened("key", other, &text), None);
        assert_eq!(opened("key", folder, &text.replace("here", "evil")), None);
        assert_eq!(opened("key", folder, r#"{"reminder": "", "surroundings": "evil"}"#), None);
    }
}
