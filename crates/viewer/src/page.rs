//! What all pages share: the head, the style, the script, and the policy that allows only these.
//!
//! Invariants: a page contains one script and one style sheet, both ours; the policy names them by
//! their hashes, so nothing else that a page may contain can run or style. The script is in the
//! head: how the page looks is decided before anything is drawn.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::escape::T;

const SCRIPT: &str = include_str!("../assets/app.js");
const STYLE: &str = include_str!("../assets/app.css");

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// The policy of pages from the server.
pub(crate) static SERVED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
});

/// The policy of a file: nothing is requested.
static OF_FILE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data:; form-action 'none'; \
         base-uri 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
});

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// On the server, which also sends its policy.
    Server,
    /// In a file.
    File,
}

/// The beginning of a page, up to its content.
pub(crate) fn head(title: &str, medium: Medium) -> Markup {
    let is_file = medium == Medium::File;
    html! {
        (DOCTYPE)
        html lang="en" data-form=(if is_file { "file" } else { "page" });
        meta charset="utf-8";
        @if is_file { meta http-equiv="Content-Security-Policy" content=(*OF_FILE); }
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="referrer" content="no-referrer";
        meta name="color-scheme" content="light dark";
        title { (T(title)) }
        style { (PreEscaped(STYLE)) }
        script { (PreEscaped(SCRIPT)) }
    }
}

/// A whole page of the server. `base` is where all pages are, with a slash at the end.
pub(crate) fn page(title: &str, base: &str, body: &Markup) -> String {
    html! {
        (head(&format!("{title} · quipu"), Medium::Server))
        body data-root=(base) {
            a.skip href="#main" { "Skip to the content" }
            header.top {
                nav aria-label="Pages" {
                    a.brand href=(base) { "quipu" }
                    a href=(base) { "Sessions" }
                    a href={ (base) "usage" } { "Usage" }
                    a href={ (base) "compare" } { "Compare" }
                }
                (buttons())
            }
            (body)
            (dialogs(Medium::Server))
        }
    }
    .into_string()
}

/// Buttons at the top of each page.
pub(crate) fn buttons() -> Markup {
    html! {
        span.buttons.scripted {
            button.quiet type="button" data-do="talk"
                title="Everything; only what was said, without calls and thinking; only prompts (m)" { "All" }
            button.quiet type="button" data-do="theme" title="Light or dark (t)" { "Theme" }
            button.quiet type="button" data-do="help" title="Keys (?)" { "Keys" }
        }
    }
}

/// The keys, and a place for raw records. A file has no records, and no list of sessions.
pub(crate) fn dialogs(medium: Medium) -> Markup {
    let is_there = |key: &str| medium == Medium::Server || !matches!(key, "r" | "u");
    let keys = [
        ("j, k", "next, previous item"),
        ("n, p", "next, previous turn"),
        ("o, Enter", "open or close the item"),
        ("e", "open or close all items in view"),
        ("x", "next error"),
        ("g, G", "start, end"),
        (
            "/",
            "find in the session, also in what is folded; Enter: next hit, with Shift the one before",
        ),
        ("r", "raw record"),
        ("c", "copy the turn as Markdown"),
        ("d", "diffs side by side or unified"),
        ("m", "only what was said, only prompts, or everything"),
        ("t", "light or dark"),
        ("u", "list of sessions"),
        ("?", "these keys"),
    ];
    html! {
        dialog id="help" aria-labelledby="help-title" {
            h2 id="help-title" { "Keys" }
            dl.keys { @for (key, words) in keys.into_iter().filter(|(key, _)| is_there(key)) { dt { kbd { (key) } } dd { (words) } } }
            form method="dialog" { button { "Close" } }
        }
        dialog id="show" aria-labelledby="show-title" {
            h2 id="show-title" { "Record" }
            div.body {}
            form method="dialog" { button { "Close" } }
        }
        div id="said" role="status" aria-live="polite" {}
        @if medium == Medium::Server { div id="lost" role="alert" {} }
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
