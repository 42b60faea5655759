//! What a program that hosts a session asks of it, beside what it says: the control protocol of the original.
//!
//! Every request is answered, what is not known with an error. What concerns rules, hooks and servers is not known yet.

use serde_json::{Value, json};

use crate::model;
use crate::permit::Mode;

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// Nothing but the answer.
    Nothing,
    /// The turn is to stop.
    Stop,
    /// Another permission mode.
    Mode(Mode),
    /// Another model.
    Model(String),
    /// So many tokens for thinking; nothing for none.
    Thinking(Option<u64>),
}

/// What a request asks for, and what it is answered with.
pub fn asked(request: &Value) -> (Wish, Result<Option<Value>, String>) {
    let subtype = request["subtype"].as_str().unwrap_or_default();
    match subtype {
        "initialize" => (Wish::Nothing, Ok(Some(initialized()))),
        "interrupt" => (Wish::Stop, Ok(None)),
        "mcp_status" => (Wish::Nothing, Ok(Some(json!({"mcpServers": []})))),
        "set_permission_mode" => {
            let name = request["mode"].as_str().unwrap_or_default();
            match Mode::named(name) {
                Some(mode) => (Wish::Mode(mode), Ok(Some(json!({"mode": name})))),
                None => (Wish::Nothing, Err(format!("`{name}` is no permission mode here"))),
            }
        }
        "set_model" => (Wish::Model(model::named(request["model"].as_str())), Ok(None)),
        "set_max_thinking_tokens" => {
            (Wish::Thinking(request["max_thinking_tokens"].as_u64()), Ok(None))
        }
        _ => (Wish::Nothing, Err(format!("Unsupported control request subtype: {subtype}"))),
    }
}

fn initialized() -> Value {
    let models = model::offered().map(|(name, meant)| {
        json!({"value": name, "displayName": meant, "description": format!("{meant}, by the Messages API")})
    });
    json!({
        "commands": [], "output_style": "default", "available_output_styles": ["default"],
        "models": models.collect::<Vec<_>>(), "account": {}, "pid": std::process::id(),
    })
}

/// The answer to the request with this id, as an event.
pub fn answer(id: &Value, answer: Result<Option<Value>, String>) -> Value {
    let response = match answer {
        Ok(None) => json!({"subtype": "success", "request_id": id}),
        Ok(Some(told)) => json!({"subtype": "success", "request_id": id, "response": told}),
        Err(why) => json!({"subtype": "error", "request_id": id, "error": why}),
    };
    json!({"type": "control_response", "response": response})
}
