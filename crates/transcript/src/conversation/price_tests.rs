use super::*;

#[test]
fn tokens_have_their_prices() {
    let usage =
        Usage { input: 24, output: 99, cache_5m: 680, cache_read: 11_200, ..Usage::default() };
    let cost = usage.cost("claude-sonnet-4-6").unwrap().total();
    assert!((cost - 0.007_467).abs() < 1e-9, "{cost}");
    assert_eq!(usage.cost("some-model"), None);
    let long = Usage { input: 1, cache_read: 200_000, ..Usage::default() };
    let cost = long.request_cost("claude-sonnet-4-20250514").unwrap().total();
    assert!((cost - 0.120_006).abs() < 1e-9, "{cost}");
}

#[test]
fn the_data_is_whole() {
    assert!(PRICES.len() > 30);
    assert_eq!(known("claude-3-haiku-20240307").unwrap().max_output_tokens, Some(4_096));
}
