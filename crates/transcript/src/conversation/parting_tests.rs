use proptest::prelude::*;

use super::*;

fn keys_of(numbers: &[(u8, u8)]) -> Vec<TurnKey> {
    let key = |(prompt, rest): &(u8, u8)| TurnKey {
        prompt: u64::from(*prompt),
        all: u64::from(*prompt) << 8 | u64::from(*rest),
    };
    numbers.iter().map(key).collect()
}

#[test]
fn turns_are_the_same_changed_or_only_in_one() {
    let first = keys_of(&[(1, 0), (2, 0), (3, 0), (4, 0)]);
    let second = keys_of(&[(1, 0), (3, 1), (4, 0), (5, 0)]);
    assert_eq!(
        align(&first, &second),
        [
            Aligned::Same(0, 0),
            Aligned::First(1),
            Aligned::Changed(2, 1),
            Aligned::Same(3, 2),
            Aligned::Second(3),
        ]
    );
}

#[test]
fn ids_of_records_do_not_count() {
    let id = "0a1b2c3d-0000-4000-8000-0123456789ab";
    assert_eq!(unnamed(format!("in {id}/x, {id}0").as_bytes()), b"in #/x, #0");
    assert_eq!(
        unnamed(b"0a1b2c3d-0000-4000-8000-0123456789a"),
        b"0a1b2c3d-0000-4000-8000-0123456789a"
    );
}

proptest! {
    #[test]
    fn every_turn_is_listed_once_and_in_order(
        one in proptest::collection::vec((0_u8..4, 0_u8..2), 0..20),
        other in proptest::collection::vec((0_u8..4, 0_u8..2), 0..20),
    ) {
        let (first, second) = (keys_of(&one), keys_of(&other));
        let (mut ones, mut others) = (Vec::new(), Vec::new());
        for part in align(&first, &second) {
            match part {
                Aligned::Same(a, b) => {
                    prop_assert_eq!(first[a], second[b]);
                    ones.push(a);
                    others.push(b);
                }
                Aligned::Changed(a, b) => {
                    prop_assert_eq!(first[a].prompt, second[b].prompt);
                    prop_assert_ne!(first[a].all, second[b].all);
                    ones.push(a);
                    others.push(b);
                }
                Aligned::First(a) => ones.push(a),
                Aligned::Second(b) => others.push(b),
            }
        }
        prop_assert_eq!(ones, (0..first.len()).collect::<Vec<_>>());
        prop_assert_eq!(others, (0..second.len()).collect::<Vec<_>>());
        let same: Vec<_> = (0..first.len()).map(|at| Aligned::Same(at, at)).collect();
        prop_assert_eq!(align(&first, &first), same);
    }
}
