//! `ExitPlanMode`: shows a plan to whoever decides, and leaves plan mode once it is approved.
//!
//! Invariant: it runs only after it was approved; approval itself is a decision like any other.

use std::sync::PoisonError;

use serde_json::json;

use super::{Answer, Call, Site, Trouble, text};
use crate::permit::Mode;

pub(super) const NAME: &str = "ExitPlanMode";

/// The error of a call outside of plan mode.
pub(crate) fn not_planning() -> Trouble {
    Trouble::wrong("You are not in plan mode. Go on with the work.")
}

pub(super) fn run(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    let mode = *site.mode.lock().unwrap_or_else(PoisonError::into_inner);
    // Whoever approved may have named another mode, which holds already.
    let mut next = site.next_mode.lock().unwrap_or_else(PoisonError::into_inner);
    if mode != Mode::Plan && next.is_none() {
        return Err(not_planning());
    }
    next.get_or_insert(Mode::Default);
    drop(next);
    let plan = text(call, "plan");
    let detail = json!({"plan": plan, "isAgent": false});
    let message = format!("The plan was approved. You may change files now. The plan:\n{plan}");
    Ok(Answer::text(message, &detail))
}
