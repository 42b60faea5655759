use jiff::civil::date;

use transcript::conversation::usage::Money;

use super::*;

#[test]
fn blocks_begin_with_the_hour_of_the_first_message_after_the_last_block() {
    let at = |hour, minute| {
        date(2026, 11, 1).at(hour, minute, 0, 0).to_zoned(TimeZone::UTC).unwrap().timestamp()
    };
    let times = [at(14, 59), at(9, 40), at(15, 10), at(13, 0)];
    let blocks = Blocks::new(times.into_iter(), &[], &TimeZone::UTC);
    assert_eq!(blocks.start_of(at(13, 0)), Some(at(9, 0)));
    assert_eq!(blocks.start_of(at(14, 59)), Some(at(14, 0)));
    assert_eq!(blocks.start_of(at(15, 10)), Some(at(14, 0)));
    assert_eq!(blocks.start_of(at(8, 0)), None);
}

#[test]
fn blocks_that_the_client_reported_are_certain() {
    let at = |hour, minute| {
        date(2026, 11, 1).at(hour, minute, 0, 0).to_zoned(TimeZone::UTC).unwrap().timestamp()
    };
    let times = [at(8, 10), at(9, 40), at(12, 0), at(14, 20), at(14, 40)];
    // From 9:30 to 14:30.
    let blocks = Blocks::new(times.into_iter(), &[at(14, 30)], &TimeZone::UTC);
    let starts = times.map(|time| blocks.start_of(time));
    let wanted = [at(8, 0), at(9, 30), at(9, 30), at(9, 30), at(14, 30)].map(Some);
    assert_eq!(starts, wanted);
    assert!(blocks.is_reported(at(9, 30)) && !blocks.is_reported(at(14, 30)));
}

#[test]
fn sums_of_money_do_not_depend_on_their_order() {
    let costs = [0.1, 0.2, 0.3, 1e-9, 12_345.678_9];
    let sum = |costs: &[f64]| {
        let mut sum = Spending::default();
        for cost in costs {
            sum += Spending { cost: Some(Money::of_dollars(*cost)), ..Spending::default() };
        }
        sum.cost
    };
    let mut back = costs;
    back.reverse();
    assert_eq!(sum(&costs), sum(&back));
    assert_eq!(sum(&costs).map(Money::dollars), Some(12_346.278_900_001));
}

#[test]
fn a_sum_of_estimates_is_one() {
    let row = |is_estimate| Row { key: "x".to_owned(), sum: Spending::default(), is_estimate };
    let shortened = |left_out| {
        let mut report = Report { rows: vec![row(left_out), row(false)], ..Report::default() };
        report.shorten(By::Block, 1, |_| true);
        report.rows.iter().map(|row| row.is_estimate).collect::<Vec<_>>()
    };
    assert_eq!([shortened(true), shortened(false)], [[false, true], [false, false]]);
}
