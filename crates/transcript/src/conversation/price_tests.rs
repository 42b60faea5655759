use super::*;

#[test]
fn tokens_have_their_prices() {
    let usage =
        Usage { input: 24, output: 99, cache_5m: 680, cache_read: 11_200, ..Usage::default() };
    let cost = usage.cost("claude-sonnet-4-6").unwrap().total();
    assert!((cost - 0.007_467).abs() < 1e-9, "{cost}");
    assert_eq!(usage.cost("some-model"), None);
    let long = Usage { input: 1, cache_read: 200_000, ..Usage::default() };
    let cost = long.request_cost("claude-sonnet-4-20250514", None).unwrap().total();
    assert!((cost - 0.120_006).abs() < 1e-9, "{cost}");
}

#[test]
fn the_data_is_whole() {
    assert!(PRICES.len() > 30);
    assert_eq!(known("claude-3-haiku-20240307").unwrap().max_output_tokens, Some(4_096));
}

#[test]
fn contracts_and_files_replace_the_list() {
    let usage = Usage { input: 1_000_000, cache_1h: 1_000_000, ..Usage::default() };
    let total = |prices: &Prices, model: &str| prices.cost(model, None, usage).map(Cost::total);
    let mut prices = Prices::default();
    assert_eq!(total(&prices, "claude-opus-4-5"), Some(15.0));
    assert_eq!(total(&prices, "vertex/claude-opus-4-5@20251101"), Some(15.0));
    let settings = br#"{"modelPricing":{"multiplier":0.5,"overrides":{
        "claude-opus-4-5":{"input":2,"output":3,"cacheRead":0,"cacheWrite":4},
        "Our-Gateway":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0},
        "claude-opus-5":{"input":2,"output":3,"cacheRead":0},
        "claude-sonnet-5":{"input":-1,"output":3,"cacheRead":0,"cacheWrite":0}}}}"#;
    assert_eq!(prices.add_settings(settings), ["claude-opus-5", "claude-sonnet-5"]);
    assert_eq!(total(&prices, "claude-opus-4-5-20251101"), Some(3.0));
    assert_eq!(total(&prices, "our-gateway"), Some(0.5));
    assert_eq!(total(&prices, "our-gateway-2"), None);
    assert_eq!(total(&prices, "claude-sonnet-4-6"), Some(4.5));
    let fast = |prices: &Prices, model: &str| prices.cost(model, Some("fast"), usage);
    assert_eq!(fast(&prices, "claude-sonnet-4-6"), None);
    assert!(fast(&prices, "our-gateway").is_some());
    prices.add(br#"{"models":{"our-gateway":{"input":8,"output":1}}}"#).unwrap();
    assert_eq!(total(&prices, "our-gateway"), Some(12.0));
    assert_eq!(prices.add(b"[]"), Err(PriceError::Shape));
    let bad = br#"{"models":{"m":{"input":"8","output":1}}}"#;
    assert_eq!(prices.add(bad), Err(PriceError::Model("m".to_owned())));
}
