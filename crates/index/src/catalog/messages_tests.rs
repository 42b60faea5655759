use testkit::Rng;
use transcript::conversation::usage::{MessageUsage, Usage};
use transcript::format::time::Time;

use super::MessageList;

fn message(rng: &mut Rng) -> MessageUsage {
    let text = |rng: &mut Rng| match rng.below(3) {
        0 => None,
        1 => Some("a".into()),
        _ => Some(format!("text {}", rng.below(9)).into()),
    };
    let number = |rng: &mut Rng| {
        let bits = rng.below(64);
        rng.number() >> bits
    };
    MessageUsage {
        id: format!("msg_{}", rng.number()),
        model: text(rng),
        usage: Usage {
            input: number(rng),
            output: number(rng),
            cache_5m: number(rng),
            cache_1h: number(rng),
            cache_read: number(rng),
            searches: number(rng),
            fetches: number(rng),
            at_least: rng.below(2) == 0,
        },
        tier: text(rng),
        speed: text(rng),
        tool: text(rng),
        records: u32::try_from(rng.below(1_000)).unwrap(),
        time: (rng.below(2) == 0).then(|| Time(rng.number().cast_signed())),
        line: number(rng),
        session: text(rng),
        is_sidechain: rng.below(2) == 0,
    }
}

#[test]
fn a_list_comes_back_and_damage_is_noticed() {
    let rng = &mut Rng::new(19);
    for length in 0..40 {
        let messages: Vec<MessageUsage> = (0..length).map(|_| message(rng)).collect();
        let list = MessageList::of(&messages);
        assert_eq!(list.list().as_deref(), Some(&messages[..]));
        for _ in 0..50 {
            let mut bytes = list.0.clone();
            if bytes.is_empty() {
                break;
            }
            let at = rng.below(bytes.len());
            bytes[at] = rng.byte();
            bytes.truncate(bytes.len() - at % 3);
            let is_same = bytes == list.0;
            assert_eq!(MessageList(bytes).list().is_some(), is_same, "{length} at {at}");
        }
    }
}
