use crate::format::secret::{Mask, Redactor};

/// Letters and digits that look random.
fn noise(count: usize) -> String {
    const OF: &[u8] = b"Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt";
    (0..count).map(|at| char::from(OF[(at * 7 + at / 32) % OF.len()])).collect()
}

fn shown(text: &str) -> String {
    Mask::new(&Redactor::default()).text(text).into_owned()
}

/// A text broken into lines of that many characters.
fn broken(text: &str, width: usize, between: &str) -> String {
    let lines = text.as_bytes().chunks(width);
    let lines: Vec<&str> = lines.map(|line| std::str::from_utf8(line).unwrap()).collect();
    lines.join(between)
}

#[test]
fn a_secret_is_one_over_every_kind_of_break() {
    let breaks = [
        "\" +\n  \"",
        "\n",
        "\r\n",
        "\\n",
        "\\r\\n",
        "\\\n",
        "`\n",
        "\n   ",
        "'\n    '",
        "\n  13→",
        "\n13\t",
        "\n13:",
    ];
    let secrets = [
        (format!("sk-ant-api03-{}", noise(90)), "anthropic-key"),
        (format!("ghp_{}", noise(36)), "github-token"),
        (format!("AIza{}", noise(35)), "google-key"),
        (format!("hf_{}", noise(34)), "huggingface-token"),
        (format!("eyJhbGci{}.eyJ{}.{}", noise(20), noise(40), noise(43)), "jwt"),
    ];
    for (secret, kind) in secrets {
        for between in breaks {
            let once = format!("{}{between}{}", &secret[..5], &secret[5..]);
            let often = [16, 24, 30].map(|width| broken(&secret, width, between));
            for text in often.into_iter().chain([once]) {
                let shown = shown(&format!("key {text} ok"));
                assert_eq!(shown, format!("key [redacted:{kind}] ok"), "{text}");
            }
        }
    }
}

#[test]
fn the_mark_of_each_line_is_no_part_of_a_secret() {
    let key = format!("sk-ant-api03-{}", noise(90));
    for mark in ["+", "-", "> ", "# ", "// ", "│ ", "    "] {
        let text = format!("{mark}{}\n", broken(&key, 40, &format!("\n{mark}")));
        assert_eq!(shown(&text), format!("{mark}[redacted:anthropic-key]\n"), "{text}");
    }
}

#[test]
fn what_is_assigned_goes_on_in_the_next_line() {
    let value = noise(40);
    for between in ["\n", "\r\n", "\n  ", "\\\n"] {
        for (before, after) in [
            ("AWS_SECRET_ACCESS_KEY=", ""),
            ("api_key=", "\nok"),
            ("password=", "\nok"),
            ("postgres://u:", "@db/x"),
        ] {
            for width in [4, 8, 12, 20, 30] {
                let text =
                    format!("{before}{}{between}{}{after}", &value[..width], &value[width..]);
                let shown = shown(&text);
                assert!(!shown.contains(&value[..width]), "{text}: {shown}");
                assert!(!shown.contains(&value[width..]), "{text}: {shown}");
            }
        }
    }
}

/// The next line is one of its own.
#[test]
fn what_only_follows_a_secret_stays() {
    let key = format!("ghp_{}", noise(36));
    for after in ["done in 3.5s", "export PATH=/usr/bin", "HOME=/root", "- next", "}", "2024-01-31"]
    {
        assert_eq!(
            shown(&format!("TOKEN={key}\n{after}\n")),
            format!("TOKEN=[redacted:github-token]\n{after}\n")
        );
    }
    for text in [
        "the secret\nof the garden\nis a well\n",
        "use crate::secret::Secret;\nuse crate::token::TokenStream;\n",
        "sha256:9f3a7c1e5b0d8246\n4e2d8c6f1a3b5970\n",
        "import { getAccessToken } from './accessToken';\nimport { x } from 'y';\n",
    ] {
        assert_eq!(shown(text), text);
    }
}

/// Signs that are written in another way stand between what announces a secret and the secret.
#[test]
fn signs_that_are_escaped_are_read() {
    let value = noise(24);
    for (before, after) in [
        (r#"{"url":"postgres:\/\/app:"#, r#"@db:5432\/app"}"#),
        (r#"{"hook":"https:\/\/hooks.slack.com\/services\/T0AB12CD3\/B0AB12CD3\/"#, r#""}"#),
        (r#"{"a":"{\"url\":\"postgres:\\\/\\\/app:"#, r#"@db\\\/x\"}"}"#),
        ("{&quot;password&quot;:&quot;", "&quot;}"),
        ("{&#34;password&#34;:&#x22;", "&#34;}"),
    ] {
        let text = format!("{before}{value}{after}");
        let shown = shown(&text);
        assert!(shown != text && !shown.contains(&value), "{text}: {shown}");
    }
    for text in [r#"{"url":"https:\/\/x.test\/a"}"#, "a &amp; b", "<b>&quot;token&quot;</b>"] {
        assert_eq!(shown(text), text);
    }
}

#[test]
fn keys_one_below_the_other_are_found() {
    for before in ["", "_", "+", "    12→"] {
        for between in ["\n", "\\n", "\\\\n"] {
            let keys = ["ghp", "gho", "ghu", "ghs", "ghr", "ghp", "gho", "ghu", "ghs"];
            let keys = keys.map(|kind| format!("{before}{kind}_{}", noise(36)));
            let found = shown(&keys.join(between)).matches("[redacted:github-token").count();
            assert_eq!(found, keys.len(), "{before:?} {between:?}");
            // Behind a word, one that is long enough for data.
            let long = format!("first{between}{before}ATATT3{}{between}last{between}x", noise(186));
            assert!(!shown(&long).contains("ATATT3"), "{before:?} {between:?}");
            let hex = format!("x{between}{before}sk-{}", "96d2b6cd684fb9035e22c1d460fae4e7");
            assert!(!shown(&hex).contains("sk-"), "{before:?} {between:?}");
        }
    }
}

#[test]
fn what_follows_a_word_is_a_line_of_its_own() {
    for text in ["Cookie: theme=dark\ntask-1234567890", "session=none\nrun-2f9a71c0b3"] {
        assert_eq!(shown(text), text);
    }
}
