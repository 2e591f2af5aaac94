//! Hashes of keys in place of keys in the instances of verdicts: those that evidence has.

use std::collections::HashSet;

use fairstream_core::{Cancelled, EngineError, Instance, VerdictRef, VerdictSink};

use crate::KeyHash;
use crate::evidence::key_of;

/// What takes the place of keys.
pub(super) struct Pseudonyms {
    pub(super) hash: KeyHash,
    /// The streams whose first parameter is a key. No other stream has a key among its parameters, unless the file
    /// compares groups or strata by it.
    pub(super) keyed: HashSet<usize>,
    /// An expression of the file whose values may be keys.
    pub(super) of_keys: Option<String>,
}

impl Pseudonyms {
    /// Checks that no value of a stream can be a key: a value is a number or a text of any origin, and cannot be replaced.
    ///
    /// # Errors
    /// An expression whose values may be keys.
    pub(super) fn check(&self) -> Result<(), EngineError> {
        match &self.of_keys {
            None => Ok(()),
            Some(expression) => Err(EngineError::Build(format!(
                "keys are hashed, but the values of `{expression}`, which `select=changes` writes, are made from a \
                 column with keys; write alarms or triggers alone, or leave the key out of the expression"
            ))),
        }
    }

    /// Emits a verdict with the hash in place of the key.
    pub(super) fn emit(&self, verdict: &VerdictRef<'_>, out: &mut dyn VerdictSink) -> Result<(), Cancelled> {
        match verdict.instance {
            Some(instance) if self.keyed.contains(&verdict.stream) => {
                let instance = HashedInstance { instance, hash: &self.hash };
                out.emit(&VerdictRef { instance: Some(&instance), ..*verdict })
            }
            _ => out.emit(verdict),
        }
    }
}

/// An instance of a trial under its pseudonym.
struct HashedInstance<'a> {
    instance: &'a dyn Instance,
    hash: &'a KeyHash,
}

impl Instance for HashedInstance<'_> {
    fn number(&self) -> Option<u64> {
        self.instance.number()
    }

    fn label(&self, text: &mut String) {
        let (mut label, mut behind) = (String::new(), String::new());
        self.instance.label(&mut label);
        self.instance.label_behind_first(&mut behind);
        let comma = if behind == "[]" { "" } else { "," };
        // A pseudonym is hexadecimal and needs no escapes.
        text.push_str(&format!(
            "[\"{}\"{comma}{}",
            self.hash.name(&key_of(&label)),
            behind.trim_start_matches('[')
        ));
    }

    fn label_behind_first(&self, text: &mut String) {
        self.instance.label_behind_first(text);
    }
}
