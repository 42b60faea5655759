use transcript::client::context::{Difference, Lifetime};

use super::*;

/// A model with a higher price for long requests: 3 dollars for a million tokens, and 6.
const PRICES: &str = r#"{"models":{"m":{"input":3,"output":15,"cache_read":0.3,"cache_write_5m":4,
    "input_above_200k":6,"output_above_200k":22,"cache_read_above_200k":0.6,
    "cache_write_5m_above_200k":8}}}"#;

/// A request of so many tokens, of which so many are cached, a minute after the last one.
fn request(tokens: u64, prefix: u64) -> NextRequest {
    let difference = Difference { message: 1, line: None, kind: None, reason: Reason::Continues };
    NextRequest {
        model: "m".to_owned(),
        tokens,
        prefix,
        lifetime: Lifetime::FiveMinutes,
        used: Some(Time(0)),
        version: Some("2.1.45".to_owned()),
        difference,
        is_estimate: false,
    }
}

fn prices() -> Prices {
    let mut prices = Prices::default();
    prices.add(PRICES.as_bytes()).unwrap();
    prices
}

const NOW: Time = Time(60_000);

#[test]
fn the_parts_have_the_rates_of_the_whole() {
    let prices = prices();
    let long = Prospect::new(request(300_000, 250_000), NOW, &prices);
    // 250,000 tokens at 0.60, and 50,000 at 8 dollars: neither part is a long request.
    assert_eq!(long.price_of_cached(), "$0.15");
    assert_eq!(long.price_of_new(), "$0.40");
    assert_eq!(long.price(), "about $0.55");
    let unknown = NextRequest { model: "other".to_owned(), ..request(10, 0) };
    let unknown = Prospect::new(unknown, NOW, &prices);
    assert_eq!(unknown.price_of_cached(), "?");
    assert_eq!(unknown.dollars(), None);
}

#[test]
fn a_change_pays_for_itself_by_what_each_later_request_costs_less() {
    let prices = prices();
    let payoff = |before: NextRequest, after: NextRequest| {
        let [before, after] = [before, after].map(|next| Prospect::new(next, NOW, &prices));
        Payoff::of(&before, &after)
    };
    // Warm: 100,000 tokens cost 0.03 instead of 40,000 cached and 40,000 new, 0.172; each later
    // request reads 20,000 tokens less, 0.006.
    assert_eq!(payoff(request(100_000, 100_000), request(80_000, 40_000)), Payoff::After(24));
    // Long before and short after: 0.18 less 0.03 for each request.
    assert_eq!(payoff(request(300_000, 300_000), request(100_000, 10_000)), Payoff::After(2));
    // Cold: fewer tokens are sent anew.
    assert_eq!(payoff(request(100_000, 0), request(80_000, 0)), Payoff::AtOnce);
    assert_eq!(payoff(request(100_000, 100_000), request(100_000, 0)), Payoff::Never);
    let unknown = || NextRequest { model: "other".to_owned(), ..request(10, 0) };
    assert_eq!(payoff(unknown(), NextRequest { tokens: 5, ..unknown() }), Payoff::Never);
}

#[test]
fn another_client_has_nothing_in_the_cache() {
    let next = request(100, 80);
    assert_eq!(next.clone().continued_by(None), next);
    assert_eq!(next.clone().continued_by(Some("2.1.45")), next);
    let other = next.clone().continued_by(Some("2.1.325"));
    let reason = Reason::ClientVersion;
    let kind = Some(PartKind::System);
    let difference = Difference { message: 0, line: None, kind, reason };
    assert_eq!(other, NextRequest { prefix: 0, difference, ..next.clone() });
    let nobody = NextRequest { version: None, ..next };
    assert_eq!(nobody.clone().continued_by(Some("2.1.325")), nobody);
}
