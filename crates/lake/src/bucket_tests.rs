use super::*;

#[test]
fn addresses_are_checked_before_anything_is_sent() {
    let open = |text: &str| Bucket::open(text, &Surroundings::default());
    for text in ["s3://", "s3:///x", "ftp://x", "s3://a/../b", "s3://key:secret@bucket/x"] {
        let error = open(text).expect_err(text).to_string();
        assert!(!error.contains("secret"), "{error}");
    }
    let bucket = open("s3://bucket/a/b/").expect("a bucket");
    assert_eq!(bucket.shown(), "s3://bucket/a/b");
    assert_eq!(
        bucket.key("calls/day=2026-01-02/m-s.parquet").as_ref(),
        "a/b/calls/day=2026-01-02/m-s.parquet"
    );
}

/// The library would end the program on them.
#[test]
fn settings_that_no_request_can_carry_are_refused() {
    let keys = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
    for wrong in [
        ("AWS_ENDPOINT_URL", "localhost:9000"),
        ("AWS_ENDPOINT_URL", "127.0.0.1:9000"),
        ("AWS_ENDPOINT_URL", "minio.example.com"),
        ("AWS_ENDPOINT_URL_S3", "notaurl"),
        ("AWS_ENDPOINT_URL", "https://"),
        ("AWS_ENDPOINT_URL", "http://[bad"),
        ("AWS_ENDPOINT_URL", "http://host/a b"),
        ("AWS_ENDPOINT_URL_STS", "sts"),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http:/x"),
        ("AWS_REGION", "us%20east"),
        ("AWS_REGION", "us east"),
        ("AWS_SESSION_TOKEN", "a\nb"),
        ("AWS_SECRET_ACCESS_KEY", "a\u{e9}"),
    ] {
        let list = [&keys[..], &[("AWS_REGION", "us-east-1")], &[wrong]].concat();
        let error = Bucket::open("s3://bucket/x", &set(&list)).expect_err(wrong.1).to_string();
        assert!(error.contains(wrong.0), "{error}");
    }
    for name in ["my bucket", "b\u{fc}cket", "a%20b", ""] {
        let error = Bucket::open(&format!("s3://{name}/x"), &set(&keys)).expect_err(name);
        assert!(matches!(error, LakeError::Target(_)), "{error}");
    }
    // One lake has one name.
    for text in ["s3://bucket/x", "s3://bucket/x/", "s3://bucket//x", "s3://bucket//x//"] {
        let bucket = Bucket::open(text, &set(&keys)).expect("a bucket");
        assert_eq!(bucket.identity(), "s3://bucket/x", "{text}");
    }
}

#[test]
fn google_and_azure_are_understood() {
    let google = set(&[("GOOGLE_BEARER_TOKEN", "t")]);
    assert!(Bucket::open("gs://bucket/x", &google).is_ok());
    let azure = set(&[("AZURE_STORAGE_ACCOUNT_NAME", "account")]);
    assert!(Bucket::open("az://container/x", &azure).is_ok());
}

#[test]
fn without_tls_only_this_machine_is_asked() {
    let surroundings = Surroundings {
        variables: [
            ("AWS_ENDPOINT_URL", "http://192.0.2.1:9000"),
            ("AWS_ACCESS_KEY_ID", "a"),
            ("AWS_SECRET_ACCESS_KEY", "b"),
            ("AWS_REGION", "us-east-1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        home: None,
    };
    let bucket = Bucket::open("s3://bucket", &surroundings).expect("a bucket");
    let error = bucket.list("calls", "", &|_| true).expect_err("refused").to_string();
    assert!(error.contains("without TLS"), "{error}");
}

#[test]
fn a_long_object_arrives_in_parts_and_whole() {
    use testkit::s3::{Mood, S3};
    let bytes: Vec<u8> = (0..20_000_000_u32).map(|number| (number / 7).to_le_bytes()[0]).collect();
    for mood in [Mood::Good, Mood::Refusing(503), Mood::Forgetful] {
        let server = S3::start().expect("a server");
        let surroundings = Surroundings {
            variables: [
                ("AWS_ENDPOINT_URL", server.url()),
                ("AWS_ACCESS_KEY_ID", "a".to_owned()),
                ("AWS_SECRET_ACCESS_KEY", "b".to_owned()),
                ("AWS_REGION", "us-east-1".to_owned()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
            home: None,
        };
        let bucket = Bucket::open("s3://bucket", &surroundings).expect("a bucket");
        server.set_mood(mood);
        let mut object = Object::of(&bytes).expect("an object");
        bucket.put("calls/day=unknown/m-s.parquet", &mut object).expect("stored");
        let found = server.objects();
        let there: Vec<(&str, usize)> =
            found.iter().map(|(key, bytes)| (key.as_str(), bytes.len())).collect();
        assert_eq!(there, [("bucket/calls/day=unknown/m-s.parquet", bytes.len())], "{mood:?}");
        assert!(found.values().all(|stored| *stored == bytes), "{mood:?}");
    }
}

fn set(list: &[(&str, &str)]) -> Surroundings {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Surroundings { variables: list.iter().map(pair).collect(), home: None }
}

/// Buckets of one name at several addresses are several targets.
#[test]
fn a_bucket_is_known_by_its_name_and_its_place() {
    let open = |text: &str, list: &[(&str, &str)]| {
        Bucket::open(text, &set(list)).expect("a bucket").identity()
    };
    let here = [("AWS_ENDPOINT_URL", "http://127.0.0.1:9")];
    let there = [("AWS_ENDPOINT_URL", "http://127.0.0.1:10")];
    assert_eq!(open("s3://bucket/a/", &[]), "s3://bucket/a");
    assert_ne!(open("s3://bucket/a", &here), open("s3://bucket/a", &[]));
    assert_ne!(open("s3://bucket/a", &here), open("s3://bucket/a", &there));
    let account = |name| [("AZURE_STORAGE_ACCOUNT_NAME", name)];
    assert_ne!(open("az://container", &account("one")), open("az://container", &account("two")));
}

#[test]
fn without_credentials_it_says_so_and_tries_no_more() {
    let bucket = Bucket::open("s3://bucket/a", &set(&[])).expect("a bucket");
    let fails = |text: &str| {
        let mut tried = 0;
        let outcome = bucket.tried("list", "calls", || {
            tried += 1;
            Err::<(), _>(object_store::Error::Generic { store: "S3", source: text.into() })
        });
        (outcome.expect_err("it failed"), tried)
    };
    let (error, tried) = fails("Error performing PUT http://169.254.169.254/latest/api/token");
    assert_eq!(tried, 1);
    assert!(error.to_string().starts_with("no credentials for s3://bucket/a: "), "{error}");
    assert!(matches!(error, LakeError::Store { trouble: Trouble::Denied, .. }));
    let (error, tried) = fails("Error performing GET http://127.0.0.1:9/bucket");
    assert_eq!(tried, ATTEMPTS);
    assert!(matches!(error, LakeError::Store { trouble: Trouble::Down, .. }));
}
