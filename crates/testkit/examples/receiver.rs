//! A receiver of traces for scripts: says where it listens, and when its input ends, how much came.
//!
//! `cargo run -p testkit --example receiver -- [--port N] [--count]`. The first line is the
//! address, the second and last one is a JSON object. With `--count` no span is kept, so that
//! memory does not limit a measurement.
#![allow(clippy::print_stdout, reason = "scripts read it")]

use std::error::Error;
use std::{env, io};

use serde_json::json;
use testkit::otlp::{Keep, Limits, Receiver};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut port, mut keep) = (0, Keep::Spans);
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--port" => port = arguments.next().ok_or("--port needs a number")?.parse()?,
            "--count" => keep = Keep::Counts,
            _ => return Err(format!("unknown argument `{argument}`").into()),
        }
    }
    let receiver = Receiver::at(port, keep, Limits::default(), Vec::new())?;
    println!("{}", receiver.url());
    io::copy(&mut io::stdin(), &mut io::sink())?;
    let count = receiver.count();
    let requests = receiver.requests().len();
    println!(
        "{}",
        json!({
            "requests": requests, "spans": count.spans, "distinct": count.distinct,
            "wire": count.wire, "inflated": count.inflated,
        })
    );
    Ok(())
}
