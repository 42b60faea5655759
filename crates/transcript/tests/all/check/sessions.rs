//! For every code, the smallest session that shows it.

use testkit::session::Script;
use transcript::client::check::{Code, Severity};

/// A session, the version whose rules apply, and the severity of the finding.
pub(crate) struct Made {
    pub(crate) bytes: Vec<u8>,
    pub(crate) version: &'static str,
    pub(crate) severity: Severity,
    /// The files of its sub-agents.
    pub(crate) agents: Vec<(&'static str, Vec<u8>)>,
}

const NEWEST: &str = "2.1.325";

fn made(bytes: impl Into<Vec<u8>>, version: &'static str, severity: Severity) -> Made {
    Made { bytes: bytes.into(), version, severity, agents: Vec::new() }
}

fn script(script: &Script, version: &'static str, severity: Severity) -> Made {
    made(script.text(), version, severity)
}

/// A prompt and its answer.
fn talk() -> Script {
    Script::new().prompt("p1", "-", "one").says("a1", "p1", "m1", "answer one")
}

/// One more turn.
fn more(talk: Script, under: &str) -> Script {
    talk.prompt("p2", under, "two").says("a2", "p2", "m2", "answer two")
}

/// A call and its result.
fn called(talk: Script) -> Script {
    talk.call("c1", "a1", "m2", "toolu_1", "Read").result("r1", "c1", "toolu_1", "done")
}

fn thinking(text: &str, signature: &str) -> String {
    format!(r#"{{"type":"thinking","thinking":"{text}","signature":"{signature}"}}"#)
}

/// An answer with that thinking, from the model that the session continues with.
fn thought(text: &str, signature: &str) -> Made {
    let talk = Script::new().prompt("p1", "-", "one");
    let talk = talk.block("t1", "p1", "m1", &thinking(text, signature)).says("a1", "t1", "m1", "a");
    let model = r#""model":"claude-opus-4-5""#;
    made(talk.text().replace(r#""model":"m""#, model), NEWEST, Severity::Rejected)
}

/// A user's message with these blocks.
fn blocks(talk: Script, uuid: &str, under: &str, blocks: &str) -> Script {
    let members = format!(r#""message":{{"role":"user","content":[{blocks}]}}"#);
    talk.record("user", uuid, under, &members)
}

fn image(data: &str, media: &str) -> String {
    format!(
        r#"{{"type":"image","source":{{"type":"base64","media_type":"{media}","data":"{data}"}}}}"#
    )
}

/// The first bytes of a PNG of that size, in base64.
fn png(side: u32) -> String {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend_from_slice(&side.to_be_bytes());
    bytes.extend_from_slice(&16_u32.to_be_bytes());
    bytes.extend_from_slice(b"\x08\x02\0\0\0\0\0");
    base64(&bytes)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let number = group.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let number = number << (8 * (3 - group.len()));
        for at in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * at)) as usize & 63];
            text.push(if at > group.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

const BOUNDARY: &str = concat!(
    r#""subtype":"compact_boundary","content":"Conversation compacted","#,
    r#""compactMetadata":{"trigger":"manual","preTokens":9}"#
);

/// The session that shows a code.
#[allow(clippy::too_many_lines, reason = "one arm a code")]
pub(crate) fn session(code: Code) -> Made {
    use Severity::{Loss, Note, Refused, Rejected, Warning};
    match code {
        Code::DamagedLine => {
            script(&more(talk().raw(r#"{"type":"user","uu"#), "a1"), NEWEST, Warning)
        }
        Code::NulBytes => script(&more(talk().raw("\0\0\0\0"), "a1"), NEWEST, Warning),
        Code::GluedRecords => {
            let text = more(talk(), "a1").text().replacen("}\n{", "}{", 1);
            made(text, "2.1.45", Loss)
        }
        Code::NotUtf8 => {
            let mut bytes = talk().text().as_bytes().to_vec();
            let at = bytes.windows(3).position(|three| three == b"one").unwrap();
            bytes[at] = 0xff;
            made(bytes, NEWEST, Warning)
        }
        Code::NotAnObject => script(&talk().raw("42"), NEWEST, Note),
        Code::NullLine => script(&more(talk().raw("null"), "a1"), "2.1.45", Loss),
        Code::TornTail => {
            let text = more(talk(), "a1");
            made(&text.text().as_bytes()[..text.text().len() - 30], NEWEST, Loss)
        }
        Code::NoFinalNewline => made(talk().text().trim_end(), "2.1.45", Warning),
        Code::MissingField => made(talk().text().replace(r#","sessionId":"s""#, ""), NEWEST, Note),
        Code::BadTime => {
            made(talk().text().replace("2026-01-01T00:00:02.000Z", "yesterday"), NEWEST, Refused)
        }
        Code::ContentShape => {
            let odd =
                r#""message":{"role":"user","content":["a text",{"type":"text","text":"x"}]}"#;
            script(
                &Script::new().record("user", "p1", "-", odd).says("a1", "p1", "m1", "a"),
                NEWEST,
                Rejected,
            )
        }
        Code::EmptyContent => {
            script(&blocks(talk(), "p2", "a1", r#"{"type":"text","text":" "}"#), "2.1.45", Rejected)
        }
        Code::UnknownBlock => {
            script(&talk().block("a2", "a1", "m1", r#"{"type":"hologram"}"#), NEWEST, Rejected)
        }
        Code::UnknownField => script(
            &talk().block("a2", "a1", "m1", r#"{"type":"text","text":"x","data":""}"#),
            NEWEST,
            Rejected,
        ),
        Code::LoneSurrogate => {
            made(talk().text().replace("one", r"\ud83d one"), "2.1.45", Rejected)
        }
        Code::RepeatedUuid => {
            script(&more(talk(), "a1").prompt("p1", "-", "another"), NEWEST, Loss)
        }
        Code::ForeignRecord => {
            let text = more(talk(), "a1");
            made(text.text().replacen(r#""type":"user""#, r#""type":"human""#, 1), NEWEST, Loss)
        }
        Code::NoUuid => made(
            talk().text().replace(r#""uuid":"p1","#, "").replace(r#""uuid":"a1","#, ""),
            NEWEST,
            Loss,
        ),
        Code::MissingParent => script(&more(talk().wait(60), "gone"), NEWEST, Loss),
        Code::ParentLoop => {
            let text = more(talk(), "a1");
            made(
                text.text().replacen(r#""parentUuid":null"#, r#""parentUuid":"a2""#, 1),
                "2.0.76",
                Refused,
            )
        }
        Code::SecondRoot => script(&more(talk(), "-"), NEWEST, Loss),
        Code::WrongLeaf => {
            let named = r#"{"type":"last-prompt","leafUuid":"a1","sessionId":"s"}"#;
            let left = talk().prompt("p2", "p1", "other").says("a2", "p2", "m2", "other answer");
            script(&left.raw(named), NEWEST, Loss)
        }
        Code::TimeTie => {
            let text = talk().text().replace("T00:00:02", "T00:00:01");
            made(text, "2.1.45", Loss)
        }
        Code::DeadBranch => {
            let both = talk().prompt("p2", "a1", "here").prompt("p3", "a1", "there");
            let both = both.says("a2", "p2", "m2", "answer here");
            script(&both.says("a3", "p3", "m3", "answer there"), NEWEST, Loss)
        }
        Code::Rewound => script(
            &more(talk(), "a1").prompt("p3", "a1", "no").says("a3", "p3", "m3", "yes"),
            NEWEST,
            Note,
        ),
        Code::SidechainMarker => {
            let text = more(talk(), "a1").text().to_owned();
            let (head, tail) = text.split_at(text.find(r#""uuid":"p2""#).unwrap());
            let marked = head.rfind(r#""isSidechain":false"#).unwrap();
            let head = format!("{}\"isSidechain\":true{}", &head[..marked], &head[marked + 19..]);
            made(format!("{head}{tail}"), NEWEST, Warning)
        }
        Code::NoConversation => made(
            r#"{"type":"summary","summary":"A title","leafUuid":"x"}"#.to_owned() + "\n",
            NEWEST,
            Refused,
        ),
        Code::NoEnd => {
            let side = talk().text().replace(r#""isSidechain":false"#, r#""isSidechain":true"#);
            let named = r#"{"type":"last-prompt","leafUuid":"a1","sessionId":"s"}"#;
            let other = Script::new().prompt("p2", "-", "two").says("a2", "p2", "m2", "answer");
            made(format!("{side}{}{named}\n", other.text()), NEWEST, Refused)
        }
        Code::OpenCall => {
            script(&more(talk().call("c1", "a1", "m1", "toolu_1", "Read"), "c1"), NEWEST, Loss)
        }
        Code::OrphanResult => {
            script(&more(talk().result("r1", "a1", "toolu_1", "done"), "r1"), NEWEST, Loss)
        }
        Code::LostResult => {
            let calls = talk()
                .call("c1", "a1", "m2", "toolu_1", "Read")
                .call("c2", "c1", "m2", "toolu_2", "Read");
            let results =
                calls.result("r1", "c1", "toolu_1", "one").result("r2", "c2", "toolu_2", "two");
            script(&results.says("a2", "r2", "m3", "both"), "2.1.45", Loss)
        }
        Code::RepeatedCall => {
            let again = called(talk()).call("c2", "r1", "m3", "toolu_1", "Read");
            script(
                &again.result("r2", "c2", "toolu_1", "again").says("a2", "r2", "m4", "a"),
                NEWEST,
                Loss,
            )
        }
        Code::RepeatedResult => script(
            &called(talk()).result("r2", "r1", "toolu_1", "again").says("a2", "r2", "m3", "a"),
            "2.1.45",
            Rejected,
        ),
        Code::Unpaired => {
            let result = concat!(
                r#"{"type":"text","text":"look"},"#,
                r#"{"type":"tool_result","tool_use_id":"toolu_1","content":"x"}"#
            );
            let call = talk().call("c1", "a1", "m2", "toolu_1", "Read");
            script(&blocks(call, "r1", "c1", result).says("a2", "r1", "m3", "a"), NEWEST, Rejected)
        }
        Code::OpenServerCall => {
            let call =
                r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}"#;
            script(&talk().block("a2", "a1", "m1", call), NEWEST, Rejected)
        }
        Code::OrphanServerResult => {
            let result =
                r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}"#;
            script(&talk().block("a2", "a1", "m1", result), NEWEST, Rejected)
        }
        Code::CallInput => {
            let call =
                r#"{"type":"tool_use","id":"toolu_1","name":"Read","input":{"file_path":5}}"#;
            let call = talk().block("c1", "a1", "m2", call);
            let call = call.result("r1", "c1", "toolu_1", "x").says("a2", "r1", "m3", "a");
            script(&call, "2.1.45", Refused)
        }
        Code::CallForm => {
            let call = talk().call("c1", "a1", "m2", "functions.Read:0", "Read");
            script(
                &call.result("r1", "c1", "functions.Read:0", "x").says("a2", "r1", "m3", "a"),
                NEWEST,
                Rejected,
            )
        }
        Code::ThinkingUnsigned => thought("hm", ""),
        Code::ThinkingEmpty => thought("", "c2lnbmVk"),
        Code::ThinkingAltered => thought("hm", "[REDACTED]"),
        Code::ThinkingForeign => {
            let talk = Script::new().prompt("p1", "-", "one").block(
                "t1",
                "p1",
                "m1",
                &thinking("hm", "c2lnbmVk"),
            );
            let other = more(talk.says("a1", "t1", "m1", "a"), "a1").text().to_owned();
            let (head, tail) = other.split_at(other.find(r#""uuid":"p2""#).unwrap());
            made(
                head.to_owned() + &tail.replace(r#""model":"m""#, r#""model":"n""#),
                "2.1.45",
                Rejected,
            )
        }
        Code::ThinkingMisplaced => {
            let talk = talk().block("t1", "a1", "m1", &thinking("and", "c2lnbmVk"));
            made(
                talk.text().replace(r#""model":"m""#, r#""model":"claude-opus-4-5""#),
                NEWEST,
                Rejected,
            )
        }
        Code::ImageEncoding => {
            script(&blocks(talk(), "p2", "a1", &image(&png(16), "image/jpeg")), NEWEST, Rejected)
        }
        Code::ImageSize => {
            let data = png(16) + &"A".repeat(5 << 20);
            script(&blocks(talk(), "p2", "a1", &image(&data, "image/png")), NEWEST, Rejected)
        }
        Code::ImageDimensions => {
            script(&blocks(talk(), "p2", "a1", &image(&png(9_000), "image/png")), NEWEST, Rejected)
        }
        Code::ImageCount => {
            let images = vec![image(&png(16), "image/png"); 101].join(",");
            script(&blocks(talk(), "p2", "a1", &images), NEWEST, Rejected)
        }
        Code::ImageDropped => {
            script(&blocks(talk(), "p2", "a1", &image(&png(16), "image/png")), "2.1.45", Loss)
        }
        Code::RequestSize => {
            let mut long = talk();
            for at in 0..5 {
                let (prompt, answer) = (format!("q{at}"), format!("b{at}"));
                let under = if at == 0 { "a1".to_owned() } else { format!("b{}", at - 1) };
                long = long.prompt(&prompt, &under, &"words ".repeat(1_300_000));
                long = long.says(&answer, &prompt, &format!("n{at}"), "yes");
            }
            script(&long, NEWEST, Rejected)
        }
        Code::CompactionWithoutSummary => {
            let cut = talk().record(
                "system",
                "b",
                "-",
                &format!(r#"{BOUNDARY},"logicalParentUuid":"a1""#),
            );
            script(&more(cut, "b"), NEWEST, Loss)
        }
        Code::CompactionKeptMissing => {
            let kept = BOUNDARY.replace(
                r#""preTokens":9"#,
                r#""preTokens":9,"preservedMessages":{"anchorUuid":"s1","uuids":["gone"]}"#,
            );
            let cut =
                talk().record("system", "b", "-", &format!(r#"{kept},"logicalParentUuid":"a1""#));
            let summary =
                r#""isCompactSummary":true,"message":{"role":"user","content":"What was said."}"#;
            script(&more(cut.record("user", "s1", "b", summary), "s1"), NEWEST, Loss)
        }
        Code::QueuedPrompt => {
            let queue = |operation: &str| {
                format!(
                    concat!(
                        r#"{{"type":"queue-operation","operation":"{}","#,
                        r#""timestamp":"2026-01-01T00:00:02.000Z","sessionId":"s","#,
                        r#""content":"and this"}}"#
                    ),
                    operation
                )
            };
            script(&talk().raw(&queue("enqueue")).raw(&queue("remove")), NEWEST, Loss)
        }
        Code::AgentWithoutCall => {
            let mut made = script(&talk(), NEWEST, Note);
            let side = talk().text().replace(r#""isSidechain":false"#, r#""isSidechain":true"#);
            made.agents.push(("agent-a000001.jsonl", side.into_bytes()));
            made
        }
        Code::CallWithoutAgent => {
            let call = talk().call("c1", "a1", "m2", "toolu_1", "Task");
            let result = concat!(
                r#""message":{"role":"user","content":["#,
                r#"{"type":"tool_result","tool_use_id":"toolu_1","content":"x"}]},"#,
                r#""toolUseResult":{"agentId":"a000001","status":"completed"}"#
            );
            script(
                &call.record("user", "r1", "c1", result).says("a2", "r1", "m3", "a"),
                NEWEST,
                Note,
            )
        }
        Code::AgentUnreadable => {
            let mut made = script(&talk(), NEWEST, Warning);
            // The test makes a broken link with that name.
            made.agents.push(("agent-a000001.jsonl", Vec::new()));
            made
        }
        Code::Clock => {
            made(talk().text().replace("2026-01-01T00:00:02", "2024-05-01T00:00:02"), NEWEST, Note)
        }
        Code::ProjectName => {
            let members = format!(
                r#""cwd":"/{}","message":{{"role":"user","content":"x"}}"#,
                "long/".repeat(60)
            );
            script(&talk().record("user", "p2", "a1", &members), "2.1.45", Warning)
        }
        Code::Secret => script(
            &talk().prompt("p2", "a1", "use ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2"),
            NEWEST,
            Warning,
        ),
        Code::ContextLimit => {
            let text = talk().text().replace(r#""model":"m""#, r#""model":"claude-opus-5""#);
            let text = text.replace(r#""input_tokens":1"#, r#""input_tokens":990000"#);
            made(text, NEWEST, Note)
        }
        Code::OtherVersions => script(&more(talk().wait(3), "gone"), NEWEST, Note),
    }
}
