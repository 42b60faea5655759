//! Plots as SVG, each with its numbers in a table.
//!
//! Invariant: sizes and places are attributes, because a page's policy forbids styles of elements.

use std::fmt::Write;

use maud::{Markup, html};

use crate::escape::T;
use crate::words::count;

/// How many rows the table behind an area has, the last ones.
const ROWS: usize = 200;

/// One value of a plot.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// The value for people.
    pub(crate) shown: String,
    /// Where the name leads.
    pub(crate) link: Option<String>,
    /// The whole name, if it is shortened.
    pub(crate) title: Option<String>,
}

/// Horizontal bars, in a table that is the plot.
pub(crate) fn bars(caption: &str, heads: [&str; 2], points: &[Point]) -> Markup {
    let most = points.iter().map(|point| point.value).fold(0.0, f64::max);
    html! {
        div.wide tabindex="0" {
            table.bars {
                caption { (caption) }
                thead { tr { th scope="col" { (heads[0]) } th scope="col" { (heads[1]) } th.bar { span.hidden {
                    "share" } } } }
                tbody {
                    @for point in points {
                        tr {
                            th scope="row" title=[point.title.as_deref().map(T)] {
                                @if let Some(link) = &point.link { a href=(T(link)) { (T(&point.name)) } }
                                @else if point.title.is_some() { (path(&point.name)) }
                                @else { (T(&point.name)) }
                            }
                            td { (T(&point.shown)) }
                            td.bar { (bar(point.value, most)) }
                        }
                    }
                }
            }
        }
    }
}

/// A path that is broken behind its folders.
fn path(path: &str) -> Markup {
    html! { @for part in path.split_inclusive('/') { (T(part)) wbr; } }
}

fn bar(value: f64, most: f64) -> Markup {
    let width = if most > 0.0 { (value / most * 100.0).clamp(0.3, 100.0) } else { 0.0 };
    html! {
        svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
            rect.fill x="0" y="0" height="8" width=(format!("{width:.2}")) {}
        }
    }
}

/// Columns over time, with a table behind them.
pub(crate) fn columns(title: &str, heads: [&str; 2], points: &[Point]) -> Markup {
    let most = points.iter().map(|point| point.value).fold(0.0, f64::max);
    let step = 1000.0 / points.len().max(1) as f64;
    html! {
        figure.plot {
            figcaption { (title) }
            svg viewBox="0 0 1000 120" preserveAspectRatio="none" role="img" aria-label={ (title)
                "; the numbers are in the table below" } {
                @for (at, point) in points.iter().enumerate() {
                    @let height = if most > 0.0 { point.value / most * 116.0 } else { 0.0 };
                    rect.fill x=(format!("{:.2}", at as f64 * step)) width=(format!("{:.2}", (step * 0.8).min(60.0)))
                        y=(format!("{:.2}", 120.0 - height)) height=(format!("{height:.2}")) {
                        title { (T(&point.name)) ": " (T(&point.shown)) }
                    }
                }
            }
            div.ends { span { (points.first().map_or("", |one| &one.name)) } span { (points.last().map_or("", |one|
                &one.name)) } }
            details { summary { "Table" } (bars(title, heads, points)) }
        }
    }
}

/// How full something is over time: an area, and a line where it is full.
pub(crate) fn area(title: &str, heads: [&str; 2], points: &[Point], full: Option<f64>) -> Markup {
    let most = points.iter().map(|point| point.value).fold(full.unwrap_or(0.0), f64::max).max(1.0);
    let step = 1000.0 / points.len().max(1) as f64;
    let mut path = "M0 120".to_owned();
    for (at, point) in points.iter().enumerate() {
        let y = 120.0 - point.value / most * 114.0;
        let (left, right) = (at as f64 * step, (at + 1) as f64 * step);
        let _ = write!(path, "L{left:.1} {y:.1}L{right:.1} {y:.1}");
    }
    path.push_str("L1000 120Z");
    html! {
        figure.plot {
            figcaption { (title) }
            svg viewBox="0 0 1000 120" preserveAspectRatio="none" role="img" aria-label={ (title)
                "; the numbers are in the table below" } {
                path.fill d=(path) {}
                @if let Some(full) = full {
                    @let y = format!("{:.1}", 120.0 - full / most * 114.0);
                    line.limit x1="0" x2="1000" y1=(y) y2=(y) {}
                }
            }
            @let before = points.len().saturating_sub(ROWS);
            details { summary { "Table" }
                @if before > 0 { p.addition { (count(before, "earlier row")) " left out" } }
                (bars(title, heads, &points[before..]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_cut_says_so() {
        let point = |number: usize| Point {
            name: format!("Turn {number}"),
            value: 1.0,
            shown: "1".to_owned(),
            link: None,
            title: None,
        };
        let drawn = |count: usize| {
            let points: Vec<Point> = (0..count).map(point).collect();
            area("Tokens", ["turn", "tokens"], &points, None).into_string()
        };
        let (all, cut) = (drawn(200), drawn(203));
        assert!(all.contains("Turn 0<") && !all.contains("left out"), "{all}");
        assert!(cut.contains("3 earlier rows left out") && !cut.contains("Turn 2<"), "{cut}");
    }
}
