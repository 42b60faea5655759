use super::*;
use crate::format::json::quote;

fn found(text: &str) -> Vec<(&'static str, &str)> {
    static REDACTOR: std::sync::LazyLock<Redactor> = std::sync::LazyLock::new(Redactor::default);
    REDACTOR.find(text).into_iter().map(|one| (one.kind, &text[one.range])).collect()
}

fn shown(text: &str) -> String {
    let redactor = Redactor::default();
    Mask::new(&redactor).text(text).into_owned()
}

/// Letters and digits that look random.
fn noise(count: usize) -> String {
    const OF: &[u8] = b"Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt";
    (0..count).map(|at| char::from(OF[(at * 7 + at / 32) % OF.len()])).collect()
}

fn hex(count: usize) -> String {
    (0..count).map(|at| char::from(b"9f3a7c1e5b0d8246"[(at * 5 + at / 16) % 16])).collect()
}

#[test]
fn the_table_can_be_read() {
    let lines = include_str!("../../data/secrets.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    for line in lines {
        let anchors = table::read(line).unwrap_or_else(|| panic!("{line}"));
        for anchor in anchors {
            assert!(!anchor.any_case || anchor.text == anchor.text.to_ascii_lowercase(), "{line}");
        }
    }
    assert!(kinds().len() >= 60, "{}", kinds().len());
    assert!(kinds().iter().all(|kind| !kind.contains(' ') && found(kind).is_empty()));
}

/// Many places are examined together: none may be missed between two groups of them, or at the end.
#[test]
fn anchors_are_found_wherever_they_stand() {
    let table::Patterns { anchors, finder, .. } = &*table::TABLE;
    for (number, anchor) in anchors.iter().enumerate().filter(|(_, anchor)| !anchor.text.is_empty())
    {
        let upper = anchor.any_case.then(|| anchor.text.to_ascii_uppercase());
        for spelling in upper.into_iter().chain([anchor.text.clone()]) {
            for [before, after] in (0..40).flat_map(|before| [[before, 1], [before, 40]]) {
                let text = [vec![b' '; before], spelling.clone(), vec![b' '; after]].concat();
                let mut hits = Vec::new();
                finder.each(anchors, &text, |number, start| hits.push((number, start)));
                assert!(hits.contains(&(number, before)), "{anchor:?} {before} {after}");
            }
        }
    }
}

/// Every row of the table finds what it describes, and reports the right kind.
#[test]
fn every_row_finds_its_own() {
    let of = |class: shape::Class, count: usize, seed: usize| -> String {
        let all: Vec<char> =
            (b'!'..=b'~').filter(|byte| class.has(*byte)).map(char::from).collect();
        let pick = |at: usize| all[(at * 7 + at / 5 + seed) % all.len()];
        // Begins and ends with a character that cannot end a sentence.
        let plain = |at: usize| (at..at + 99).map(pick).find(char::is_ascii_alphanumeric).unwrap();
        (0..count).map(|at| if at == 0 || at + 1 == count { plain(at) } else { pick(at) }).collect()
    };
    for (number, anchor) in table::TABLE.anchors.iter().enumerate() {
        let Shape::Parts { parts, .. } = &anchor.shape else { continue };
        let mut text = String::from_utf8(anchor.text.clone()).unwrap();
        for part in parts {
            match part {
                shape::Part::Run(class, count) => text += &of(*class, *count.start(), number),
                shape::Part::Before(class, count) => {
                    text = of(*class, *count.start(), number) + &text;
                }
                shape::Part::Sign(sign) => text.push(char::from(*sign)),
            }
        }
        let sentence = format!("its key is {text} there");
        let kinds: Vec<&str> = found(&sentence).iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [anchor.kind], "{text}");
    }
}

#[test]
fn makers_are_named() {
    let capitals: String = noise(58).to_uppercase();
    let cases = [
        (format!("sk-ant-api03-{}", noise(80)), "anthropic-key"),
        (format!("sk-proj-{}", noise(60)), "openai-key"),
        (format!("sk-{}T3BlbkFJ{}", noise(20), noise(20)), "openai-key"),
        (format!("sk-or-v1-{}", hex(64)), "openrouter-key"),
        (format!("gsk_{}", noise(52)), "groq-key"),
        (format!("ghp_{}", noise(36)), "github-token"),
        (format!("github_pat_{}_{}", noise(22), noise(59)), "github-token"),
        (format!("glpat-{}", noise(20)), "gitlab-token"),
        (format!("AKIA{}", &capitals[..16]), "aws-key"),
        (format!("AIza{}", noise(35)), "google-key"),
        (format!("xoxb-{}-{}", "2048392017", noise(24)), "slack-token"),
        (format!("xoxb-{}-{}", "123456789012", noise(24)), "slack-token"),
        (format!("sk_live_{}", noise(24)), "stripe-key"),
        (format!("sk_test_{}", noise(24)), "stripe-key"),
        (format!("npm_{}", noise(36)), "npm-token"),
        (format!("hf_{}", noise(34)), "huggingface-token"),
        (format!("SG.{}.{}", noise(22), noise(43)), "sendgrid-key"),
        (format!("7204839105:AAE{}", noise(32)), "telegram-token"),
        (format!("dop_v1_{}", hex(64)), "digitalocean-token"),
        (format!("AGE-SECRET-KEY-1{capitals}"), "age-key"),
        (format!("eyJhbGci{}.eyJ{}.{}", noise(20), noise(40), noise(43)), "jwt"),
    ];
    for (secret, kind) in cases {
        // In quotes, in a sentence, and after an escaped newline as in JSON.
        for text in
            [format!("\"{secret}\""), format!("it is {secret}, really"), format!("a\\n{secret}\\n")]
        {
            assert_eq!(found(&text), [(kind, secret.as_str())], "{text}");
        }
        // Not as part of a longer word.
        if !matches!(kind, "openai-key" | "telegram-token") {
            assert_eq!(found(&format!("x{secret}")), [], "{secret}");
        }
    }
}

#[test]
fn letters_alone_are_a_key_behind_a_prefix() {
    let letters = "qwKzhTbNxPdLmRsVgFcJyWtQkZbHnXpDrM";
    assert_eq!(found(&format!("hf_{letters}")), [("huggingface-token", &*format!("hf_{letters}"))]);
    assert_eq!(found(&format!("ghp_{letters}AA")).len(), 1);
    assert_eq!(found(&format!("sk_live_{}", &letters[..24])).len(), 1);
}

#[test]
fn escapes_are_borders() {
    let key = format!("ghp_{}", noise(36));
    for before in [
        "\u{1b}[32m",
        "\u{1b}[0;1;32m",
        "\\u001b[32m",
        "\\x1b[32m",
        "\\033[1m",
        "\\e[31m",
        "[32m",
        "\u{1b}(B",
        "%3D",
        "%20",
        "=3D",
        "\\n",
        "\\t",
        "\\\\n",
        "\\u00e9",
        "\\\\u00e9",
        "\\x0a",
        "\\0",
        "_",
        "-",
        "é",
        "🎉",
    ] {
        let text = format!("{before}{key}");
        assert_eq!(found(&text), [("github-token", &*key)], "{text}");
    }
    for after in ["\u{1b}[0m", "\\u001b[0m", "%20", "\\n", "_", "-", "é", "\"", "\\\"", "&", "."] {
        let text = format!("{key}{after}");
        assert_eq!(found(&text), [("github-token", &*key)], "{text}");
    }
    for before in ["x", "7", "abc9", "Am"] {
        assert_eq!(found(&format!("{before}{key}")), [], "{before}");
    }
}

#[test]
fn letters_that_are_escaped_are_read() {
    let key = noise(36);
    for text in [
        format!("\\u0067hp_{key}"),
        format!("g\\u0068p\\u005f{key}"),
        format!("\\\\u0067hp_{key}"),
        format!("\\u005cu0067hp_{key}"),
        format!("password\\u003d{key}"),
        format!("password:\\u0020{key}"),
    ] {
        let shown = shown(&format!("é {text} ü"));
        assert!(!shown.contains(&key[4..]), "{shown}");
        assert!(shown.starts_with("é ") && shown.ends_with(" ü"), "{shown}");
    }
}

/// Rules need the signs around a secret, which a URL has as escapes.
#[test]
fn the_escapes_of_a_url_are_read() {
    let key = noise(20);
    let redactor = Redactor::default();
    for text in [
        format!("postgres%3A%2F%2Fbob%3A{key}%40db.internal%2Fshop"),
        format!("Authorization%3A%20Bearer%20{key}"),
        format!("%7B%22dbPassword%22%3A%20%22{key}%22%7D"),
        format!("X-Api-Key%3a%20{key}"),
    ] {
        let text = format!("https://x.test/?v={text}&n=100%");
        let mut mask = Mask::new(&redactor);
        let shown = mask.text(&text);
        assert!(!shown.contains(&key), "{shown}");
        assert!(shown.starts_with("https://x.test/?v=") && shown.ends_with("&n=100%"), "{shown}");
    }
    for text in ["a%3Db", "50% of 100%", "%E2%82%AC", "token%3Dname"] {
        assert_eq!(Mask::new(&redactor).text(text), text);
    }
}

/// `grep --color` paints what was searched for, which may be a part of a key.
#[test]
fn colours_within_a_key_do_not_hide_it() {
    let redactor = Redactor::default();
    let shown = |text: &str| Mask::new(&redactor).text(text).into_owned();
    let (key, red, end) = (noise(36), "\u{1b}[01;31m\u{1b}[K", "\u{1b}[m\u{1b}[K");
    for (text, wanted) in [
        (format!("a: {red}ghp_{end}{key}, b"), format!("a: {red}[redacted:github-token], b")),
        (format!("word{red}ghp_{key}{end}"), format!("word{red}[redacted:github-token]{end}")),
        // The front of it is a key by itself.
        (
            format!("ghp_{}{red}{}{end} x", &key[..31], &key[31..]),
            format!("[redacted:github-token]{end} x"),
        ),
        (
            format!("{red}TOKEN{end}=\"{key}\""),
            format!("{red}TOKEN{end}=\"[redacted:assigned-secret]\""),
        ),
        (format!("{red}plain{end}"), format!("{red}plain{end}")),
    ] {
        assert_eq!(shown(&text), wanted, "{text:?}");
    }
}

#[test]
fn secrets_by_what_stands_around_them() {
    let value = noise(32);
    let pair = "Ym9iOlpxOFJrMlRuNVdj";
    for (text, kind, secret) in [
        (format!("Authorization: Bearer {value}"), "bearer-token", &*value),
        (format!("{{\"authorization\": \"Token {value}\"}}"), "assigned-secret", &value),
        (format!("authorization: Basic {pair}"), "basic-auth", pair),
        (format!("postgres://app:{value}@db.internal:5432/x"), "url-password", &value),
        (format!("redis://:{value}@cache:6379"), "url-password", &value),
        (format!("https://{}@o1.ingest.sentry.io/2", hex(32)), "url-password", &hex(32)),
        (format!("MY_API_KEY={value}"), "assigned-secret", &value),
        (format!(r#"\"AWS_SECRET_ACCESS_KEY\": \"{value}\""#), "assigned-secret", &value),
        (format!(r#"\\\"dbPassword\\\":\\\"{value}\\\""#), "assigned-secret", &value),
        (format!("DB_PASSWORD='{value}'"), "assigned-secret", &value),
        (format!("<password>{value}</password>"), "assigned-secret", &value),
        (format!("define('DB_PASSWORD', '{value}');"), "assigned-secret", &value),
        (format!(r#"store.set( \\\"authToken\\\",\\\"{value}\\\")"#), "assigned-secret", &value),
        (
            format!("AccountKey={value}==;EndpointSuffix=x"),
            "assigned-secret",
            &format!("{value}=="),
        ),
        (format!("?sv=1&sig={value}%3D&se=2"), "azure-sas", &format!("sig={value}%3D")),
        (format!("docker login --password {value} x"), "assigned-secret", &value),
        (format!("machine h\n  login bob\n  password {value}\n"), "assigned-secret", &value),
        (format!("{{\"auth\":\"{pair}\"}}"), "assigned-secret", pair),
        (format!("curl -su 'bob:{value}' https://x"), "command-password", &value),
        (format!("curl -s -u 'bob:{value}' https://x"), "command-password", &value),
        (format!(r#"sh -c \"curl -u \\\"bob:{value}\\\" x\""#), "command-password", &value),
        (format!("curl \\\n  --user bob:{value} \\\n  https://x"), "command-password", &value),
        (format!("mysqldump -h x -p{value} shop"), "command-password", &value),
        (format!("sshpass -p {value} ssh x"), "command-password", &value),
        (format!("docker login -u bob -p {value} x"), "command-password", &value),
        (format!("mongosh -u bob -p '{value}' x"), "command-password", &value),
        (format!("smbclient -L x -U 'CORP\\bob%{value}'"), "command-password", &value),
        (format!("htpasswd -cbB users bob {value} 2>&1"), "command-password", &value),
        (format!("htpasswd -bnBC 10 bob {value} here"), "command-password", &value),
        (format!("htpasswd -c users bob # {value}"), "", ""),
        (
            format!("$p = ConvertTo-SecureString -AsPlainText '{value}' -Force"),
            "command-password",
            &value,
        ),
        (format!("7z a -p{value} x.7z x"), "command-password", &value),
        (format!("zip -P {value} -r x.zip x"), "command-password", &value),
        (format!("unzip -l x.zip | grep -P '{value}'"), "", ""),
        (format!("openssl rsa -in a -passin pass:{value}"), "command-password", &value),
        (format!("ldapsearch -D 'cn=a|b' -w {value}"), "command-password", &value),
        (format!("mosquitto_pub -u bob -P {value} -t x"), "command-password", &value),
        (format!("keytool -list -storepass {value}"), "command-password", &value),
        (format!("db.internal:5432:shop:bob:{value}\n"), "assigned-secret", &value),
        (format!("db.internal:*:*:bob:{value}"), "assigned-secret", &value),
        (format!("cpe:2.3:o:x:y:*:*:*:{value}:*:*:*"), "", ""),
        (format!("Cookie: a=b; sid={value}\r\n"), "cookie", &format!("a=b; sid={value}")),
        (format!("< Set-Cookie: sid={value}; Path=/\n"), "cookie", &format!("sid={value}; Path=/")),
    ] {
        let wanted: &[_] = if kind.is_empty() { &[] } else { &[(kind, secret)] };
        assert_eq!(found(&text), wanted, "{text}");
    }
    // What is recognized by its prefix is not counted again by its name.
    let key = format!("sk-ant-api03-{}", noise(80));
    assert_eq!(found(&format!("ANTHROPIC_API_KEY={key}")), [("anthropic-key", key.as_str())]);
}

#[test]
fn a_private_key_is_more_than_its_first_line() {
    let line = noise(64);
    for newline in ["\n", "\\n", "\\\\n", "\n+", "\n   12→", "\",\n\"", "\r\n> "] {
        for name in ["RSA PRIVATE KEY", "PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
            let key = format!(
                "-----BEGIN {name}-----{newline}{line}{newline}{line}{newline}-----END {name}-----"
            );
            let text = format!("here: {key}{newline}");
            assert_eq!(found(&text), [("private-key", key.as_str())], "{text}");
        }
    }
    // A key that is cut off.
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{line}\n{line}\n{}", &line[..20]);
    assert_eq!(found(&key), [("private-key", key.as_str())]);
    let putty = format!(
        "PuTTY-User-Key-File-2: ssh-rsa\nEncryption: none\nPrivate-Lines: 1\n{line}\nPrivate-MAC: {}",
        hex(40)
    );
    assert_eq!(found(&putty), [("private-key", putty.as_str())]);
    for text in [
        "grep -r '-----BEGIN RSA PRIVATE KEY-----' .",
        "if key.startswith('-----BEGIN PRIVATE KEY-----') and key.endswith('-----END PRIVATE KEY-----'):",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

#[test]
fn names_placeholders_and_code_are_no_secrets() {
    for text in [
        "sk-ant-...",
        "sk-ant-your-key-here-0123456789abcdef",
        "sk-ant-api03-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "ghp_0000000000000000000000000000000000000",
        "sk-1234567890abcdef1234567890abcdef",
        "YOUR_API_KEY",
        "API_KEY=<your-api-key-123>",
        "export API_KEY=$OTHER_KEY_FROM_SOMEWHERE_1",
        "API_KEY=${SOME_KEY_2}",
        "API_KEY = os.environ['OPENAI_API_KEY']",
        "API_KEY: process.env.MY_API_KEY",
        "JWT_SECRET=changeme-in-production-2024",
        "https://example.com:8080/a@b",
        "postgres://user:password@localhost/db",
        "postgres://user:${PASSWORD}@localhost/db",
        "ssh://git@github.com:22/a/b",
        "Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "DEPLOY_TOKEN_PATH=/run/secrets/deploy_token_2024",
        "API_KEY_HEADER: x-api-key-for-this-service",
        "the password is on the note, max_tokens: 4096",
        "const token = readToken(file1)",
        "password: Option<String>",
        "Cookie: a=b",
        "t('password', 'The password must have 8 letters')",
        "pick(user, 'password', 'address2')",
        "define('DB_PASSWORD', getenv('DB_PASSWORD_2'))",
        "['token', 'secret_v2_name']",
        "git push -u origin main; docker run -u 1000:1000 x",
        "[redacted:github-token]: build-20240131",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

#[test]
fn names_in_small_letters_count() {
    for (text, wanted) in [
        (
            "aws_secret_access_key = wJalrXUtnFEMI7MDENG",
            "aws_secret_access_key = [redacted:assigned-secret]",
        ),
        ("db_password: 'hunter2hunter'", "db_password: '[redacted:assigned-secret]'"),
        (r#"{"password": "c0rrect-horse"}"#, r#"{"password": "[redacted:assigned-secret]"}"#),
        ("api_key=0123456789abcdef", "api_key=[redacted:assigned-secret]"),
        (
            "authorization: Basic QWxhZGRpbjpvcGVuMTIzNDU2Nzg5",
            "authorization: Basic [redacted:basic-auth]",
        ),
    ] {
        assert_eq!(shown(text), wanted);
    }
}

/// Passwords of people, in the forms in which they stand in files.
#[test]
fn passwords_have_signs() {
    for password in [
        "aB3$xY9&kL2!mN",
        "Tr0ub4dor&3xYz",
        "Xy7(Qw9)zPl2",
        "k9#mP2@xLq8w",
        "ab12cd34$",
        "P4ssw0rd;drop9",
        "Zx9,kd.Qq3-1",
        "my$ecretP4ss",
        "9fJ{kd}83jf",
        "hG7<kd>9sLw",
        "S3cr3t[0]x9k",
        "a8%kd92%Lsk",
        "Summer2024!",
        "hunter2",
        "S3cret!",
        "letmein",
    ] {
        for (before, after) in
            [("DB_PASSWORD=", "\nA=b"), ("password: ", "\n"), ("{\"password\": \"", "\"}")]
        {
            let text = format!("{before}{password}{after}");
            assert_eq!(
                shown(&text),
                format!("{before}[redacted:assigned-secret]{after}"),
                "{text}"
            );
        }
    }
    for password in [
        "Xy7(Qw9)zPl2",
        "k9#mP2@xLq8w",
        "P4ssw0rd;drop9",
        "Zx9,kd.Qq3-1",
        "9fJ{kd}83jf",
        "hG7<kd>9sLw",
        "#Kd83jf92ls",
        "20240115",
    ] {
        let text = format!("postgres://app:{password}@db/x");
        assert_eq!(shown(&text), "postgres://app:[redacted:url-password]@db/x", "{text}");
    }
    assert_eq!(
        shown("a?password=x9Kq2Lm8&user=b connect(password=x9Kq2Lm8, user=b)"),
        "a?password=[redacted:assigned-secret]&user=b \
         connect(password=[redacted:assigned-secret], user=b)"
    );
    assert_eq!(
        shown(r#"{"password": "p@ss w0rd 99"}"#),
        r#"{"password": "[redacted:assigned-secret]"}"#
    );
    for text in [
        "password = getPassword()",
        "password = getPassword2(user1)",
        "password: string",
        "password: process.env.DB_PASSWORD_V2",
        "password=$PASSWORD",
        "password: ${DB_PASSWORD}",
        "password=<password>",
        "password: true",
        "password_hash_length: 32",
        "password: Vec<u8>, user: Map<k1, v2>",
        "password=args[1], user=args[2]",
        "password=pre$DB_PASSWORD",
        "password: changeme123",
        "http://a:8080,b@c http://x.test:80;user@y",
    ] {
        assert_eq!(shown(text), text);
    }
}

/// A value may stand apart from its name, or behind a type.
#[test]
fn values_apart_from_their_names() {
    let value = noise(32);
    for (before, after) in [
        ("const token: string = \"", "\""),
        ("val apiKey: String = \"", "\""),
        ("let api_key: &str = \"", "\";"),
        ("- name: DB_PASSWORD\n  value: \"", "\""),
        ("{\"name\":\"DB_PASSWORD\",\"value\":\"", "\"}"),
        ("{\"Name\":\"/prod/db/password\",\"Type\":\"SecureString\",\"Value\":\"", "\"}"),
        ("<add key=\"ApiKey\" value=\"", "\" />"),
        ("<key>apiKey</key>\n<string>", "</string>"),
        ("| password | ", " |"),
        ("ENV API_TOKEN ", "\n"),
        ("set -x API_TOKEN ", "\n"),
        ("CREATE USER a WITH PASSWORD '", "';"),
        (".password(\"", "\")"),
        ("setPassword(\"", "\");"),
        ("the db password is \"", "\""),
        ("use this api key: ", " now"),
        ("aws configure set aws_secret_access_key ", "\n"),
        ("npm config set //registry.npmjs.org/:_authToken ", "\n"),
        ("ALGOLIA_ADMIN_KEY=", "\n"),
        ("APP_KEY=base64:", "\n"),
        ("secret_key:\n    ", "\n"),
        ("db:\n  password: >-\n    ", "\n  user: bob\n"),
        ("api_token: |\r\n  ", "\r\n"),
        ("pswd=", "\n"),
        ("DB_PW=", "\n"),
        ("pw: ", "\n"),
        ("dbPw = '", "'"),
        ("Kennwort: ", "\n"),
        ("{\"kty\":\"oct\",\"k\":\"", "\"}"),
        ("{\"d\": \"", "\", \"crv\": \"P-256\", \"kty\": \"EC\"}"),
    ] {
        let text = format!("{before}{value}{after}");
        // What says how a key is written is a part of it.
        let before = before.trim_end_matches("base64:");
        assert_eq!(shown(&text), format!("{before}[redacted:assigned-secret]{after}"), "{text}");
    }
    for (before, after) in [
        ("curl -b '", "' https://x"),
        ("document.cookie = \"", "\""),
        ("\"set-cookie\":[\"", "\"]"),
        ("requests.get(url, cookies={'a': 'b', 'sessionid': '", "'})"),
        ("cookies = {\n  \"sid\": \"", "\",\n}"),
        (".example.com\tTRUE\t/\tFALSE\t0\tsid\t", "\n"),
        ("#HttpOnly_x.test\tFALSE\t/a\tTRUE\t1999999999\tsid\t", "\n"),
    ] {
        let name = if before.contains(['{', '\t']) { "" } else { "session=" };
        let text = format!("{before}{name}{value}{after}");
        assert_eq!(shown(&text), format!("{before}[redacted:cookie]{after}"), "{text}");
    }
    for text in [
        "{\"name\":\"token\",\"value\":\"user name\"}",
        "the password is wrong, the token is missing",
        "{\"name\": \"key\"}, {\"value\": \"x8Kq2Lm8Rt5Yz1Wv\"}",
        "tokens.add_token(\"1234\\n1234\")",
        "password:\n    type8: string",
        "secret_key:\n    x8Kq2Lm8Rt5Yz1Wv:",
        "  secret_key_base:\n    \"test-only-secret-of-at-least-64-bytes-for-signing\",\n",
        "def f(token:\n    Optional):",
        "password: >-\n  see the other file",
        "pw=$PW2 pw: string, pw = getpw(user1), npw=x8Kq2Lm8Rt5Yz1Wv",
        "pw=true pw: 123456",
        "cookies: { secure: true, sameSite: 'lax', name: 'connect.session.name' }",
        "cookies={'theme': 'dark'}; other = {'a': 'x8Kq2Lm8Rt5Yz1Wv'}",
        "a\tTRUE\t/\tx8Kq2Lm8Rt5Yz1Wv",
        ".example.com\tTRUE\t/\tFALSE\t0\ttheme\tdark",
    ] {
        assert_eq!(shown(text), text);
    }
}

/// An id behind a word is not a key, and neither are addresses and the names of secrets.
#[test]
fn ids_are_no_keys() {
    let (id, uuid) = (hex(32), "9f3a7c1e-5b0d-8246-9f3a-7c1e5b0d8246");
    for text in [
        format!("react-key-{id}"),
        format!("cache-key-{id}"),
        format!("api-{uuid}"),
        format!("sdk-{uuid}"),
        format!("token: 0x{}", hex(40)),
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:prod-db9/pw-AbCd3F".to_owned(),
    ] {
        assert_eq!(shown(&text), text);
    }
    assert_eq!(shown(&format!("mailgun key-{id}")), "mailgun [redacted:mailgun-key]");
    assert_eq!(shown(&format!("LD_KEY: sdk-{uuid}")), "LD_KEY: [redacted:launchdarkly-key]");
}

#[test]
fn json_is_read_before_it_is_looked_at() {
    let redactor = Redactor::default();
    let key = format!("ghp_{}", noise(36));
    let value = noise(12);
    let line = noise(64);
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{line}\n{line}\n-----END PRIVATE KEY-----\n");
    let account = serde_json::json!({"type": "service_account", "private_key": pem}).to_string();
    let nested = serde_json::json!({"file_path": "/x", "content": account}).to_string();
    let input = format!(
        "{{\"a\" : \"\\u0067{}\", \"password\":\"{value}\",\
         \"n\":[1.50,true,\"\\u00e9{key}\"],\"in\":{nested}, \"t\":\"a\\/b\"}}",
        &key[1..]
    );
    let mut mask = Mask::new(&redactor);
    let shown = mask.json(&input).into_owned();
    let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(read["a"], "[redacted:github-token]");
    assert_eq!(read["password"], "[redacted:assigned-secret]");
    assert_eq!(read["n"][2], "é[redacted:github-token]");
    assert!(!shown.contains(&line), "{shown}");
    // Everything else is unchanged.
    assert!(shown.starts_with("{\"a\" : \"") && shown.contains("[1.50,true,"), "{shown}");
    assert!(shown.ends_with(", \"t\":\"a\\/b\"}"), "{shown}");
    assert_eq!(mask.hidden().values().sum::<u64>(), 4);
    // In pieces of any size.
    for size in [1, 2, 3, 7, 64] {
        use std::io::Write;
        let mut mask = Mask::new(&redactor);
        let mut out = JsonMask::new(&mut mask, Vec::new());
        for piece in input.as_bytes().chunks(size) {
            out.write_all(piece).unwrap();
        }
        assert_eq!(String::from_utf8(out.finish().unwrap()).unwrap(), shown, "{size}");
    }
    assert_eq!(Mask::none().json(&input), input);
    // A diff has one string per line.
    let [begin, end] = ["+-----BEGIN PRIVATE KEY-----", "+-----END PRIVATE KEY-----"];
    let lines = serde_json::json!({"lines": [begin, format!("+{line}"), "+Zq8R=", end, "+abc"]});
    let shown = Mask::new(&redactor).json(&lines.to_string()).into_owned();
    let hidden = "+[redacted:private-key]";
    let wanted = serde_json::json!({"lines": [begin, hidden, hidden, end, "+abc"]});
    assert_eq!(shown, wanted.to_string());
    assert_eq!(Mask::new(&redactor).json(&shown), shown);
}

#[test]
fn what_leaves_is_searched_as_thoroughly_as_what_is_redacted() {
    use base64::Engine as _;
    let redactor = Redactor::default();
    let key = format!("ghp_{}", noise(36));
    let (front, back) = key.split_at(24);
    let coded = base64::engine::general_purpose::STANDARD.encode(format!("TOKEN={key}"));
    let dump = base64::engine::general_purpose::STANDARD
        .encode(format!("PATH=/usr/bin:/bin\nHOME=/home/dev\nTOKEN={key}\nLANG=C.UTF-8\n"));
    let lines: Vec<&str> =
        dump.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    for text in [
        format!("it is\n{front}\n{back}\n"),
        format!("     7→{front}\n     8→{back}\n     9→\n"),
        format!("+{front}\n+{back}\n"),
        format!("a header: {coded} and more"),
        lines.join("\n"),
    ] {
        let shown = Mask::new(&redactor).text(&text).into_owned();
        assert!(shown.contains("[redacted:github-token]"), "{text}: {shown}");
        let rest: String = shown.chars().filter(char::is_ascii_alphanumeric).collect();
        assert!(!rest.contains(&back[..12]) && !rest.contains(&front[4..16]), "{text}: {shown}");
        let hidden = Mask::new(&redactor).json(&quote(&text)).into_owned();
        assert_eq!(serde_json::from_str::<String>(&hidden).unwrap(), shown);
    }
}

#[test]
fn a_mask_that_knows_a_session_hides_what_no_rule_recognizes() {
    let key = format!("ghp_{}", noise(36));
    let mut values = Values::default();
    values.add("github-token", key.as_bytes(), Vec::new());
    let cover = Cover::new(std::sync::Arc::default(), values);
    let mut mask = Mask::of(&cover);
    let lines: Vec<&str> =
        key.as_bytes().chunks(7).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let shown = mask.text(&lines.join("\n")).into_owned();
    assert_eq!(shown, "[redacted:github-token:1]");
    let json = serde_json::json!({&key: [key.replace('_', "%5F")]}).to_string();
    let shown = mask.json(&json).into_owned();
    assert_eq!(shown, r#"{"[redacted:github-token:1]":["[redacted:github-token:1]"]}"#);
    assert_eq!(mask.hidden().clone(), [("github-token".to_owned(), 3)].into());
    // Another one has no number.
    let other = format!("ghp_{}", noise(36).to_lowercase());
    assert_eq!(mask.text(&other), "[redacted:github-token]");
}

#[derive(Debug)]
struct Word(&'static str);

impl Custom for Word {
    fn name(&self) -> &'static str {
        "word"
    }
    fn find(&self, text: &str) -> Vec<Range<usize>> {
        text.match_indices(self.0).map(|(at, word)| at..at + word.len()).collect()
    }
}

#[test]
fn rules_of_users_and_what_they_allow() {
    let key = format!("ghp_{}", noise(36));
    let redactor =
        Redactor::new(vec![Box::new(Word("größer\n"))], vec![key.clone(), "AKIA*Q*".into()]);
    let text = format!("größer\n {key} AKIA{}Q{} x", "Z8".repeat(4), "R2".repeat(3) + "T");
    let mut mask = Mask::new(&redactor);
    assert_eq!(mask.text(&text), text.replace("größer\n", "[redacted:word]"));
    // In a line of JSON, the rule sees the decoded text.
    let line = serde_json::json!({"text": text}).to_string();
    assert_eq!(redactor.find_in_line(line.as_bytes()), ["word"]);
    for (pattern, value, is_it) in [
        ("a*c", "abbc", true),
        ("a*c", "abcd", false),
        ("*", "", true),
        ("a**b", "ab", true),
        ("*b*", "abc", true),
        ("a", "ab", false),
        ("a*a", "a", false),
    ] {
        assert_eq!(fits(pattern.as_bytes(), value.as_bytes()), is_it, "{pattern} {value}");
    }
}

/// Redacting never panics, hides everything that was found, leaves the rest unchanged, and keeps
/// JSON valid.
#[test]
fn any_text_is_looked_through() {
    let anchors = TABLE.anchors.iter().map(|anchor| anchor.text.clone());
    let mut seeds: Vec<Vec<u8>> =
        anchors.map(|text| [text, noise(70).into_bytes()].concat()).collect();
    let line = noise(64);
    seeds.extend([
        format!(
            "{{\"private_key\":\"-----BEGIN PRIVATE KEY-----\\n{line}\\n\
             -----END PRIVATE KEY-----\\n\"}}"
        )
        .into_bytes(),
        format!("{{\"a\":{{\"password\":\"{line}\"}},\"b\":[\"\\u0067hp_{line}\",1]}}")
            .into_bytes(),
        format!(
            "curl -u a:{line} https://a:{line}@b/ Cookie: a={line}; Authorization: Bearer {line}"
        )
        .into_bytes(),
        format!("curl -u a:{line}1 -u a:{line}2 -U a:{line}3 -u a:{line}4 -u a:{line}5")
            .into_bytes(),
        format!("export API_KEY='{line}' TOKEN={line} \u{1b}[32mghp_{line}\\u001b[0m").into_bytes(),
        format!("M{}.{}.{} 12345678:{}", &line[..23], &line[..6], &line[..27], &line[..35])
            .into_bytes(),
        b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}".to_vec(),
    ]);
    let redactor = Redactor::default();
    testkit::mutate::run(&seeds, 100_000, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let mut end = 0;
        let secrets = redactor.find(&text);
        for one in &secrets {
            assert!(one.range.start >= end && one.range.start < one.range.end);
            end = one.range.end;
        }
        let _ = redactor.find_in_line(bytes);
        let deep = cover::recognized(&redactor, None, &text);
        let shown = Mask::new(&redactor).text(&text).into_owned();
        assert_eq!(deep.is_empty(), shown == *text);
        assert_eq!(Mask::new(&redactor).text(&shown), shown, "hidden twice: {text:?}");
        // Nothing else changes, unless what was hidden exposes another one.
        let mut once = text.clone().into_owned();
        for (range, _, kind) in deep.into_iter().rev() {
            once.replace_range(whole_characters(&text, range), &cover::unnumbered(kind));
        }
        assert!(shown == once || !cover::recognized(&redactor, None, &once).is_empty());
        let json = Mask::new(&redactor).json(&text).into_owned();
        if let Ok(read) = serde_json::from_str::<serde_json::Value>(&text) {
            let again = serde_json::from_str::<serde_json::Value>(&json).expect("JSON stays JSON");
            assert_eq!(std::mem::discriminant(&read), std::mem::discriminant(&again));
        }
        assert_eq!(Mask::none().json(&text), text);
    });
}
