//! Secrets beside what names them, and what only looks so.

use crate::format::secret::{Mask, Redactor};

const VALUE: &str = "Zn0JsRc3GtTx6F8Wb9Y2Lm1q5Vd4k7Hp";

fn shown(text: &str) -> String {
    Mask::new(&Redactor::default()).text(text).into_owned()
}

#[test]
fn passwords_beside_commands() {
    for (before, after) in [
        ("gh secret set API --body \"", "\""),
        ("gh secret set API -R a/b -b ", "\n"),
        ("echo 'bob:", "' | chpasswd"),
        ("echo \"bob:", "\" | sudo chpasswd"),
        ("chpasswd <<< 'bob:", "'"),
        ("sqlplus scott/", "@db"),
        ("sqlplus -s 'scott/", "@//h:1521/x' @a.sql"),
    ] {
        let text = format!("{before}{VALUE}{after}");
        assert_eq!(shown(&text), format!("{before}[redacted:command-password]{after}"), "{text}");
    }
    for text in [
        "gh secret set API --body-file x8Kq2Lm8Rt5Yz1Wv; gh secret set A --body \"$API_2\"",
        "gh secret list --body x8Kq2Lm8Rt5Yz1Wv",
        "cat users8:x9 | chpasswd -e; see chpasswd(8)",
        "echo \"$USER:$PASSWORD1\" | chpasswd",
        "sqlplus / as sysdba; sqlplus /nolog; sqlplus scott/tiger@db",
        "sqlplus scripts/x8Kq2Lm8Rt5Yz1Wv @a.sql",
    ] {
        assert_eq!(shown(text), text);
    }
}

#[test]
fn keys_beside_ids_and_types() {
    // The key of an account behind its id.
    let id = "AKIAZN0JSRC3GTTX6F8W";
    let secret = "W43aTJveImiSy5XcgCYfgEFoW56KTLTYXPad3kQ/";
    for between in [",", " ", "\t", "\",\"", " | ", "\n"] {
        let text = format!("{id}{between}{secret}\n");
        let wanted = format!("[redacted:aws-key]{between}[redacted:assigned-secret]\n");
        assert_eq!(shown(&text), wanted, "{text}");
    }
    for text in [
        format!("AKIA,{secret}"),
        format!("{} and {secret}", "AKIAIOSFODNN7EXAMPLE"),
        format!("AKIAIOSFODNN7EXAMPLE,{secret}a"),
        format!("AKIAIOSFODNN7EXAMPLE,{}", "9f3a7c1e5b".repeat(4)),
        "AKIAIOSFODNN7EXAMPLE,wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        format!("{{\"kty\":\"EC\",\"x\":\"{VALUE}\",\"kid\":\"{VALUE}\"}}"),
        format!("{{\"d\":\"{VALUE}\"}}, {{\"kty\":\"EC\"}}"),
    ] {
        assert_eq!(shown(&text), text);
    }
}
