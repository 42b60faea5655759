use super::*;

#[test]
fn a_profile_is_found_in_the_usual_files() {
    use AmazonS3ConfigKey::{AccessKeyId, Endpoint, Region, SecretAccessKey, Token};
    let folder = tempfile::tempdir().expect("a folder");
    let aws = folder.path().join(".aws");
    std::fs::create_dir(&aws).expect("a folder");
    let config = "[default]\nregion = eu-west-1\n[profile team]\nregion=us-east-2\n\
                  services = x\n  endpoint_url = http://nested\nendpoint_url = http://127.0.0.1:9\n";
    std::fs::write(aws.join("config"), config).expect("a file");
    let credentials = "# a comment\n[default]\naws_access_key_id = A\naws_secret_access_key = S\n\
                       [team]\naws_access_key_id = T\n; another\naws_session_token = X=Y\n";
    std::fs::write(aws.join("credentials"), credentials).expect("a file");
    let of = |variables: &[(&str, &str)]| {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables = variables.iter().map(pair).collect();
        profile(&Surroundings { variables, home: Some(folder.path().to_owned()) })
    };
    let wanted = |list: &[(AmazonS3ConfigKey, &str)]| -> Vec<(AmazonS3ConfigKey, String)> {
        list.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
    };
    let default = wanted(&[(Region, "eu-west-1"), (AccessKeyId, "A"), (SecretAccessKey, "S")]);
    assert_eq!(of(&[]), default);
    let team = wanted(&[
        (Region, "us-east-2"),
        (Endpoint, "http://127.0.0.1:9"),
        (AccessKeyId, "T"),
        (Token, "X=Y"),
    ]);
    assert_eq!(of(&[("AWS_PROFILE", "team")]), team);
    assert_eq!(of(&[("AWS_PROFILE", "nobody")]), []);
}

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

#[test]
fn google_and_azure_are_understood() {
    let set = |name: &str, value: &str| Surroundings {
        variables: [(name.to_owned(), value.to_owned())].into(),
        home: None,
    };
    let google = set("GOOGLE_BEARER_TOKEN", "t");
    assert!(Bucket::open("gs://bucket/x", &google).is_ok());
    let azure = set("AZURE_STORAGE_ACCOUNT_NAME", "account");
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
    let error = bucket.list("calls", &|_| true).expect_err("refused").to_string();
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
