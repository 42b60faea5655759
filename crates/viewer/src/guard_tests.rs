use super::*;

fn guard() -> Guard {
    Guard::new("quipu-x.localhost", 4747)
}

fn asked<'a>(path: &'a str, cookie: Option<&'a str>) -> Asked<'a> {
    Asked { method: "GET", host: Some("quipu-x.localhost:4747"), cookie, path, ..Asked::default() }
}

fn status(guard: &Guard, asked: &Asked<'_>) -> u16 {
    match guard.admit(asked) {
        Admission::Page(_) => 200,
        Admission::Welcome => 303,
        Admission::Refused(status, _) => status,
    }
}

#[test]
fn the_token_works_once() {
    let guard = guard();
    let path = guard.start().strip_prefix("http://quipu-x.localhost:4747").unwrap().to_owned();
    assert_eq!(status(&guard, &asked("/open/wrong", None)), 403);
    assert_eq!(status(&guard, &asked(&path, None)), 303);
    assert_eq!(status(&guard, &asked(&path, None)), 403);
    assert_eq!(status(&guard, &asked("/open/", None)), 403);
}

#[test]
fn only_with_all_secrets() {
    let guard = guard();
    let cookie = guard.set_cookie();
    let cookie = cookie.split(';').next().unwrap();
    let path = format!("{}s/1", guard.root());
    let good = asked(&path, Some(cookie));
    assert_eq!(guard.admit(&good), Admission::Page("s/1"));
    assert_eq!(status(&guard, &asked(&path, None)), 403);
    assert_eq!(status(&guard, &asked(&path, Some("quipu=1"))), 403);
    assert_eq!(status(&guard, &asked("/wrong/s/1", Some(cookie))), 403);
    assert_eq!(status(&guard, &asked("/", Some(cookie))), 403);
    let refused = [
        Asked { host: Some("127.0.0.1:4747"), ..good },
        Asked { host: Some("evil.example"), ..good },
        Asked { host: None, ..good },
        Asked { origin: Some("http://evil.example"), ..good },
        Asked { origin: Some("null"), ..good },
        Asked { site: Some("cross-site"), ..good },
        Asked { site: Some("same-site"), ..good },
        Asked { destination: Some("iframe"), ..good },
        Asked { method: "POST", ..good },
    ];
    for one in refused {
        assert_ne!(status(&guard, &one), 200, "{one:?}");
    }
    let same =
        Asked { origin: Some("http://quipu-x.localhost:4747"), site: Some("same-origin"), ..good };
    assert_eq!(status(&guard, &same), 200);
}

#[test]
fn at_all_addresses_only_addresses_are_names() {
    let guard = Guard::anywhere("192.0.2.7", 4747);
    let path = guard.start().strip_prefix("http://192.0.2.7:4747").unwrap().to_owned();
    let at = |host| Asked { host: Some(host), ..asked("/", None) };
    for host in ["192.0.2.7:4747", "127.0.0.1:4747", "[::1]:4747"] {
        assert_eq!(status(&guard, &at(host)), 403, "{host}");
        let foreign = Asked { path: &path, origin: Some("http://192.0.2.8:4747"), ..at(host) };
        assert_eq!(status(&guard, &foreign), 403, "{host}");
    }
    for host in ["evil.example:4747", "127.0.0.1", "127.0.0.1:80", "localhost:4747", ""] {
        assert_eq!(status(&guard, &at(host)), 421, "{host}");
    }
    assert_eq!(status(&guard, &Asked { path: &path, ..at("127.0.0.1:4747") }), 303);
}

#[test]
fn the_usual_port_is_not_written() {
    let guard = Guard::new("quipu-x.localhost", 80);
    assert!(guard.start().starts_with("http://quipu-x.localhost/open/"));
    let at = |host| Asked { host: Some(host), ..asked("/", None) };
    assert_eq!(status(&guard, &at("quipu-x.localhost")), 403);
    assert_eq!(status(&guard, &at("quipu-x.localhost:81")), 421);
}
