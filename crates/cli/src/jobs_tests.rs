use export::jobs::NotTaken;

use super::*;

/// People, and scripts, look for these words in the log.
#[test]
fn lines_of_the_log_keep_their_words() {
    let tried = |next| {
        of_notice(&Notice::Tried { session: "s".to_owned(), what: "sent 2 spans".to_owned(), next })
    };
    assert_eq!(tried(Next::Done), "s: sent 2 spans");
    assert_eq!(tried(Next::TryAgain), "s: sent 2 spans; the next hook tries again");
    let counted = Next::Counted { count: 2, most: 3 };
    assert_eq!(tried(counted), "s: sent 2 spans; the next hook tries again (2 of 3)");
    assert_eq!(tried(Next::SetAside), "s: sent 2 spans; set aside: see `quipu hook status`");
    let not_taken = |session: Option<&str>| {
        let session = session.map(str::to_owned);
        of_notice(&Notice::NotTaken(NotTaken { session, why: "why".to_owned() }))
    };
    assert_eq!(not_taken(Some("s")), "s: set aside: why");
    assert_eq!(not_taken(None), "a job that cannot be parsed was set aside: why");
}
