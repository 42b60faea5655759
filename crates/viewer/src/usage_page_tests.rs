use super::*;

fn row(key: &str) -> Row {
    Row { key: key.to_owned(), sum: Spending::default(), is_estimate: false }
}

fn names(by: By, keys: &[&str], most: usize) -> String {
    let rows: Vec<Row> = keys.iter().map(|key| row(key)).collect();
    let mark = |point: &Point| if point.shown == "nothing" { "-" } else { "" };
    let points = periods(by, &rows, most);
    let names: Vec<String> =
        points.iter().map(|point| format!("{}{}", mark(point), point.name)).collect();
    names.join(" ")
}

#[test]
fn times_on_which_nothing_was_used_are_in_a_plot() {
    assert_eq!(
        names(By::Day, &["2026-02-27", "2026-03-02", "unknown"], 9),
        "2026-02-27 -2026-02-28 -2026-03-01 2026-03-02"
    );
    assert_eq!(
        names(By::Week, &["2025-12-22", "2026-01-12"], 9),
        "2025-12-22 -2025-12-29 -2026-01-05 2026-01-12"
    );
    assert_eq!(names(By::Month, &["2025-11", "2026-01"], 9), "2025-11 -2025-12 2026-01");
    // A time far off does not make a plot long.
    assert_eq!(names(By::Day, &["0001-01-01", "2026-01-01"], 2), "-2025-12-31 2026-01-01");
    assert_eq!(names(By::Day, &["unknown"], 9), "");
}

#[test]
fn a_plot_that_is_cut_says_which_days_it_has() {
    assert_eq!(title(By::Day, 59, 60), "Cost by day, at list prices");
    assert_eq!(title(By::Day, 60, 60), "Cost by day of the last 60 days, at list prices");
    assert_eq!(title(By::Model, 0, 370), "Cost by model, at list prices");
}
