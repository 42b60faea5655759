//! Finds cycles among items that each have at most one parent.

/// For each cycle, the item in it with the lowest number: where to cut it. `parent` returns the
/// parent of an item.
pub(crate) fn cycles(count: usize, parent: impl Fn(usize) -> Option<usize>) -> Vec<usize> {
    let mut cuts = Vec::new();
    // The walk that visited each item first; 0 for none.
    let mut walk_of = vec![0; count];
    for start in 0..count {
        let mut at = Some(start);
        while let Some(here) = at.filter(|here| walk_of[*here] == 0) {
            walk_of[here] = start + 1;
            at = parent(here);
        }
        if let Some(met) = at.filter(|met| walk_of[*met] == start + 1) {
            // Once around the cycle.
            let (mut first, mut here) = (met, met);
            while let Some(next) = parent(here).filter(|next| *next != met) {
                first = first.min(next);
                here = next;
            }
            cuts.push(first);
        }
    }
    cuts
}

#[cfg(test)]
#[path = "cycles_tests.rs"]
mod tests;
