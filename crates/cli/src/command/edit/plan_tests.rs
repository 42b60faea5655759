use std::fmt::Write as _;

use testkit::Rng;

use super::*;

#[test]
fn a_plan_has_a_verb_for_each_turn() {
    let text = "keep 1 14:05 1,234 tok  fix the parser: now\nd 2\n\n# a comment\ns  3\nq 4 x\nr 5\n\
                reword 6: two\\nlines \\\\n\nk 8\n";
    let verbs = parse(text, 8).unwrap().unwrap();
    assert_eq!(
        verbs,
        [
            PlanVerb::Keep,
            PlanVerb::Drop,
            PlanVerb::Strip,
            PlanVerb::Squash,
            PlanVerb::Reword(None),
            PlanVerb::Reword(Some("two\nlines \\n".to_owned())),
            PlanVerb::Drop,
            PlanVerb::Keep,
        ]
    );
    assert_eq!(parse("# only comments\n\n", 3), Ok(None));
}

#[test]
fn what_is_not_understood_is_refused_with_its_line() {
    for (text, line, words) in [
        ("keep 1\npick 2\n", 2, "`pick` is not known"),
        ("keep\n", 1, "needs the number"),
        ("keep one\n", 1, "needs the number"),
        ("keep 1x\n", 1, "needs the number"),
        ("keep 0\n", 1, "no turn 0"),
        ("\n\ndrop 4\n", 3, "no turn 4: there are 3 turns"),
        ("keep 1\nkeep 2\ndrop 1\n", 3, "turn 1 is also in line 1"),
        ("keep 2\nkeep 1\n", 2, "cannot be reordered"),
        ("keep 1: x\n", 1, "only `reword` takes a text"),
        ("keep 99999999999999999999999\n", 1, "needs the number"),
    ] {
        let error = parse(text, 3).unwrap_err();
        assert_eq!(error.line, line, "{text}");
        assert!(error.text.contains(words), "{text}: {}", error.text);
    }
}

/// What is written is read again, whatever the verbs are; and no text is fatal.
#[test]
fn any_plan_is_read_as_it_was_meant_or_refused() {
    let mut rng = Rng::new(4);
    for _ in 0..2_000 {
        let count = 1 + rng.below(9);
        let mut text = String::new();
        let mut wanted = Vec::new();
        for number in 1..=count {
            let (names, verb) = match rng.below(6) {
                0 => (["k", "keep"], PlanVerb::Keep),
                1 => (["d", "drop"], PlanVerb::Drop),
                2 => (["s", "strip"], PlanVerb::Strip),
                3 => (["q", "squash"], PlanVerb::Squash),
                4 => (["r", "reword"], PlanVerb::Reword(None)),
                _ => {
                    wanted.push(PlanVerb::Drop);
                    continue;
                }
            };
            let name = names[rng.below(2)];
            let _ = writeln!(text, "{name} {number}  10:00 12 tok  words # {number}");
            wanted.push(verb);
        }
        let wanted = Some(wanted).filter(|_| !text.is_empty());
        assert_eq!(parse(&text, count), Ok(wanted), "{text}");
        // Damaged, it is still read or refused.
        let mut bytes: Vec<char> = text.chars().collect();
        for _ in 0..3 {
            if !bytes.is_empty() {
                let (at, letter) =
                    (rng.below(bytes.len()), *rng.pick(&['\n', ':', '#', '9', '\\', 'é']));
                bytes[at] = letter;
            }
        }
        let damaged: String = bytes.into_iter().collect();
        let lines = damaged.lines().count();
        match parse(&damaged, count) {
            Ok(Some(verbs)) => assert_eq!(verbs.len(), count),
            Ok(None) => {}
            Err(error) => assert!((1..=lines).contains(&error.line), "{damaged}"),
        }
    }
}
