use super::*;

fn named(url: &str, is_whole: bool) -> Named {
    Named { url: url.to_owned(), by: "test", is_whole, keys: None, headers: Vec::new() }
}

#[test]
fn addresses_lead_to_traces() {
    let made = |url: &str| address(&named(url, false)).map(|url| url.to_string()).unwrap();
    for (given, wanted) in [
        ("http://127.0.0.1:6006", "http://127.0.0.1:6006/v1/traces"),
        ("http://127.0.0.1:6006/v1/traces", "http://127.0.0.1:6006/v1/traces"),
        ("https://a.b/api/public/otel/", "https://a.b/api/public/otel/v1/traces"),
        ("http://[::1]:4318/?x=1", "http://[::1]:4318/v1/traces?x=1"),
    ] {
        assert_eq!(made(given), wanted);
    }
    // OpenTelemetry's own variable for traces is used unchanged.
    assert_eq!(address(&named("http://h/x", true)).unwrap().as_str(), "http://h/x");
    for bad in ["", "localhost:4318", "ftp://h/", "http://127.0.0.1:4317"] {
        assert!(address(&named(bad, false)).is_err(), "{bad}");
    }
}

#[test]
fn here_is_loopback_and_nothing_else() {
    let here = |url: &str| is_here(&Url::parse(url).unwrap());
    assert!(
        ["http://localhost:1", "http://127.9.9.9", "http://[::1]:5"].iter().all(|url| here(url))
    );
    assert!(!["http://10.0.0.1", "https://localhost.com"].iter().any(|url| here(url)));
}

#[test]
fn values_of_variables_are_decoded() {
    assert_eq!(decode("Basic%20YTpi%3D=%zz%"), "Basic YTpi==%zz%");
}
