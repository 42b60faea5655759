//! Finds and counts across many sessions.
//!
//! [`usage`] says what messages of the API took and cost, by day, project, model and so on. Nothing
//! here writes into a Claude home.

pub mod usage;
