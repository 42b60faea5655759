//! What the lake still knows when the state is lost: the sessions that the client has deleted, and
//! which calls are theirs.
//!
//! Invariant: what cannot be read back is not known, and nothing fails by that.

use std::collections::HashSet;

use transcript::conversation::usage::Ledger;
use transcript::format::threads;

use crate::LakeError;
use crate::group::print;
use crate::push::object_name;
use crate::reader::Reader;
use crate::rows::Policy;
use crate::state::{Record, State};
use crate::target::Target;

/// If nothing is known of earlier pushes: adds the sessions of this machine whose objects are in
/// the lake, and whose files are not there any more.
pub fn recover(
    target: &Target,
    state: &mut State,
    (ledger, policy): (&Ledger, &Policy),
) -> Result<(), LakeError> {
    if !state.is_new || target.is_removed() {
        return Ok(());
    }
    let machine = &policy.machine;
    let sessions = ledger.sources.iter().map(|source| source.session.as_str());
    let there: HashSet<String> =
        sessions.map(|session| object_name(machine, &policy.name_of(session))).collect();
    let mut stored = target.list_from("calls", &format!("{machine}-"))?;
    stored.retain(|one| one.key.rsplit('/').next().is_some_and(|name| !there.contains(name)));
    threads::in_order(
        stored.len(),
        threads::count() + target.lanes(),
        |at| {
            let bytes = target.get(&stored[at].key)?;
            Ok::<_, LakeError>(bytes.and_then(|bytes| record_of(&bytes, &stored[at].key, machine)))
        },
        |_, record| match record? {
            Some(record) if state.of(&record.session).is_none() => {
                state.add(record).map_err(LakeError::state)
            }
            _ => Ok(()),
        },
    )
}

/// What an object of the table of calls says of its session, if this machine pushed it.
fn record_of(bytes: &[u8], key: &str, machine: &str) -> Option<Record> {
    let reader = Reader::open(bytes)?;
    let session = reader.texts("session_id")?.into_iter().next()?;
    reader.texts("machine")?.first().filter(|found| *found == machine)?;
    let (ids, copies) = (reader.texts("message_id")?, reader.flags("is_copy")?);
    let calls = ids.iter().zip(copies).filter(|(_, is_copy)| !is_copy);
    Some(Record {
        session,
        // Nothing is made from the same.
        print: "found in the lake".to_owned(),
        day: key.rsplit('/').nth(1)?.to_owned(),
        has_transcript: true,
        calls: calls.map(|(id, _)| print(id)).collect(),
        ..Record::default()
    })
}
