use testkit::Rng;

use super::*;

fn chosen(text: &str, count: usize) -> Result<Vec<usize>, String> {
    let list: TurnList = text.parse()?;
    let among = list.among(count).map_err(|failure| failure.to_string())?;
    Ok((1..).zip(among).filter(|(_, chosen)| *chosen).map(|(number, _)| number).collect())
}

#[test]
fn every_form_names_turns() {
    for (text, turns) in [
        ("3", &[3][..]),
        ("3-5", &[3, 4, 5]),
        ("3..5", &[3, 4, 5]),
        ("3..=5", &[3, 4, 5]),
        ("6-", &[6, 7]),
        ("6..", &[6, 7]),
        ("-2", &[1, 2]),
        ("..2", &[1, 2]),
        ("1,3,5-6", &[1, 3, 5, 6]),
        (" 1 , 7 ", &[1, 7]),
        ("2,2,1-3", &[1, 2, 3]),
    ] {
        assert_eq!(chosen(text, 7).as_deref(), Ok(turns), "{text}");
    }
}

#[test]
fn what_names_no_turn_is_an_error() {
    for text in
        ["", ",", "0", "a", "5-3", "-", "..", "1,,2", "1-2-3", "8", "7-8", "9-", "-0", "+1 2"]
    {
        assert!(chosen(text, 7).is_err(), "{text}");
    }
}

/// No text is fatal, and what is accepted names only turns that are there.
#[test]
fn any_text_is_read_or_refused() {
    let letters: Vec<char> = "0123456789-.,= +x\u{e9}".chars().collect();
    let mut rng = Rng::new(20);
    let mut read = 0;
    for _ in 0..20_000 {
        let text: String = (0..rng.below(9)).map(|_| *rng.pick(&letters)).collect();
        if let Ok(found) = chosen(&text, 12) {
            read += 1;
            assert!(
                !found.is_empty() && found.iter().all(|turn| (1..=12).contains(turn)),
                "{text}"
            );
        }
    }
    assert!(read > 500, "{read}");
}
