use super::*;

#[test]
fn what_the_catalog_left_out_is_said() {
    assert_eq!(left_out(200, 1_340), "the best 200 of 1,340 with these words in their texts");
    // It does not know how many more there are.
    assert_eq!(left_out(3, 3), "there was no time to search all texts: add a word");
    assert_eq!(left_out(0, 0), "there was no time to search all texts: add a word");
}
