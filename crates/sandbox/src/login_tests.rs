#![allow(clippy::unwrap_used, reason = "a test")]

use super::{absolute, user_shell};

#[test]
fn folders_that_depend_on_where_a_program_is_do_not_count() {
    let path = absolute("/usr/bin:.::bin:~/x:/usr/bin:/opt/a b/bin:node_modules/.bin");
    assert_eq!(path.unwrap(), "/usr/bin:/opt/a b/bin");
    assert_eq!(absolute(".:bin"), None);
}

#[test]
fn the_shell_is_that_of_the_user() {
    let users = "root:x:0:0:root:/root:/bin/bash\nan:x:1000:1000:,,,:/home/an:/usr/bin/zsh\n";
    assert_eq!(user_shell(users, 1000).as_deref(), Some("/usr/bin/zsh"));
    assert_eq!(user_shell(users, 100), None);
    assert_eq!(user_shell("x:x:5:5::/:nologin", 5), None);
}
