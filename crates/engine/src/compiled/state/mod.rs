//! State that outlives the program: what a store remembers, in names and types of the specification. Nothing of how the
//! engine computes is in it: neither slots, indexes and hashes, nor how words are laid out, nor what is subscribed to.
//!
//! [`copy`] copies memory while the events wait, [`write`] encodes it elsewhere, and [`read`] builds a store from it.

mod columns;
mod copy;
mod document;
mod json;
mod names;
mod partials;
mod read;
mod write;

use std::sync::Arc;

use fairstream_core::{CapturedState, OnChange, StateChange, StateError, StateReader};

use self::copy::EngineCopy;
use self::read::Resumed;
use crate::compiled::CompiledEngine;

impl CompiledEngine {
    pub(super) fn copy_state(&self) -> Box<dyn CapturedState> {
        let CompiledEngine { definitions, executor, timeline, .. } = self;
        Box::new(EngineCopy::new(executor.plan(), definitions, *timeline, executor.store()))
    }

    pub(super) fn compare_state(&self, state: &dyn StateReader) -> Result<Vec<StateChange>, StateError> {
        Ok(read::comparison(&read::document(state)?, &self.definitions).changes)
    }

    pub(super) fn read_state(
        &mut self,
        state: &dyn StateReader,
        on_change: OnChange,
    ) -> Result<Vec<StateChange>, StateError> {
        let Resumed { mut store, timeline, changes } =
            read::read(&self.plan, &Arc::clone(&self.definitions), state, on_change)?;
        let chosen = self.executor.choose_representation(&mut store);
        chosen.map_err(|error| StateError::Damaged(self.reason(&error)))?;
        self.timeline = timeline;
        self.executor.resume(store);
        Ok(changes)
    }
}
