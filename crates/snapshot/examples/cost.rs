//! What images cost: the first one, then several of a tree in which nothing changes.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]
#![allow(clippy::disallowed_methods, reason = "it measures what is really there")]

use std::time::{Instant, SystemTime};

use snapshot::{About, Event, Limits, Recorder};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let begin = Instant::now();
    let roots = [args[2].clone().into()];
    let mut recorder = Recorder::open(args[1].as_ref(), "cost", &roots, Limits::default()).unwrap();
    recorder.take(Event::Before, About::default(), SystemTime::now()).unwrap();
    println!("first {} ms", begin.elapsed().as_millis());
    let mut times: Vec<u128> = Vec::new();
    for _ in 0..args[3].parse().unwrap() {
        let begin = Instant::now();
        recorder.take(Event::After, About::default(), SystemTime::now()).unwrap();
        times.push(begin.elapsed().as_millis());
    }
    times.sort_unstable();
    println!("unchanged: best {} ms, median {} ms", times[0], times[times.len() / 2]);
}
