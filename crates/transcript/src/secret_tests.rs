use super::*;

fn found(text: &str) -> Vec<(Family, &str)> {
    secrets(text.as_bytes()).map(|one| (one.family, &text[one.range])).collect()
}

/// Letters and digits that nobody thought up.
fn noise(count: usize) -> String {
    const OF: &[u8] = b"Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt";
    (0..count).map(|at| char::from(OF[(at * 7 + at / 32) % OF.len()])).collect()
}

fn hex(count: usize) -> String {
    (0..count).map(|at| char::from(b"9f3a7c1e5b0d8246"[(at * 5 + at / 16) % 16])).collect()
}

#[test]
fn every_family_is_found_and_named() {
    let capitals: String = noise(58).to_uppercase();
    let cases = [
        (format!("sk-ant-api03-{}", noise(80)), Family::Anthropic),
        (format!("sk-proj-{}", noise(60)), Family::OpenAi),
        (format!("sk-{}T3BlbkFJ{}", noise(20), noise(20)), Family::OpenAi),
        (format!("sk-or-v1-{}", hex(64)), Family::OtherModel),
        (format!("gsk_{}", noise(52)), Family::OtherModel),
        (format!("ghp_{}", noise(36)), Family::GitHub),
        (format!("github_pat_{}_{}", noise(22), noise(59)), Family::GitHub),
        (format!("glpat-{}", noise(20)), Family::GitLab),
        (format!("AKIA{}", &capitals[..16]), Family::Aws),
        (format!("AIza{}", noise(35)), Family::Google),
        (format!("xoxb-{}-{}", "2048392017", noise(24)), Family::Slack),
        (format!("sk_live_{}", noise(24)), Family::Stripe),
        (format!("npm_{}", noise(36)), Family::Registry),
        (format!("hf_{}", noise(34)), Family::HuggingFace),
        (format!("SG.{}.{}", noise(22), noise(43)), Family::Mail),
        (format!("7204839105:AAE{}", noise(32)), Family::Chat),
        (format!("dop_v1_{}", hex(64)), Family::Cloud),
        (format!("AGE-SECRET-KEY-1{capitals}"), Family::PrivateKey),
        (format!("eyJhbGci{}.eyJ{}.{}", noise(20), noise(40), noise(43)), Family::Jwt),
    ];
    for (secret, family) in cases {
        // Quoted, in a sentence, and behind a newline as JSON has it.
        for text in
            [format!("\"{secret}\""), format!("it is {secret}, really"), format!("a\\n{secret}\\n")]
        {
            assert_eq!(found(&text), [(family, secret.as_str())], "{text}");
        }
        // Not as part of a longer word.
        if family != Family::OpenAi && family != Family::Chat {
            assert_eq!(found(&format!("x{secret}")), [], "{secret}");
        }
    }
}

#[test]
fn secrets_by_what_stands_around_them() {
    let value = noise(32);
    let text = format!("Authorization: Bearer {value}");
    assert_eq!(found(&text), [(Family::Bearer, value.as_str())]);
    let text = format!("postgres://app:{value}@db.internal:5432/x");
    assert_eq!(found(&text), [(Family::UrlPassword, value.as_str())]);
    for text in [
        format!("MY_API_KEY={value}"),
        format!(r#"\"AWS_SECRET_ACCESS_KEY\": \"{value}\""#),
        format!("DB_PASSWORD='{value}'"),
    ] {
        assert_eq!(found(&text), [(Family::Assigned, value.as_str())], "{text}");
    }
    // What is recognised by itself is not counted again by its name.
    let key = format!("sk-ant-api03-{}", noise(80));
    assert_eq!(found(&format!("ANTHROPIC_API_KEY={key}")), [(Family::Anthropic, key.as_str())]);
}

#[test]
fn a_private_key_is_more_than_its_first_line() {
    let line = noise(64);
    for newline in ["\n", "\\n"] {
        let key = format!(
            "-----BEGIN RSA PRIVATE KEY-----{newline}{line}{newline}{line}{newline}-----END RSA PRIVATE KEY-----"
        );
        assert_eq!(found(&format!("here: {key}{newline}")), [(Family::PrivateKey, key.as_str())]);
    }
    assert_eq!(found("grep -r '-----BEGIN RSA PRIVATE KEY-----' ."), []);
}

#[test]
fn there_are_no_more_patterns_than_are_looked_for_at_once() {
    assert!(KNOWN.len() <= 64, "{}", KNOWN.len());
    assert!(KNOWN.iter().all(|(name, _, _)| name.len() >= 4));
}

#[test]
fn names_placeholders_and_code_are_no_secrets() {
    for text in [
        "sk-ant-...",
        "sk-ant-your-key-here-0123456789abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "export API_KEY=$OTHER_KEY_FROM_SOMEWHERE_1",
        "API_KEY = os.environ['OPENAI_API_KEY']",
        "API_KEY: process.env.MY_API_KEY",
        "JWT_SECRET=changeme-in-production-2024",
        "https://example.com:8080/a@b",
        "postgres://user:password@localhost/db",
        "postgres://user:${PASSWORD}@localhost/db",
        "ssh://git@github.com:22/a/b",
        "Bearer <token>",
        "DEPLOY_TOKEN_PATH=/run/secrets/deploy_token_2024",
        "API_KEY_HEADER: x-api-key-for-this-service",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

#[test]
fn any_bytes_are_looked_through() {
    let mut rng = testkit::Rng::new(11);
    let pieces: Vec<&[u8]> = KNOWN.iter().map(|(name, _, _)| name.as_bytes()).collect();
    for _ in 0..2_000 {
        let mut text = Vec::new();
        for _ in 0..rng.below(12) {
            let piece: &&[u8] = rng.pick(&pieces);
            text.extend_from_slice(piece);
            for _ in 0..rng.below(40) {
                text.push(rng.byte());
            }
        }
        let mut end = 0;
        for one in secrets(&text) {
            assert!(one.range.start >= end && one.range.end <= text.len());
            end = one.range.end;
        }
    }
}

#[test]
fn likely_ones_are_for_those_who_hide() {
    let hidden = |text: &str| {
        let mut shown = text.to_owned();
        for secret in likely(text.as_bytes()).into_iter().rev() {
            shown.replace_range(secret.range, "*");
        }
        shown
    };
    for (text, wanted) in [
        ("aws_secret_access_key = wJalrXUtnFEMI7MDENG", "aws_secret_access_key = *"),
        ("db_password: 'hunter2hunter'", "db_password: '*'"),
        (r#"{"password": "c0rrect-horse"}"#, r#"{"password": "*"}"#),
        ("api_key=0123456789abcdef", "api_key=*"),
        ("hf_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0a\n", "*\n"),
        ("authorization: Basic QWxhZGRpbjpvcGVuMTIzNDU2Nzg5", "authorization: Basic *"),
        (
            "the password is on the note, max_tokens: 4096",
            "the password is on the note, max_tokens: 4096",
        ),
        ("const token = readToken(file1)", "const token = readToken(file1)"),
    ] {
        assert_eq!(hidden(text), wanted);
    }
}
