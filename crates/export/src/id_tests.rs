use super::*;

/// The ids in `langfuse-capture.json` for the session that it was made from.
#[test]
fn ids_are_those_of_the_libraries() {
    let digest: [u8; 32] = Sha256::digest("11111111-2222-4333-8444-555555555555:1").into();
    assert_eq!(hex(&first::<16>(&digest)), "9534c811ed72e030e95728bf50c824bd");
}

#[test]
fn a_salt_gives_others() {
    let (plain, salted) = (Ids::default(), Ids::salted("again"));
    assert_eq!(plain.trace("s", "p"), Ids::salted("").trace("s", "p"));
    assert_ne!(plain.trace("s", "p"), salted.trace("s", "p"));
    assert_eq!(plain.span("s", "p").0, plain.trace("s", "p").0[..8]);
}
