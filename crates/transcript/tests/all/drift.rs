//! Nothing in real files is unknown, and planted unknowns are found.

use testkit::{RealFile, files_under, fixtures, real_files};
use transcript::format::drift::{Drift, Novelty};
use transcript::format::file;

fn drift_of(files: &[RealFile]) -> Vec<String> {
    let mut drift = Drift::default();
    for file in files {
        drift.begin(&file.path.to_string_lossy());
        file::read(&file.bytes, |record| {
            if let Some(entry) = &record.entry {
                drift.add(record.line.unwrap_or_default(), entry);
            }
        });
    }
    let found = drift.finish();
    let found = found.iter().map(|((version, what), finding)| {
        let name = match what {
            Novelty::Type(name) => format!("type {name}"),
            Novelty::Field(name) => format!("field {name}"),
        };
        let file = std::path::Path::new(&finding.file).file_stem().unwrap().to_string_lossy();
        format!("{} {name} {}x {file}:{}", version.text(), finding.count, finding.line)
    });
    found.collect()
}

#[test]
fn all_genuine_files_are_known() {
    let mut files = real_files();
    files.retain(|file| {
        !file
            .path
            .components()
            .any(|part| part.as_os_str() == "edited" || part.as_os_str() == "observed")
    });
    assert_eq!(drift_of(&files), [""; 0]);
}

/// The hand-made files contain six things that no client writes.
#[test]
fn what_is_planted_is_found() {
    let edited = files_under(&[fixtures().join("edited")]);
    assert_eq!(
        drift_of(&edited),
        [
            "2.1.45 type (none) 1x unknown_type_outside_chain:4",
            "2.1.45 type attachment.future_kind 1x attachment_in_chain:4",
            "2.1.45 type block.future_block 1x unknown_fields_and_blocks:2",
            "2.1.45 type mystery 1x unknown_type_outside_chain:3",
            "2.1.45 field block.text.extra 1x unknown_fields_and_blocks:3",
            "2.1.45 field user.futureField 1x unknown_fields_and_blocks:1",
        ]
    );
}
