//! Fairness files: every error has a place in the file.

use fairstream_fairness::FairnessFile;

/// The text of a fairness file. Its RTLola is not passed to the frontend, which is third-party code.
pub(crate) fn fairness(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match FairnessFile::parse("x.toml", text) {
        Err(problems) => assert!(!problems.to_string().is_empty(), "a reason"),
        Ok(file) => match file.compile(&[]) {
            Err(problems) => assert!(!problems.to_string().is_empty(), "a reason"),
            Ok(compiled) => assert!(!compiled.rtlola().is_empty(), "a specification"),
        },
    }
}
