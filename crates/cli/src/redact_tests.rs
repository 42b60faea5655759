use transcript::format::secret::Mask;

use super::*;

fn config(text: &str) -> RedactConfig {
    toml::from_str(text).unwrap()
}

#[test]
fn rules_and_what_is_allowed() {
    let redactor = redactor(&config(
        r"
        rules = [{ name = 'staff', pattern = 'EMP-[0-9]{6}' }, { name = 'pin', pattern = 'PIN is ([0-9]{4})' }]
        allow = ['EMP-000000', 'ghp_test*']
        ",
    ));
    let redactor = redactor.unwrap();
    let mut mask = Mask::new(&redactor);
    let text = format!("EMP-123456 EMP-000000, the PIN is 4711; ghp_test{}", "Zq8R".repeat(9));
    let shown = mask.text(&text).into_owned();
    let rest = format!("ghp_test{}", "Zq8R".repeat(9));
    assert_eq!(shown, format!("[redacted:staff] EMP-000000, the PIN is [redacted:pin]; {rest}"));
    assert_eq!(
        hidden(mask.hidden()).unwrap(),
        "2 secrets redacted: 1 pin, 1 staff; `--no-redact` shows them"
    );
    assert_eq!(hidden(&BTreeMap::new()), None);
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let many = format!("rules = [{}]", "{ name = 'a', pattern = 'b' },".repeat(65));
    let long = format!("rules = [{{ name = 'a', pattern = '{}' }}]", "b".repeat(1_001));
    for (text, wanted) in [
        ("rules = [{ name = 'a', pattern = '(' }]", "cannot parse the pattern of `a`"),
        ("rules = [{ name = 'a b', pattern = 'x' }]", "a rule is called `a b`"),
        ("rules = [{ name = 'a', pattern = 'x*' }]", "matches the empty text"),
        ("rules = [{ name = 'a', pattern = '(x{1000}){1000}' }]", "cannot parse"),
        ("allow = ['']", "a value of 0 bytes"),
        (many.as_str(), "65 rules"),
        (long.as_str(), "1001 bytes"),
    ] {
        let failure = redactor(&config(text)).unwrap_err();
        assert!(failure.to_string().contains(wanted), "{text}: {failure}");
    }
}
