//! Without a PID namespace: this process adopts what its descendants leave behind, and ends it.

use std::io;

use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};

use crate::init::parents;

/// From now on, orphans among the descendants become children of this process.
pub(crate) fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Ends all descendants, also those that are started meanwhile.
pub(crate) fn end_all() {
    let me = getpid().as_raw_nonzero().get();
    loop {
        let all = parents();
        let mut found = vec![me];
        let mut at = 0;
        while let Some(parent) = found.get(at).copied() {
            found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
            at += 1;
        }
        let mut any = false;
        for pid in found.into_iter().skip(1).filter_map(Pid::from_raw) {
            any |= kill_process(pid, Signal::KILL).is_ok();
        }
        // Killed ones are reaped by the other thread.
        if !any {
            return;
        }
        std::thread::yield_now();
    }
}
