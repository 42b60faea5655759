//! Every code is shown by a session, and documented; every available file gets a verdict.

pub(crate) mod sessions;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use sessions::{Made, session};
use transcript::client::check::{Code, Report, Verdict, check, check_alone, check_unsearched};
use transcript::client::history::{Rules, ranges};
use transcript::conversation::place::{Session, agents, find_secrets, is_agent};

fn write(path: &Path, bytes: &[u8]) {
    fs::File::create(path).unwrap().write_all(bytes).unwrap();
}

fn judged(code: Code, made: &Made) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("5e551011-0000-4000-8000-000000000000.jsonl");
    write(&path, &made.bytes);
    let agents = path.with_extension("").join("subagents");
    for (name, bytes) in &made.agents {
        fs::create_dir_all(&agents).unwrap();
        if code == Code::AgentUnreadable {
            // Even a user who may read everything cannot read a broken link.
            std::os::unix::fs::symlink("nowhere", agents.join(name)).unwrap();
        } else {
            write(&agents.join(name), bytes);
        }
    }
    check(&Session::at(&path).unwrap(), Rules::of(made.version).unwrap(), None).unwrap()
}

/// The report in a few lines.
fn describe(report: &Report) -> String {
    let mut text =
        format!("as {}: {}, {:?}\n", report.version, report.verdict.words(), report.reach);
    for finding in &report.findings {
        let line = finding.line.map_or_else(String::new, |line| format!(" line {line}"));
        let more =
            if finding.more > 0 { format!(" and {} more", finding.more) } else { String::new() };
        let _ = writeln!(
            text,
            "  {} {}{line}: {}{more}",
            finding.severity.name(),
            finding.code,
            finding.text
        );
    }
    text
}

#[test]
fn every_code_is_shown_by_a_session() {
    let (mut all, mut missing) = (String::new(), Vec::new());
    for code in Code::ALL {
        let made = session(*code);
        let report = judged(*code, &made);
        let found = report
            .findings
            .iter()
            .any(|finding| finding.code == *code && finding.severity == made.severity);
        if !found {
            missing.push(format!("{code} {:?}:\n{}", made.severity, describe(&report)));
        }
        let _ = write!(all, "{code}: {}", describe(&report));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    insta::assert_snapshot!("every_code", all);
}

#[test]
fn every_code_has_a_section() {
    let page = fs::read_to_string(testkit::root().join("docs/checks.md")).unwrap();
    let sections: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    let codes: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(sections, codes);
}

/// The files that were made by hand, by the rules of four versions.
#[test]
fn edited_files_get_their_verdicts() {
    let mut all = String::new();
    for file in testkit::files_under(&[testkit::fixtures().join("edited")]) {
        let name = file.path.file_stem().unwrap().to_string_lossy().into_owned();
        let session = Session::at(&file.path).unwrap();
        let _ = writeln!(all, "{name}");
        for version in ["2.0.76", "2.1.45", "2.1.100", "2.1.325"] {
            let report = check(&session, Rules::of(version).unwrap(), None).unwrap();
            let worst = report.findings.iter().map(|finding| finding.severity).max();
            let why = report.findings.iter().filter(|finding| Some(finding.severity) == worst);
            let why: BTreeSet<&str> = match report.verdict {
                Verdict::Full => BTreeSet::new(),
                _ => why.map(|finding| finding.code.name()).collect(),
            };
            let why: Vec<&str> = why.into_iter().collect();
            let _ = writeln!(all, "  {version}: {} {}", report.verdict.words(), why.join(", "));
        }
    }
    insta::assert_snapshot!("edited", all);
}

/// Whatever a file contains, it gets a verdict, and the counts add up; recordings that ended
/// normally resume.
#[test]
fn every_file_gets_a_verdict() {
    let mut counts = [0; 4];
    for file in testkit::real_files() {
        let session = Session::at(&file.path).unwrap();
        for rules in [Rules::landmarks()[0], Rules::landmarks()[5], Rules::newest()] {
            let report = check(&session, rules, None).unwrap();
            let reach = report.reach;
            assert_eq!(
                reach.recorded,
                reach.sent + reach.summed_up + reach.left + reach.lost,
                "{}",
                file.path.display()
            );
            let is_refused = report.verdict == Verdict::Refused;
            assert!(!is_refused || reach.recorded == 0, "{}", file.path.display());
            assert!(!is_agent(&file.path) || is_refused, "{}", file.path.display());
            counts[report.verdict as usize] += 1;
        }
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

/// Versions that are taken for alike have the verdict of each one alone, also on damaged files.
#[test]
fn versions_that_are_alike_have_one_verdict() {
    let mut rng = testkit::Rng::new(18);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for file in testkit::own_files().iter().filter(|file| file.bytes.len() < 20_000) {
        for bytes in [file.bytes.clone(), testkit::damage::damage(&file.bytes, &mut rng).bytes] {
            write(&path, &bytes);
            let session = Session::at(&path).unwrap();
            let together = check(&session, Rules::newest(), None).unwrap();
            let rules = rng.pick(ranges()).rules;
            let alone = check(&session, rules, None).unwrap();
            count += 1;
            if alone.verdict_of(rules) != together.verdict_of(rules) {
                let verdicts = (alone.verdict_of(rules), together.verdict_of(rules));
                wrong.push(format!("{} {} {verdicts:?}", file.path.display(), rules.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Damage of every kind: a verdict, no panic, and the secret is never printed.
#[test]
fn damaged_files_get_a_verdict() {
    let secret = "ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2";
    let mut rng = testkit::Rng::new(4);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    let files = testkit::own_files();
    for round in 0..300 {
        let whole = &rng.pick(&files).bytes;
        let mut bytes = testkit::damage::damage(&whole[..whole.len().min(200_000)], &mut rng).bytes;
        let names = format!(
            "{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"{secret}\"}},{{\"type\":\"text\",\"{secret}\":1}}]}}}}"
        );
        bytes.extend_from_slice(format!("\n{names}").as_bytes());
        bytes.extend_from_slice(
            format!("\n{{\"type\":\"user\",\"text\":\"{secret}\"}}\n").as_bytes(),
        );
        write(&path, &bytes);
        let report = check(&Session::at(&path).unwrap(), rng.pick(ranges()).rules, None).unwrap();
        let text = describe(&report);
        assert!(!text.contains(secret), "round {round}");
        assert!(text.contains("github-token"), "round {round}: {text}");
    }
}

/// Who has looked for secrets anyway gets the same report without another search.
#[test]
fn secrets_that_were_looked_for_are_reported_as_if_the_check_had_found_them() {
    let [token, other] = ["ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2", "AKIAZQ3DRSTUVWXY2345"];
    let prompt = |text: &str| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"u\",\"parentUuid\":null,\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("5e551011-0000-4000-8000-000000000000.jsonl");
    write(
        &path,
        [prompt("hello"), prompt(token), prompt(&format!("{other} {token}"))].concat().as_bytes(),
    );
    let agent = path.with_extension("").join("subagents/agent-a1.jsonl");
    fs::create_dir_all(agent.parent().unwrap()).unwrap();
    write(&agent, [prompt("look"), prompt(token)].concat().as_bytes());
    let (session, redactor) = (Session::at(&path).unwrap(), Arc::default());
    let rules = Rules::newest();
    let whole = check_alone(&session, agents(&session), rules, &redactor).unwrap().report;
    let mut parts = check_unsearched(&session, agents(&session), rules).unwrap();
    let is_secret = |report: &Report| report.findings.iter().any(|one| one.code == Code::Secret);
    assert!(is_secret(&whole) && !is_secret(&parts.report), "{}", describe(&whole));
    let found = find_secrets(&session, agents(&session), &redactor).unwrap();
    parts.report.add_secrets(&parts.main.table, &path, &found);
    assert_eq!(parts.report.findings, whole.findings);
    assert_eq!(parts.report.verdict, whole.verdict);
}
