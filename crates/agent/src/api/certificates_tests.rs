use super::*;

/// Makes a request to a server with one certificate, trusting another.
fn ask(server: &str, trusted: &str) -> Result<u16, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trusted.pem");
    std::fs::write(&path, testkit::tls::pem(trusted).unwrap()).unwrap();
    let port = testkit::tls::serve(server).unwrap();
    let client = reqwest::blocking::Client::builder().no_proxy();
    let client = trusting(client, Some(&path)).unwrap().build().unwrap();
    let answer = client.post(format!("https://127.0.0.1:{port}/")).body("x").send();
    answer.map(|answer| answer.status().as_u16()).map_err(|error| {
        let mut cause: &dyn std::error::Error = &error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        cause.to_string()
    })
}

#[test]
fn a_server_may_have_signed_its_own() {
    assert_eq!(ask("here", "here"), Ok(200));
}

#[test]
fn what_was_not_named_is_for_another_name_or_has_expired_is_refused() {
    for (server, trusted, why) in [
        ("here", "elsewhere", "CaUsedAsEndEntity"),
        ("elsewhere", "elsewhere", "not valid for name"),
        ("expired", "expired", "expired"),
    ] {
        let error = ask(server, trusted).unwrap_err();
        assert!(error.contains(why), "{server}, {trusted}: {error}");
    }
}

#[test]
fn a_file_without_certificates_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for (text, why) in [("", "begins like one"), ("-----BEGIN CERTIFICATE-----\nAAAA\n", "")] {
        let path = folder.path().join("trusted.pem");
        std::fs::write(&path, text).unwrap();
        let client = reqwest::blocking::Client::builder();
        let error = trusting(client, Some(&path)).unwrap_err();
        assert!(error.contains("holds no certificates") && error.contains(why), "{error}");
    }
}
