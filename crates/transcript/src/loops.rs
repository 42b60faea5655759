//! Loops among things that each hang on at most one other.

/// For each loop, the one in it with the lowest number: where it is to be cut. `parent` says what each hangs on.
pub(crate) fn loops(count: usize, parent: impl Fn(usize) -> Option<usize>) -> Vec<usize> {
    let mut cuts = Vec::new();
    // Which walk came by first; 0 is none.
    let mut walk_of = vec![0; count];
    for start in 0..count {
        let mut at = Some(start);
        while let Some(here) = at.filter(|here| walk_of[*here] == 0) {
            walk_of[here] = start + 1;
            at = parent(here);
        }
        if let Some(met) = at.filter(|met| walk_of[*met] == start + 1) {
            // Once round.
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
#[path = "loops_tests.rs"]
mod tests;
