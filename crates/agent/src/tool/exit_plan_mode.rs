//! `ExitPlanMode`: shows a plan to whoever decides, and leaves plan mode once it is approved.
//!
//! Invariant: it runs only after it was approved; approval itself is a decision like any other.

use std::sync::PoisonError;

use serde_json::json;

use super::{Answer, Call, Site, Trouble, text};
use crate::permit::Mode;

pub(super) const NAME: &str = "ExitPlanMode";

pub(super) fn run(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    let mode = *site.mode.lock().unwrap_or_else(PoisonError::into_inner);
    if mode != Mode::Plan {
        return Err(Trouble::wrong("You are not in plan mode. Go on with the work."));
    }
    // Whoever approved may have named another mode.
    site.next_mode.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(Mode::Default);
    let plan = text(call, "plan");
    let detail = json!({"plan": plan, "isAgent": false});
    let message = format!("The plan was approved. You may change files now. The plan:\n{plan}");
    Ok(Answer::text(message, &detail))
}
