use super::*;

#[test]
fn each_loop_is_named_once_by_its_lowest() {
    // 0 -> 1 -> 2 -> 1; 3 alone; 4 -> 4; 5 -> 0.
    let parents = [Some(1), Some(2), Some(1), None, Some(4), Some(0)];
    assert_eq!(cycles(parents.len(), |at| parents[at]), [1, 4]);
    assert_eq!(cycles(0, |_| None), [0; 0]);
}
