use super::*;

/// Settings with these variables.
fn settings<'a>(
    variables: &'a [(&'a str, &'a str)],
    config: &'a ShipConfig,
    overrides: Overrides,
) -> Settings<'a> {
    let value = move |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Settings {
        variables: Box::new(value),
        config,
        overrides,
        redactor: Arc::default(),
        folder: Some(PathBuf::from("/state/ship")),
    }
}

fn to(url: &str) -> Overrides {
    Overrides { to: Some(url.to_owned()), ..Overrides::default() }
}

const KEYS: [(&str, &str); 3] = [
    ("LANGFUSE_PUBLIC_KEY", "pk"),
    ("LANGFUSE_SECRET_KEY", "sk"),
    ("LANGFUSE_BASE_URL", "http://l:1"),
];

#[test]
fn the_first_place_that_names_one_wins() {
    let config = ShipConfig { to: Some("http://c".to_owned()), ..ShipConfig::default() };
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://o");
    let named = |variables: &[(&str, &str)], overrides: Overrides| {
        let found = settings(variables, &config, overrides).resolve().unwrap().unwrap();
        (found.named_by, found.target.url)
    };
    let all = [&KEYS[..], &[endpoint]].concat();
    assert_eq!(named(&all, to("http://f")), ("--to", "http://f/v1/traces".to_owned()));
    let langfuse = "http://l:1/api/public/otel/v1/traces".to_owned();
    assert_eq!(named(&all, Overrides::default()), ("LANGFUSE_*", langfuse));
    let otel = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://o/v1/traces".to_owned());
    assert_eq!(named(&[endpoint], Overrides::default()), otel);
    let configured = ("the configuration", "http://c/v1/traces".to_owned());
    assert_eq!(named(&[], Overrides::default()), configured);
    let nothing = ShipConfig::default();
    assert!(settings(&[], &nothing, Overrides::default()).resolve().unwrap().is_none());
}

#[test]
fn keys_go_only_to_their_address() {
    let config = ShipConfig::default();
    let has_keys = |url: &str| {
        let found = settings(&KEYS, &config, to(url)).resolve().unwrap().unwrap();
        found.target.headers.contains_key(AUTHORIZATION)
    };
    assert!(has_keys("http://l:1") && has_keys("http://l:1/api/public/otel"));
    assert!(
        !["http://l", "https://l:1", "http://l:2", "http://m:1"].iter().any(|url| has_keys(url))
    );
}

/// Neither the address of a receiver nor its folder shows what is secret.
#[test]
fn credentials_are_not_shown() {
    let config = ShipConfig::default();
    let resolved = |secret: &str| {
        let variables =
            [KEYS[0], ("LANGFUSE_SECRET_KEY", secret), ("LANGFUSE_HOST", "http://u:pass@l/?q=1")];
        settings(&variables, &config, Overrides::default()).resolve().unwrap().unwrap()
    };
    let (one, other) = (resolved("sk-1"), resolved("sk-2"));
    assert_eq!(one.dir.folder, other.dir.folder);
    for text in [one.shown(), format!("{:?}", one.target.headers), format!("{:?}", one.dir)] {
        assert!(!text.contains("sk-1") && !text.contains(":pass"), "{text}");
    }
}

#[test]
fn secrets_are_sent_to_this_machine_only() {
    let config = ShipConfig::default();
    let redacts = |overrides: Overrides| {
        let found = settings(&[], &config, overrides).resolve().unwrap().unwrap();
        found.telling.redact.is_some()
    };
    assert!(redacts(to("http://far")) && !redacts(to("http://127.0.0.1:1")));
    assert!(redacts(Overrides { redact: Some(true), ..to("http://localhost") }));
    assert!(!redacts(Overrides { redact: Some(false), ..to("http://far") }));
    assert!(settings(&[], &config, Overrides::default()).telling_nobody().redact.is_some());
}

#[test]
fn what_is_wrong_is_named() {
    let config = ShipConfig::default();
    let why = |variables: &[(&str, &str)], overrides: Overrides| {
        settings(variables, &config, overrides).resolve().unwrap_err().to_string()
    };
    let none = Overrides::default;
    assert_eq!(
        why(&[("LANGFUSE_SECRET_KEY", "sk")], none()),
        "LANGFUSE_SECRET_KEY is set, but LANGFUSE_PUBLIC_KEY is not"
    );
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://o");
    assert!(why(&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], none()).contains("`grpc`"));
    assert!(why(&[endpoint, ("OTEL_EXPORTER_OTLP_TIMEOUT", "1s")], none()).contains("is `1s`"));
    let header = |line: &str| Overrides { headers: vec![line.to_owned()], ..to("http://o") };
    assert_eq!(why(&[], header("novalue")), "a header has no value");
    assert!(why(&[], header("a b: c")).contains("the header `a b`"));
    let homeless = Settings { folder: None, ..settings(&[], &config, to("http://o")) };
    assert_eq!(homeless.resolve().unwrap_err(), ResolveError::NoState);
}
