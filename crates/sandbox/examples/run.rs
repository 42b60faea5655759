//! Runs a command in the sandbox: the writable folder, then the program and its arguments.
#![allow(
    clippy::unwrap_used,
    clippy::exit,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example"
)]

use std::path::PathBuf;

use sandbox::{Network, Spec, Waiting};

fn main() {
    if let Some(code) = sandbox::entered() {
        std::process::exit(i32::from(code));
    }
    let folder = std::env::temp_dir().join(format!("sandbox-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("blank")).unwrap();
    let output = std::fs::File::create("/dev/stdout").unwrap();
    let (waiting, probe) = Waiting::first(&folder, Network::Off, &output).unwrap();
    let layers = probe.layers();
    println!("{layers:?}");
    let mut args = std::env::args().skip(1);
    let writable: Vec<PathBuf> = args.next().into_iter().map(PathBuf::from).collect();
    let spec = Spec {
        program: args.collect(),
        env: std::env::vars_os().collect(),
        cwd: writable[0].clone(),
        hidden: vec![PathBuf::from("/root/.ssh")],
        protected: vec![writable[0].join(".git/config")],
        writable,
        blank: folder.join("blank"),
        layers,
        ..Spec::default()
    };
    let start = std::time::Instant::now();
    let mut child = waiting.begin(&spec).unwrap();
    // Waiting would close it.
    let lifeline = child.stdin.take();
    let status = child.wait().unwrap();
    drop(lifeline);
    println!("{status} after {:?}", start.elapsed());
    std::fs::remove_dir_all(folder).unwrap();
}
