//! Sessions about which `check` or `repair` once reported something false: what they report now,
//! compared with what genuine clients sent.

use std::collections::BTreeSet;
use std::fs;

use testkit::Rng;
use transcript::client::check::{Code, Verdict, check};
use transcript::client::history::{Rules, history};
use transcript::conversation::place::Session;
use transcript::conversation::table::{BlockId, RowId};

use super::change::{repaired, subject};

fn observed(case: &str) -> Vec<u8> {
    fs::read(testkit::fixtures().join("observed").join(format!("{case}.jsonl"))).unwrap()
}

/// The messages that a version would send for these bytes, each as one text.
fn sent(bytes: &[u8], version: &str) -> Vec<String> {
    let rules = Rules::of(version).unwrap();
    let found = history(subject(bytes, rules).conversation(), rules, Some("...")).unwrap().unwrap();
    let message = |message: &transcript::client::history::Message| {
        let raw = message.blocks.iter().map(|block| String::from_utf8_lossy(block.raw()));
        format!("{} {}", message.role.name(), raw.collect::<Vec<_>>().join(" "))
    };
    found.messages.iter().map(message).collect()
}

#[test]
fn observed_files_get_their_verdicts() {
    use Verdict::{Full, Loss, Refused, Rejected};
    let cases = [
        ("prompt_hangs_on_progress", "2.1.325", Loss, Some(Code::LostResult)),
        ("prompt_hangs_on_progress_late", "2.1.325", Loss, Some(Code::LostResult)),
        ("prompt_hangs_on_progress", "2.1.100", Loss, Some(Code::LostResult)),
        ("rid_linear_both", "2.1.325", Loss, Some(Code::RepeatedCall)),
        ("rid_linear_both", "2.1.100", Full, None),
        ("rid_t2x2", "2.1.325", Full, None),
        ("rid_linear_suffix", "2.1.325", Full, None),
        ("think_qwen_unsigned", "2.1.325", Rejected, Some(Code::ThinkingUnsigned)),
        ("think_qwen_nosigfield", "2.1.325", Rejected, Some(Code::ThinkingUnsigned)),
        ("think_sonnet4_unsigned", "2.1.325", Rejected, Some(Code::ThinkingUnsigned)),
        ("think_null_sig", "2.1.325", Rejected, Some(Code::ThinkingUnsigned)),
        ("think_qwen_signed", "2.1.325", Full, Some(Code::ThinkingForeign)),
        ("think_number_sig", "2.1.325", Full, Some(Code::ThinkingForeign)),
        ("nt_lastanswer_sysleaf", "2.1.325", Refused, Some(Code::BadTime)),
        ("nt_lastanswer_sysleaf_named", "2.1.325", Refused, Some(Code::BadTime)),
        ("nt_lastanswer_sysleaf", "2.1.100", Full, None),
        ("nt_sysleaf_itself", "2.1.325", Full, None),
        ("local_only_lastprompt_names_end", "2.1.325", Full, None),
        ("local_only_lastprompt_names_first", "2.1.325", Full, None),
        ("turn_duration_only_lastprompt", "2.1.325", Full, None),
        ("attachment_only_lastprompt", "2.1.325", Full, None),
        ("local_branch_named_over_talk", "2.1.325", Full, None),
        ("named_lone_system_root", "2.1.325", Full, None),
        ("named_sidechain", "2.1.325", Refused, Some(Code::NoEnd)),
        ("named_sidechain_hanging_on_talk", "2.1.325", Refused, Some(Code::NoEnd)),
        ("om_plain", "2.1.325", Full, Some(Code::OpenCall)),
        ("om_plain_answer", "2.1.325", Loss, Some(Code::OpenCall)),
        ("queue_first_never_dequeued", "2.1.325", Loss, Some(Code::QueuedPrompt)),
        ("in_Read_number", "2.1.45", Refused, Some(Code::CallInput)),
        ("in_Write_list", "2.1.45", Refused, Some(Code::CallInput)),
        ("in_Edit_number", "2.1.45", Full, None),
        ("in_Edit_number", "2.1.100", Refused, Some(Code::CallInput)),
        ("in_Read_number", "2.1.325", Full, None),
    ];
    let folder = testkit::fixtures().join("observed");
    for (case, version, verdict, code) in cases {
        let session = Session::at(&folder.join(format!("{case}.jsonl"))).unwrap();
        let report = check(&session, Rules::of(version).unwrap(), None).unwrap();
        let codes: BTreeSet<Code> = report.findings.iter().map(|finding| finding.code).collect();
        assert_eq!(report.verdict, verdict, "{case} {version}: {:?}", report.findings);
        assert!(code.is_none_or(|code| codes.contains(&code)), "{case} {version}: {codes:?}");
        assert!(!codes.contains(&Code::Rewound), "{case} {version}");
    }
}

#[test]
fn a_prompt_on_progress_is_hung_on_the_last_answer() {
    for case in ["prompt_hangs_on_progress", "prompt_hangs_on_progress_late"] {
        let (out, proof) = repaired(&observed(case), Rules::newest());
        assert_eq!(proof.after.verdict, Verdict::Full, "{case}");
        assert_eq!((proof.before.reach.lost, proof.after.reach.lost), (1, 0), "{case}");
        for version in ["2.1.45", "2.1.100", "2.1.325"] {
            let sent = sent(&out, version);
            let at = |text: &str| sent.iter().position(|message| message.contains(text));
            let order = ["prompt 1", "result 1", "answer 1", "prompt 2", "answer 2"].map(at);
            assert!(order.is_sorted() && order[0].is_some(), "{case} {version}: {sent:?}");
        }
    }
}

/// Ids that a client confuses are replaced, and every result is sent.
#[test]
fn calls_with_one_id_keep_their_results() {
    for (case, results) in
        [("rid_linear_both", 2), ("rid_suffix_of_suffix", 2), ("sib_copy_second_root", 3)]
    {
        let (out, proof) = repaired(&observed(case), Rules::newest());
        assert_eq!(proof.after.verdict, Verdict::Full, "{case}");
        for version in ["2.1.100", "2.1.325"] {
            let sent = sent(&out, version).join("\n");
            assert!(!sent.contains("[Tool result missing"), "{case} {version}: {sent}");
            let count = sent.matches(r#""type":"tool_result""#).count();
            assert_eq!(count, results, "{case} {version}: {sent}");
        }
        let again = repaired(&out, Rules::newest()).0;
        assert_eq!(again, out, "{case}");
    }
}

#[test]
fn unsigned_thinking_is_taken_out() {
    for case in ["think_qwen_unsigned", "think_qwen_nosigfield", "think_null_sig"] {
        let (out, proof) = repaired(&observed(case), Rules::newest());
        assert_eq!(proof.after.verdict, Verdict::Full, "{case}");
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains("made elsewhere") && text.contains("answer 1"), "{case}");
    }
}

/// Genuine files with shuffled lines, some of them damaged: a result whose call is in the file
/// stays, with its call.
#[test]
fn repair_keeps_results_whose_calls_are_there() {
    let mut rng = Rng::new(16);
    let files = testkit::real_files();
    let files: Vec<_> = files
        .iter()
        .filter(|file| {
            let name = file.path.to_string_lossy();
            let results = memchr::memmem::find_iter(&file.bytes, br#""tool_result""#).count();
            (8..200).contains(&results) && !name.contains("agent-") && file.bytes.len() < 500_000
        })
        .collect();
    let (mut pairs, mut wrong) = (0, Vec::new());
    for round in 0..ROUNDS {
        let file = rng.pick(&files);
        let mut lines: Vec<&[u8]> = file.bytes.split_inclusive(|byte| *byte == b'\n').collect();
        for at in (1..lines.len()).rev() {
            lines.swap(at, rng.below(at + 1));
        }
        let bytes = testkit::damage::damage(&lines.concat(), &mut rng).bytes;
        let before = subject(&bytes, Rules::newest());
        let (out, _) = repaired(&bytes, Rules::newest());
        let after = subject(&out, Rules::newest());
        let (old, new) = (held(&before), held(&after));
        pairs += old.len();
        for pair in old.difference(&new) {
            wrong.push(format!("round {round}, {}: {pair:?}", file.path.display()));
        }
    }
    assert!(pairs > 2_000, "only {pairs} pairs");
    assert!(wrong.is_empty(), "{} of {pairs} gone:\n{}", wrong.len(), wrong.join("\n"));
}

const ROUNDS: usize = 200;

/// The results with their calls, by the ids of their records.
fn held(of: &transcript::client::change::Subject) -> BTreeSet<(String, String)> {
    let (table, pairs) = (&of.conversation().table, &of.conversation().pairs);
    let is_sidechain = |row: RowId| table.row(row).is_sidechain;
    let name = |row: RowId| table.text(table.row(row).uuid).map(str::to_owned);
    let blocks = (0..u32::try_from(table.blocks().len()).unwrap()).map(BlockId);
    let results = blocks.filter(|block| table.block(*block).kind.is_result());
    results
        .filter_map(|result| Some((table.block(result).row, table.block(pairs.of(result)?).row)))
        .filter(|(result, call)| !is_sidechain(*result) && !is_sidechain(*call))
        .filter_map(|(result, call)| Some((name(result)?, name(call)?)))
        .collect()
}
